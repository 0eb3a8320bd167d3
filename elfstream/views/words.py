"""Times, spans and numbers of API documents, as people read them."""

from __future__ import annotations

from datetime import UTC, datetime

from elfstream.terminal import quantity


def moment(text: str | None) -> str:
    """An RFC 3339 time to the second: 2025-11-28 19:30:00Z; `-` for none."""
    return "-" if text is None else text[:19].replace("T", " ") + "Z"


def span(seconds: float | None) -> str:
    """3.5 s, 42 s, 5 m, 3 h, 12 d; `-` for none."""
    if seconds is None:
        return "-"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    for size, unit in ((1, "s"), (60, "m"), (3600, "h")):
        if seconds < {"s": 119.5, "m": 7170, "h": 172_000}[unit]:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 86400:.0f} d"


def rate(number: float | None) -> str:
    """Of something a second: 0.2, 12, 1.10 k; `-` for none."""
    if number is None:
        return "-"
    return f"{number:.1f}" if 0 < number < 9.95 else quantity(number)


def since(text: str | None, now: datetime) -> str:
    """How long ago a time of a document was."""
    return span(None if text is None else max((now - datetime.fromisoformat(text)).total_seconds(), 0.0))


def count(number: int, noun: str) -> str:
    """1 agent, 12,000 agents."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def window_text(window: tuple[datetime, datetime] | None) -> str:
    """2025-11-28 19:30:00 to 19:45:00Z; the end with its date where that is another."""
    if window is None:
        return "since the job began"
    start, end = (time.astimezone(UTC).replace(tzinfo=None).isoformat(" ") for time in window)
    return f"{start} to {end[11:] if start[:10] == end[:10] else end}Z"


def node_name(who: dict[str, object] | None) -> str:
    """The name of a node, else its address."""
    return "-" if who is None else str(who["name"] or who["address"])
