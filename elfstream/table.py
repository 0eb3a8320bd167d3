"""Result rows as a table for people.

In a terminal a table fits the width (long texts end in an ellipsis), numbers are grouped and rounded to what an eye
takes in. In a pipe or a file nothing is cut, grouped or rounded.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from decimal import Decimal
from math import isfinite
from typing import IO, Any

from elfstream.terminal import (
    BOLD,
    DIM,
    cells,
    cut,
    cut_middle,
    has_colour,
    is_terminal,
    pad,
    paint,
    visible,
    width,
)
from job.types import Kind
from job.value_texts import READABLE_TEXTS, NamedType, double_text

GAP = "  "
TEXT_WIDTH_MIN = 12
"""Columns that a text keeps, however narrow the terminal."""
CUT_KINDS = (Kind.STRING, Kind.ARRAY)
"""Half a number, half a time or half a window tells nothing."""
GROUPED_FROM = 10_000
"""A table whose numbers have four digits at most is read without commas (SI brochure, 5.4.4); years stay as they are."""
DIGITS_MAX = 6
"""Digits after the point of a DOUBLE in a terminal."""


def table_lines(
    columns: Sequence[NamedType], rows: Sequence[Sequence[Any]], out: IO[str], whole: Collection[str] = ()
) -> Iterator[bytes]:
    """The lines of a table fit for the stream `out`; columns named in `whole` are not cut. O(cells), and all of them in
    memory."""
    human, colour = is_terminal(out), has_colour(out)
    right = [column.type.is_numeric for column in columns]
    names = [visible(column.name) for column in columns]
    grouped = human and any(map(_is_long, (value for row in rows for value in row)))
    texts = [
        column_texts(column.type.kind, [row[at] for row in rows], human, grouped)
        for at, column in enumerate(columns)
    ]
    contents = [max(map(cells, column), default=0) for column in texts]
    widths = [max(cells(name), content) for name, content in zip(names, contents, strict=True)]
    if human:
        least = [
            TEXT_WIDTH_MIN
            if column.type.kind in CUT_KINDS and column.name not in whole
            else max(content, min(cells(name), TEXT_WIDTH_MIN))
            for column, name, content in zip(columns, names, contents, strict=True)
        ]
        widths = fit(widths, least, width() - len(GAP) * (len(columns) - 1))
        texts = [cut_column(column, size) for column, size in zip(texts, widths, strict=True)]
    shown = ((name, size, number, BOLD) for name, size, number in zip(names, widths, right, strict=True))
    yield _line(shown, colour)
    yield (paint(GAP.join(("─" if human else "-") * size for size in widths), DIM, colour) + "\n").encode()
    nulls = [[row[at] is None for row in rows] for at in range(len(columns))]
    for at in range(len(rows)):
        line = zip((column[at] for column in texts), widths, right, nulls, strict=True)
        yield _line(
            ((text, size, number, DIM if null[at] else "") for text, size, number, null in line), colour
        )


def _line(parts: Iterator[tuple[str, int, bool, str]], colour: bool) -> bytes:
    padded = [(pad(cut(text, size), size, number), style) for text, size, number, style in parts]
    line = GAP.join(paint(text, style, colour and style != "") for text, style in padded)
    return (line.rstrip(" ") + "\n").encode()


def cut_column(texts: Sequence[str], columns: int) -> list[str]:
    """Texts cut to so many columns at their ends; in their middle if different ones would look alike. O(texts)."""
    ends = [cut(text, columns) for text in texts]
    seen = len(set(ends))
    if seen == len(set(texts)):
        return ends
    middles = [cut_middle(text, columns) for text in texts]
    return middles if len(set(middles)) > seen else ends


def fit(widths: Sequence[int], least: Sequence[int], available: int) -> list[int]:
    """`widths` cut down to one level so that their sum is at most `available`, but none below its `least` (nor what it
    had): a table of many columns may stay too wide."""

    def levelled(level: int) -> list[int]:
        return [min(width, max(level, floor)) for width, floor in zip(widths, least, strict=True)]

    low, high = 0, max(widths, default=0)
    while low < high:
        level = (low + high + 1) // 2
        low, high = (level, high) if sum(levelled(level)) <= available else (low, level - 1)
    return levelled(low)


def _is_long(value: Any) -> bool:
    """Whether a number is hard to read without groups of three digits."""
    return isinstance(value, int | float | Decimal) and isfinite(value) and not -GROUPED_FROM < value < GROUPED_FROM


def column_texts(kind: Kind, values: Sequence[Any], human: bool, grouped: bool = False) -> list[str]:
    """The cells of one column. `human`: numbers of a column get equally many digits after the point, and no more than an
    eye takes in; `grouped`: and commas between thousands."""
    if human and kind in (Kind.BIGINT, Kind.DECIMAL, Kind.DOUBLE):
        comma = "," if grouped else ""
        if kind is Kind.BIGINT:
            return ["NULL" if value is None else format(value, comma) for value in values]
        return _decimals(values, comma) if kind is Kind.DECIMAL else _doubles(values, comma)
    text = _array_text if human and kind is Kind.ARRAY else READABLE_TEXTS[kind]
    return ["NULL" if value is None else visible(text(value)) for value in values]


def _decimals(values: Sequence[Decimal | None], comma: str) -> list[str]:
    texts = ["" if value is None else format(value, "f").partition(".")[2].rstrip("0") for value in values]
    spec = f"{comma}.{max(map(len, texts), default=0)}f"
    return ["NULL" if value is None else format(value, spec) for value in values]


def _doubles(values: Sequence[float | None], comma: str) -> list[str]:
    finite = [value for value in values if value is not None and isfinite(value)]
    if any(abs(value) >= 1e15 or 0 < abs(value) < 10**-DIGITS_MAX * 100 for value in finite):
        return ["NULL" if value is None else double_text(value) for value in values]
    texts = (f"{value:.{DIGITS_MAX}f}".partition(".")[2].rstrip("0") for value in finite)
    digits = max(map(len, texts), default=0)
    if any(map(_is_long, finite)):
        digits = min(digits, 2)
    spec = f"{comma}.{digits}f"
    shown = (value if value is None or isfinite(value) else double_text(value) for value in values)
    return ["NULL" if v is None else v if isinstance(v, str) else format(v, spec) for v in shown]


def _array_text(values: Sequence[float | None]) -> str:
    return "[" + ", ".join("NULL" if value is None else f"{value:.{DIGITS_MAX}g}" for value in values) + "]"
