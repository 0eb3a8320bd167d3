"""The sizes and times of links between real nodes, and who may have one."""

from __future__ import annotations

import hmac
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from srt.errors import OptionsError
from srt.options import LinkOptions
from srt.wire import MESSAGE_BYTES_MAX


@dataclass(frozen=True)
class PeerOptions:
    """Links over sockets. Rates are those of one peer: beyond them it is read more slowly, and nobody else is."""

    dial_s: float = 3.0
    """From the first packet to the greeting; then the dial has failed."""
    dials_max: int = 64
    """At a time; others wait."""
    backoff_first_s: float = 0.1
    """Before an address that failed once is dialled again; twice as long with every failure, less up to a half by chance."""
    backoff_max_s: float = 2.0
    backoffs_max: int = 4096
    """Addresses whose failures are remembered."""
    peers_max: int = 4096
    """Links at a time; further nodes are refused. A link without traffic takes about 20 KiB."""
    waiting_bytes_max: int = 1 << 20
    """Messages for whoever answers at an address, while it is dialled."""
    messages_per_s: float = 50_000.0
    bytes_per_s: float = 512.0 * (1 << 20)
    burst_s: float = 0.5
    """What a peer did not use for so long it may use at once."""
    undealt_bytes_max: int = 32 << 20
    """Of one peer, read and not dealt with by the core: beyond, it is not read."""
    undealt_messages_max: int = 20_000
    probe_s: float = 1.0
    """A link that may be dead is given so long to answer."""
    stuck_s: float = 10.0
    """A peer that takes nothing for so long, though something waits, has lost its link."""
    idle_s: float = 300.0
    """A link with no message either way for so long is closed; the next message makes another."""

    def __post_init__(self) -> None:
        problems = [
            f"{name} is {value}, which is not above 0"
            for name in self.__dataclass_fields__
            if not (value := getattr(self, name)) > 0
        ]
        if self.backoff_first_s > self.backoff_max_s:
            problems.append(
                f"backoff_first_s {self.backoff_first_s} is above backoff_max_s {self.backoff_max_s}"
            )
        if problems:
            raise OptionsError("; ".join(problems))

    def fit(self, links: LinkOptions) -> None:
        """OptionsError when a peer that keeps to its credits would not be read."""
        least = links.credit_bytes + MESSAGE_BYTES_MAX
        if self.undealt_bytes_max < least:
            raise OptionsError(
                f"undealt_bytes_max {self.undealt_bytes_max} is below credit_bytes and a message: {least}"
            )


@dataclass(frozen=True)
class PeerAuth:
    """Who may have a link: who knows the token, who has a certificate of our authority; neither: whoever gets through."""

    token: bytes = field(default=b"", repr=False)
    """Empty: none is asked for. Printable ASCII."""
    dial_context: ssl.SSLContext | None = None
    """For dialling others over TLS, with our certificate where they ask for one."""
    certificate_required: bool = False
    """The server's own context has to ask for certificates and to verify them (`CERT_OPTIONAL`, so that browsers get in)."""

    def __post_init__(self) -> None:
        if not all(0x21 <= byte < 0x7F for byte in self.token):
            raise OptionsError("the token has characters other than printable ASCII, or blanks")

    @property
    def headers(self) -> dict[str, str]:
        """What a dial presents."""
        return {"Authorization": f"Bearer {self.token.decode('ascii')}"} if self.token else {}

    def has_token(self, header: str) -> bool:
        """In constant time, whatever is presented."""
        presented = header.encode("utf-8", "surrogateescape")
        return not self.token or hmac.compare_digest(presented, b"Bearer " + self.token)


def certificate_names(certificate: Mapping[str, Any] | None) -> frozenset[str]:
    """The host names and addresses of a verified certificate, as `ssl` shows it."""
    names = (certificate or {}).get("subjectAltName", ())
    return frozenset(value for kind, value in names if kind in ("DNS", "IP Address"))
