"""Rows as text, letter by letter: docs/CLI.md is the contract."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NamedTuple

import pytest

from elfstream.output import STYLES, csv_lines, json_lines, markdown_lines, write
from job.plan import Field
from job.types import ARRAY, BIGINT, BOOLEAN, DOUBLE, NULL, STRING, TIMESTAMP, WINDOW, Type, decimal

NAN, INFINITY = float("nan"), float("inf")


class Window(NamedTuple):
    start: datetime
    end: datetime


def moment(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type,misc]


def one(lines: Any, type: Type, value: Any) -> str:
    """The last line of a result of one column `x` with one row."""
    *_, last = lines([Field("x", type)], [(value,)])
    return last.decode().rstrip("\n")


MINUTE = Window(moment(2024, 9, 30, 7, 10), moment(2024, 9, 30, 7, 11))

VALUES: list[tuple[Type, Any, str, str]] = [
    (NULL, None, "null", ""),
    (BOOLEAN, True, "true", "true"),
    (BOOLEAN, False, "false", "false"),
    (BIGINT, -(2**63), "-9223372036854775808", "-9223372036854775808"),
    (BIGINT, None, "null", ""),
    (decimal(38, 6), Decimal("0.245000"), '"0.245000"', "0.245000"),
    (decimal(38, 6), Decimal("0E-6"), '"0.000000"', "0.000000"),
    (decimal(38, 0), Decimal(10**37), '"1' + "0" * 37 + '"', "1" + "0" * 37),
    (DOUBLE, 0.1, "0.1", "0.1"),
    (DOUBLE, NAN, '"NaN"', "NaN"),
    (DOUBLE, -INFINITY, '"-Infinity"', "-Infinity"),
    (STRING, "", '""', '""'),
    (STRING, 'a,"b"', '"a,\\"b\\""', '"a,""b"""'),
    (STRING, "naïve ✓", '"naïve ✓"', "naïve ✓"),
    (STRING, "two\nlines\r", '"two\\nlines\\r"', '"two\nlines\r"'),
    (STRING, "\x1b[31m\x00", '"\\u001b[31m\\u0000"', "\x1b[31m\x00"),
    (TIMESTAMP, moment(2024, 9, 30, 7, 10), '"2024-09-30T07:10:00Z"', "2024-09-30T07:10:00Z"),
    (TIMESTAMP, moment(1, 1, 1, 0, 0, 0, 5), '"0001-01-01T00:00:00.000005Z"', "0001-01-01T00:00:00.000005Z"),
    (
        WINDOW,
        MINUTE,
        '{"start":"2024-09-30T07:10:00Z","end":"2024-09-30T07:11:00Z"}',
        "2024-09-30T07:10:00Z,2024-09-30T07:11:00Z",
    ),
    (WINDOW, None, "null", ","),
    (ARRAY, [1.5, NAN, None], '[1.5,"NaN",null]', '"[1.5,""NaN"",null]"'),
    (ARRAY, [INFINITY], '["Infinity"]', '"[""Infinity""]"'),
]


@pytest.mark.parametrize(("type", "value", "as_json", "as_csv"), VALUES, ids=repr)
def test_values(type: Type, value: Any, as_json: str, as_csv: str) -> None:
    assert one(json_lines, type, value) == f'{{"x":{as_json}}}'
    assert one(csv_lines, type, value) == as_csv


COLUMNS = [Field("w", WINDOW), Field("my path", STRING), Field("count(*)", BIGINT)]
ROWS = [(MINUTE, "/a_b|c*", 12345), (None, None, 7)]


def test_json_lines_keep_the_order_of_columns() -> None:
    assert b"".join(json_lines(COLUMNS, ROWS)).decode() == (
        '{"w":{"start":"2024-09-30T07:10:00Z","end":"2024-09-30T07:11:00Z"},"my path":"/a_b|c*","count(*)":12345}\n'
        '{"w":null,"my path":null,"count(*)":7}\n'
    )


@pytest.mark.parametrize(
    ("text", "number"),
    [("0.245000", "0.245"), ("0.000000", "0"), ("100", "100"), ("1200.50", "1200.5"), ("0E-6", "0"), ("-0.10", "-0.1")],
)
def test_records_write_decimals_as_numbers(text: str, number: str) -> None:
    lines = json_lines([Field("x", decimal(18, 6))], [(Decimal(text),), (None,)], decimals_as_numbers=True)
    assert b"".join(lines).decode() == f'{{"x":{number}}}\n{{"x":null}}\n'


def test_csv_has_a_header_and_two_columns_a_window() -> None:
    assert b"".join(csv_lines(COLUMNS, ROWS)).decode() == (
        "w.start,w.end,my path,count(*)\n2024-09-30T07:10:00Z,2024-09-30T07:11:00Z,/a_b|c*,12345\n,,,7\n"
    )


def test_csv_reads_back() -> None:
    cells = ["plain", 'say "no"', "a,b", "a\nb", "a\rb", "", " blanks "]
    text = b"".join(csv_lines([Field("x", STRING)], [(cell,) for cell in cells])).decode()
    assert [row[0] for row in csv.reader(io.StringIO(text, newline=""))] == ["x", *cells]


def test_markdown() -> None:
    assert b"".join(markdown_lines(COLUMNS, ROWS)).decode() == (
        "| w                                | my path   | count(\\*) |\n"
        "| -------------------------------- | --------- | --------: |\n"
        "| 2024-09-30 07:10:00 to 07:11:00Z | /a_b\\|c\\* |     12345 |\n"
        "| NULL                             | NULL      |         7 |\n"
    )


def test_markdown_shows_what_strangers_wrote_as_text() -> None:
    assert "&lt;script>" in one(markdown_lines, STRING, "<script>")
    assert "\\\\n" in one(markdown_lines, STRING, "a\n| b |")
    assert "\\`" in one(markdown_lines, STRING, "`")


@pytest.mark.parametrize("style", STYLES)
def test_a_result_without_rows(style: str) -> None:
    out = io.StringIO()
    write(style, COLUMNS, [], out)
    assert len(out.getvalue().splitlines()) == {"table": 2, "json": 0, "csv": 1, "markdown": 2}[style]


def test_a_byte_stream_gets_utf8_whatever_its_encoding() -> None:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii")
    write("csv", [Field("x", STRING)], [("✓",)], out)
    assert raw.getvalue() == "x\n✓\n".encode()
