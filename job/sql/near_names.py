"""Which known names an unknown one may have been meant for: a slip of the keyboard, or a part of the name."""

from __future__ import annotations

import re
from collections.abc import Iterable

SHORT = 5
"""Letters of a word that may have one slip; a longer one may have two."""
FAR = 3
BEGIN_LEAST = 3
"""Letters of a name that stands for all that begin so."""
NAMES_MAX = 3
_PARTS = re.compile(r"[^\W_]+")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Advice naming up to three near names, the nearest first, or where no slip explains it those that it is a part of; ""
    where none is near. Names that merely share letters, as request_time and request_line do, would lead astray."""
    distances = {one: _distance(name, one) for one in known}
    near = sorted((far, at, one) for at, (one, far) in enumerate(distances.items()) if far is not None)
    meant = [one for far, _, one in near if far < FAR or near[0][0] == FAR][:NAMES_MAX]
    return f"Did you mean {' or '.join(meant)}?" if meant else ""


def _distance(name: str, known: str) -> int | None:
    """In slips; FAR: it is only a part of the known name; None: it is not near."""
    parts, others = _PARTS.findall(name.lower()), _PARTS.findall(known.lower())
    if not parts or not others:
        return None
    whole, other = "".join(parts), "".join(others)
    if len(parts) == len(others):
        slips = [_slips(one, another) for one, another in zip(parts, others, strict=True)]
        if all(found <= _slips_max(one) for one, found in zip(parts, slips, strict=True)):
            return sum(slips)
    elif _slips(whole, other) <= 1:  # as useragent
        return 1
    is_part = parts in (others[: len(parts)], others[-len(parts) :])
    return FAR if is_part or (len(whole) >= BEGIN_LEAST and other.startswith(whole)) else None


def _slips_max(word: str) -> int:
    return 1 if len(word) <= SHORT else 2


def _slips(one: str, other: str) -> int:
    """Letters that are missing, too many, others, or two that changed places; FAR: more of them than any word may have.
    O(product of the lengths)."""
    if abs(len(one) - len(other)) >= FAR:
        return FAR
    before: list[int] = []
    row = list(range(len(other) + 1))
    for at, letter in enumerate(one):
        last, row = row, [at + 1]
        for to, wanted in enumerate(other):
            least = min(last[to + 1] + 1, row[to] + 1, last[to] + (letter != wanted))
            if at and to and letter == other[to - 1] and one[at - 1] == wanted:
                least = min(least, before[to - 1] + 1)
            row.append(least)
        before = last
    return min(row[-1], FAR)
