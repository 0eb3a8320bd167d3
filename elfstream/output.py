"""Result rows to text that programs read: JSON lines, CSV, Markdown. Tables for people are in `elfstream.table`.

docs/CLI.md is the contract of these formats; tests compare them letter by letter.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from decimal import Decimal
from typing import IO, Any

from msgspec import Raw
from msgspec.json import Encoder

from elfstream.table import table_lines
from elfstream.terminal import cells, pad, visible
from job.json_values import JSON_VALUES
from job.types import Kind
from job.value_texts import READABLE_TEXTS, TEXTS, NamedType, time_text

# JSON lines


def _json_number(value: Decimal) -> Raw:
    text = format(value, "f")
    return Raw((text.rstrip("0").rstrip(".") if "." in text else text).encode())


def json_lines(
    columns: Sequence[NamedType], rows: Iterable[Sequence[Any]], decimals_as_numbers: bool = False
) -> Iterator[bytes]:
    """One JSON object a row, keys in column order, each ended by LF. DECIMALs are strings unless told otherwise: few
    readers of JSON keep 38 digits of a number."""
    converters = JSON_VALUES | {Kind.DECIMAL: _json_number} if decimals_as_numbers else JSON_VALUES
    encode = Encoder().encode
    names = [column.name for column in columns]
    kinds = [column.type.kind for column in columns]
    converted = [(at, converters[kind]) for at, kind in enumerate(kinds) if kind in converters]
    for row in rows:
        values = list(row)
        for at, convert in converted:
            if values[at] is not None:
                values[at] = convert(values[at])
        yield encode(dict(zip(names, values, strict=True))) + b"\n"


# CSV

_CSV_SPECIAL = re.compile('[",\r\n]')


def _csv_cell(text: str) -> str:
    if text == "" or _CSV_SPECIAL.search(text):
        return '"' + text.replace('"', '""') + '"'
    return text


def csv_lines(columns: Sequence[NamedType], rows: Iterable[Sequence[Any]]) -> Iterator[bytes]:
    """A header, then one line a row, quoted as in RFC 4180, ended by LF. NULL is nothing, the empty string `""`; a window
    is two columns named `w.start` and `w.end`."""
    yield _csv_header(columns)
    texts = [None if column.type.kind is Kind.WINDOW else TEXTS[column.type.kind] for column in columns]
    for row in rows:
        out: list[str] = []
        for text, value in zip(texts, row, strict=True):
            if text is None:
                out += ["", ""] if value is None else [time_text(value[0]), time_text(value[1])]
            else:
                out.append("" if value is None else _csv_cell(text(value)))
        yield (",".join(out) + "\n").encode()


def _csv_header(columns: Sequence[NamedType]) -> bytes:
    names: list[str] = []
    for column in columns:
        is_window = column.type.kind is Kind.WINDOW
        names += [f"{column.name}.start", f"{column.name}.end"] if is_window else [column.name]
    return (",".join(map(_csv_cell, names)) + "\n").encode()


# Markdown

_MARKDOWN_SPECIAL = re.compile(r"[\\|`*\[\]]|(?<!\w)_|_(?!\w)")


def _markdown_cell(text: str) -> str:
    escaped = _MARKDOWN_SPECIAL.sub(lambda match: "\\" + match[0], visible(text))
    return escaped.replace("&", "&amp;").replace("<", "&lt;")


def markdown_lines(columns: Sequence[NamedType], rows: Iterable[Sequence[Any]]) -> Iterator[bytes]:
    """A GitHub table, padded so that it can be read as it is. Needs all rows before the first line."""
    texts = [READABLE_TEXTS[column.type.kind] for column in columns]
    grid = [[_markdown_cell(column.name) for column in columns]]
    for row in rows:
        pairs = zip(texts, row, strict=True)
        grid.append(["NULL" if value is None else _markdown_cell(text(value)) for text, value in pairs])
    right = [column.type.is_numeric for column in columns]
    widths = [max(3, *(cells(line[at]) for line in grid)) for at in range(len(columns))]
    rule = [
        "-" * (width - 1) + ":" if is_right else "-" * width
        for width, is_right in zip(widths, right, strict=True)
    ]
    for line in (grid[0], rule, *grid[1:]):
        padded = [
            pad(text, width, is_right) for text, width, is_right in zip(line, widths, right, strict=True)
        ]
        yield ("| " + " | ".join(padded) + " |\n").encode()


def write(
    style: str, columns: Sequence[NamedType], rows: Iterable[Sequence[Any]], out: IO[str], whole: Collection[str] = ()
) -> None:
    """Writes rows as `table`, `json`, `csv` or `markdown` to the text stream `out`, UTF-8 whatever the locale says. Columns
    named in `whole` are not cut on a narrow terminal."""
    if style == "table":
        lines = table_lines(columns, list(rows), out, whole)
    else:
        lines = {"json": json_lines, "csv": csv_lines, "markdown": markdown_lines}[style](columns, rows)
    write_lines(lines, out)


def write_lines(lines: Iterable[bytes], out: IO[str]) -> None:
    """Writes UTF-8 lines to a text stream, past its own encoding where it has one."""
    binary = getattr(out, "buffer", None)
    if binary is None:
        out.writelines(line.decode() for line in lines)
    else:
        out.flush()
        binary.writelines(lines)
    out.flush()


STYLES = ("table", "json", "csv", "markdown")
