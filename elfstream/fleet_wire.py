"""The messages of a whole fleet, and what each is charged to on the links between nodes."""

from __future__ import annotations

from typing import Any

from master.group_messages import GROUP_MESSAGES, Append, SnapshotPart
from srt.directory_messages import DIRECTORY_MESSAGES
from srt.frame_messages import FRAME_MESSAGES, ForJob, Up
from srt.wire import Wire

FLEET_MESSAGES: tuple[type, ...] = (*FRAME_MESSAGES, *GROUP_MESSAGES, *DIRECTORY_MESSAGES)
"""Those beside the messages that `srt/wire.py` knows itself."""


def fleet_wire() -> Wire:
    """One per process, made when it starts."""
    return Wire(*FLEET_MESSAGES)


def charged_to(message: Any) -> bytes | None:
    """The key under which links queue a message (`Links.send`, `came`, `done`); None: control.

    What carries rows up a tree is charged to its job. A commit group's log goes under a key of its own, so that it has
    credit while the job is held: a root that cannot commit would never free it. Answers and signs of life are control:
    they are short, late ones cost more than they, and all who wait for them ask again.
    """
    if isinstance(message, ForJob):
        return message.key if isinstance(message.body, Up) else None
    if isinstance(message, SnapshotPart) or (isinstance(message, Append) and message.entries):
        return bytes(byte ^ 0xFF for byte in message.group)
    return None
