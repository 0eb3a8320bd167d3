"""What the generator counted beside what elfstream answered: the end of every demonstration."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from math import ceil, floor
from typing import NamedTuple

from elfstream.table import table_lines
from elfstream.terminal import BOLD, GREEN, RED, paint
from job.plan import Field
from job.types import STRING

QUANTILE_ERROR = 0.01
"""What approx_percentile promises (docs/SQL.md): the relative error of its value."""


class Check(NamedTuple):
    """One line of the final comparison."""

    what: str
    generator: str
    ours: str
    is_same: bool


def percentile_bounds(counts: Mapping[int, int], p: float) -> tuple[float, float]:
    """What approx_percentile may answer for values that came so often: the two beside the rank p, widened by
    QUANTILE_ERROR. O(n log n) for n different values."""
    rank = p * (sum(counts.values()) - 1)
    low, high, passed = None, 0, 0
    for value in sorted(counts):
        passed += counts[value]
        if low is None and passed > floor(rank):
            low = value
        if passed > ceil(rank):
            high = value
            break
    return (0 if low is None else low) * (1 - QUANTILE_ERROR), high * (1 + QUANTILE_ERROR)


def figure(what: str, generator: int, ours: int) -> Check:
    """The comparison of two counts."""
    return Check(what, f"{generator:,}", f"{ours:,}", generator == ours)


def show(checks: Sequence[Check], colour: bool) -> bool:
    """Prints the comparison. Returns whether everything is the same."""
    print(paint("Is it true? The generator counted while it wrote:", BOLD, colour) + "\n")
    columns = [Field(name, STRING) for name in ("", "generator says", "elfstream says", "same")]
    width = max(
        len(columns[1].name), *(len(text) for check in checks for text in (check.generator, check.ours))
    )
    rows = [
        (check.what, check.generator.rjust(width), check.ours.rjust(width), "yes" if check.is_same else "NO")
        for check in checks
    ]
    for line in table_lines(columns, rows, sys.stdout):
        print(line.decode(), end="")
    wrong = sum(not check.is_same for check in checks)
    print()
    if wrong:
        told = f"{wrong} of {len(checks)} comparisons differ: that is a bug in elfstream, please report it."
        print(paint(told, RED, colour))
    else:
        told = (
            f"Every answer is what the generator meant: exactly, and percentiles within {QUANTILE_ERROR:.0%}."
        )
        print(paint(told, GREEN, colour))
    return wrong == 0
