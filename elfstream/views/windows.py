"""Published windows as text: one in a line, one as a table with trends, and as the documents that the API has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from elfstream.remote_results import WindowResult
from elfstream.screen import sparkline
from elfstream.table import GAP, TEXT_WIDTH_MIN, column_texts, cut_column, fit
from elfstream.terminal import BOLD, DIM, GREEN, cells, cut, pad, paint, visible
from elfstream.views.words import count, window_text
from job.json_values import JSON_VALUES
from job.types import Kind
from job.value_texts import READABLE_TEXTS, time_text

LINE_ROWS = 3
"""Rows that a line about a window shows."""


def result_document(result: WindowResult) -> dict[str, Any]:
    """The result as docs/API.md has it: what `window_result` read."""
    window = result.window
    converters = [JSON_VALUES.get(column.type.kind, lambda value: value) for column in result.columns]
    names = [column.name for column in result.columns]
    rows = [
        {n: None if v is None else convert(v) for n, v, convert in zip(names, row, converters, strict=True)}
        for row in result.rows
    ]
    return {
        **result._asdict(),
        "window": window and {"start": time_text(window[0]), "end": time_text(window[1])},
        "published": time_text(result.published),
        "coverage": result.coverage._asdict(),
        "columns": [{"name": column.name, "type": str(column.type)} for column in result.columns],
        "rows": rows,
    }


def window_line(result: WindowResult) -> str:
    """What a window says, in one line: its first rows."""
    shown = [at for at, column in enumerate(result.columns) if column.type.kind is not Kind.WINDOW]
    texts = [READABLE_TEXTS[result.columns[at].type.kind] for at in shown]
    rows = [
        " ".join(
            "NULL" if row[at] is None else visible(text(row[at]))
            for at, text in zip(shown, texts, strict=True)
        )
        for row in result.rows[:LINE_ROWS]
    ]
    more = result.row_count - len(rows)
    what = "; ".join(rows) + (f"; and {count(more, 'row')} more" if more else "") if rows else "no row"
    return f"{window_text(result.window)}  {status_text(result)}  {count(result.lines, 'line')}  {what}"


def status_text(result: WindowResult) -> str:
    """final; from its second edition on with the number, which of a tentative one tells nothing; where it is from."""
    origin = f", {result.origin}" if result.origin == "backfill" else ""
    edition = f", edition {result.revision}" if result.revision > 1 and result.status == "final" else ""
    return f"{result.status}{edition}{origin}"


def window_parts(result: WindowResult) -> list[str]:
    """Window, status, what it rests on."""
    missing = result.coverage.missing
    parts = [
        window_text(result.window),
        status_text(result),
        count(result.lines, "line"),
        count(result.row_count, "row"),
    ]
    parts.append(count(result.coverage.agents, "agent") + (f" ({len(missing)} missing)" if missing else ""))
    return parts


def window_table(
    result: WindowResult,
    columns: int,
    lines: int,
    colour: bool,
    trends: Mapping[int, Sequence[float]] | None = None,
    spark: int = 0,
    trended: str = "",
) -> list[str]:
    """At most `lines` of at most `columns`: a header, a rule, rows, and how many more there are. `trends` are drawn behind
    the rows that they are of (by number), as `spark` bars; `trended` is the column that they are of."""
    rows = result.rows
    room = max(lines - 2, 1)
    if result.row_count > room:
        room = max(room - 1, 1)
    rows = rows[:room]
    shown = [at for at, column in enumerate(result.columns) if column.type.kind is not Kind.WINDOW]
    right = [result.columns[at].type.is_numeric for at in shown]
    names = [visible(result.columns[at].name) for at in shown]
    grouped = any(isinstance(row[at], int | float) and abs(row[at]) >= 10_000 for row in rows for at in shown)
    texts = [
        column_texts(result.columns[at].type.kind, [row[at] for row in rows], True, grouped) for at in shown
    ]
    contents = [max(map(cells, column), default=0) for column in texts]
    available = columns - (spark + len(GAP) if trends is not None else 0)
    least = [
        TEXT_WIDTH_MIN if result.columns[at].type.kind in (Kind.STRING, Kind.ARRAY) else content
        for at, content in zip(shown, contents, strict=True)
    ]
    widths = [max(cells(name), content) for name, content in zip(names, contents, strict=True)]
    widths = fit(widths, least, available - len(GAP) * (len(shown) - 1))
    texts = [cut_column(column, size) for column, size in zip(texts, widths, strict=True)]

    def line(parts: Sequence[str]) -> str:
        padded = (
            pad(cut(text, size), size, is_right)
            for text, size, is_right in zip(parts, widths, right, strict=True)
        )
        return cut(GAP.join(padded), available)

    head = paint(line(names), BOLD, colour)
    if trends:
        head += GAP + paint(f"{trended}, {count(len(trends[0]), 'window')}"[-spark:].rjust(spark), DIM, colour)
    drawn = [head, paint(line(["─" * size for size in widths]), DIM, colour)]
    for at in range(len(rows)):
        text = line([column[at] for column in texts])
        if trends is not None and at in trends:
            text += GAP + paint(sparkline(trends[at], spark), GREEN, colour)
        drawn.append(text)
    if result.row_count > len(rows):
        drawn.append(paint(f"… and {count(result.row_count - len(rows), 'row')} more", DIM, colour))
    return drawn
