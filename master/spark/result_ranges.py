"""Into which ranges of time a read of results is cut, so that several tasks share it. Pure: asks by a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import pairwise

from job.times import MICROSECOND

Range = tuple[datetime | None, datetime | None]
"""[start, end) of the starts of windows; None: open."""
LAST = datetime.max.replace(tzinfo=UTC)
SHARPENED = 6
"""How often the stretch in which the last window is gets halved: so exact are the ranges' lengths."""


def ranges(
    oldest: Sequence[datetime], behind: Callable[[datetime], datetime | None], asked: Range, parts: int
) -> list[Range]:
    """`asked` in ranges, each moment in one, of equal time from the first window to about the last.

    `oldest` are the starts of the first windows there are, ascending; `behind` tells the first start at or behind a moment
    before the end of `asked`. It is called O(log(all windows / oldest)) times, since the last window is looked for in steps
    that double.
    """
    if not oldest or oldest[-1] - oldest[0] < parts * MICROSECOND:
        return [asked]
    first, reach = oldest[0], oldest[-1]
    step = reach - first
    end = asked[1] or LAST
    found: datetime | None = reach
    while found is not None:
        reach = found
        beyond = reach + step if step < end - reach else end
        found = behind(beyond) if beyond < end else None
        step *= 2
    for _ in range(SHARPENED):
        middle = reach + (beyond - reach) / 2
        found = behind(middle)
        reach, beyond = (reach, middle) if found is None else (found, beyond)
    width = (reach - first) / parts
    return list(pairwise([asked[0], *(first + width * number for number in range(1, parts)), asked[1]]))
