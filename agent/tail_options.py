"""Limits of the tail, checked together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agent.errors import OptionsError

ReadFrom = Literal["end", "beginning", "since"]


@dataclass(frozen=True)
class TailOptions:
    """How files are followed. Raises OptionsError naming everything that is wrong.

    `read_from` says where files begin that are there at the start ("since": where FindStart says, and not at all when they
    were last written before `since_s`, seconds since 1970); files that appear later are read from their beginning.
    """

    read_from: ReadFrom = "end"
    since_s: float = 0.0
    read_bytes: int = 1 << 20
    """Bytes of a read: about the size of a core's second-level cache, as agent.files.BLOCK_BYTES."""
    turn_bytes_max: int = 4 << 20
    """Bytes of all reads of a turn."""
    line_bytes_max: int = 4 << 20
    """A longer line is delivered cut and skipped to its end, as agent.files.LINE_BYTES_MAX."""
    proof_bytes: int = 1024
    """Bytes hashed at the head and before the offset to tell one log from another."""
    open_max: int = 1024
    """Descriptors; more files wait until others are closed."""
    held_max: int = 512
    """Further ones, of files that somebody may ask to be read again; as many again of files that are not listed any more."""
    open_deleted_max: int = 64
    open_deleted_s: float = 600.0
    """How many files that no pattern names any more are held open, and how long: their disk space is not free."""
    drain_s: float = 5.0
    """A file that is no longer listed is closed when nothing came for so long."""
    idle_close_s: float = 300.0
    """A listed file is closed when nothing came for so long; it is opened again when it grows."""
    settle_s: float = 1.0
    """For so long a short file that equals another log is taken for a copy under way."""
    lost_wait_s: float = 5.0
    """For so long the rest of a truncated log is looked for in other files before it is counted as a gap."""
    retry_s: float = 1.0
    """An unreadable file is tried again so often."""
    logs_max: int = 4096
    """Logs remembered, so that their compressed copies are not read again; about 2 KiB each."""

    def __post_init__(self) -> None:
        wrong = [f"{name} must be positive" for name in _POSITIVE if getattr(self, name) <= 0]
        wrong += [f"{name} must not be negative" for name in _NOT_NEGATIVE if getattr(self, name) < 0]
        if self.turn_bytes_max < self.read_bytes:
            wrong.append("turn_bytes_max must be at least read_bytes")
        if self.read_bytes < self.proof_bytes:
            wrong.append("read_bytes must be at least proof_bytes")
        if self.line_bytes_max < self.read_bytes:
            wrong.append("line_bytes_max must be at least read_bytes")
        if self.open_deleted_max > self.open_max:
            wrong.append("open_deleted_max must be at most open_max")
        if self.read_from not in ("end", "beginning", "since"):
            wrong.append(f"read_from is end, beginning or since, not {self.read_from!r}")
        if wrong:
            raise OptionsError("; ".join(wrong))

    @classmethod
    def tiny(cls, read_from: ReadFrom = "beginning") -> TailOptions:
        """So small that a few lines reach every limit; for tests."""
        return cls(
            read_from=read_from, read_bytes=24, turn_bytes_max=48, line_bytes_max=64, proof_bytes=16,
            open_max=8, open_deleted_max=3, open_deleted_s=60.0, drain_s=2.0, idle_close_s=30.0, settle_s=1.0,
            lost_wait_s=3.0, retry_s=1.0, logs_max=64,
        )  # fmt: skip


_POSITIVE = (
    "read_bytes", "turn_bytes_max", "line_bytes_max", "proof_bytes", "open_max", "held_max", "open_deleted_max", "logs_max",
)  # fmt: skip
_NOT_NEGATIVE = ("open_deleted_s", "drain_s", "idle_close_s", "settle_s", "lost_wait_s", "retry_s", "since_s")
