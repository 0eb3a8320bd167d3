"""The times and sizes of an agent's streams: frozen, validated together."""

from __future__ import annotations

from dataclasses import dataclass

from agent.errors import OptionsError

MIB = 1 << 20


@dataclass(frozen=True)
class StreamsOptions:
    """Of all streams of an agent. Raises OptionsError naming everything that is wrong."""

    advance_bytes_max: int = 64 * MIB
    fold_bytes_max: int = 64 * MIB
    folds_max: int = 2
    """Ranges of history lanes that are read again at a time, and as many of live lanes."""
    join_bytes_max: int = 8 * MIB
    """The frontier waits for a live lane that reads again no more than this to be there, some ten milliseconds."""
    silence_s: float = 3.0
    """Without an answer for so long a stream is opened again (A2)."""
    settle_s: float = 60.0
    """After a start nothing is let go for so long, as jobs may not have been heard of."""
    retry_s: float = 1.0
    """Before a write that failed, or a cut for which there was no room, is tried again."""

    def __post_init__(self) -> None:
        wrong = [f"{name} must be positive" for name in _POSITIVE if getattr(self, name) <= 0]
        if self.settle_s < 0:
            wrong.append("settle_s must not be negative")
        if wrong:
            raise OptionsError("; ".join(wrong))


_POSITIVE = ("advance_bytes_max", "fold_bytes_max", "folds_max", "join_bytes_max", "silence_s", "retry_s")
