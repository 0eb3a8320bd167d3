"""Credits of a link between neighbours; docs/WIRE.md has the table."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from srt.tree_messages import Key

Total = Annotated[int, Meta(ge=0, le=2**63 - 1)]
GRANTS_MAX = 256


class JobGrant(msgspec.Struct, frozen=True, array_like=True, gc=False):
    key: Key
    limit_bytes: Total
    """So many bytes of this job may come in all, counted from the start of the link."""


class Grant(msgspec.Struct, frozen=True, array_like=True, tag="lg"):
    """The receiver's totals only grow, so a lost or doubled grant does no harm."""

    limit_bytes: Total
    """For all jobs together."""
    jobs: Annotated[list[JobGrant], Meta(max_length=GRANTS_MAX)]


class SentSoFar(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="lp"):
    """The sender waits for credit and says how much it sent: what did not arrive before this is lost."""

    total_bytes: Total
    key: Key
    job_bytes: Total


LINK_MESSAGES = (Grant, SentSoFar)
