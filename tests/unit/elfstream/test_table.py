"""Tables for people: whole in a pipe, fitted and grouped in a terminal."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from elfstream.table import column_texts, fit, table_lines
from elfstream.terminal import cells
from job.plan import Field
from job.types import ARRAY, BIGINT, DOUBLE, STRING, TIMESTAMP, Kind, Type, decimal


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return Terminal()


COLUMNS = [Field("path", STRING), Field("hits", BIGINT)]
LONG = "/" + "x" * 60
ROWS: list[tuple[Any, ...]] = [(LONG, 1234567), ("/a", 8), (None, None)]


def text(columns: list[Field], rows: list[tuple[Any, ...]], out: io.StringIO) -> str:
    return b"".join(table_lines(columns, rows, out)).decode()


def test_a_pipe_gets_everything_plain() -> None:
    rule, blank = "-" * 61, " " * 61
    assert text(COLUMNS, ROWS, io.StringIO()) == (
        f"path{blank[4:]}     hits\n{rule}  -------\n{LONG}  1234567\n/a{blank[2:]}        8\nNULL{blank[4:]}     NULL\n"
    )


def test_a_terminal_gets_what_fits(narrow: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert text(COLUMNS, ROWS, narrow).splitlines() == [
        "path                                hits",
        "─────────────────────────────  ─────────",
        "/xxxxxxxxxxxxxxxxxxxxxxxxxxx…  1,234,567",
        "/a                                     8",
        "NULL                                NULL",
    ]


def test_colour_only_where_wanted(narrow: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b[1m" in text(COLUMNS, ROWS, narrow)
    assert "\x1b" not in text(COLUMNS, ROWS, io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in text(COLUMNS, ROWS, narrow)
    monkeypatch.setenv("NO_COLOR", "")
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b" not in text(COLUMNS, ROWS, narrow)


def test_log_text_cannot_steer_the_terminal(narrow: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    shown = text([Field("x\x1b]0;t\x07", STRING)], [("\x1b[2J\n\t\u202eevil\x9b",)], narrow)
    assert "\\x1b[2J\\n\\t\\u202eevil\\x9b" in shown
    assert len(shown.splitlines()) == 3
    assert all(sign.isprintable() or sign == "\n" for sign in shown)


def test_lines_do_not_end_in_blanks() -> None:
    shown = text([Field("a", STRING), Field("b", STRING)], [("x" * 9, ""), ("y", "z")], io.StringIO())
    assert shown.splitlines() == ["a          b", "---------  -", "xxxxxxxxx", "y          z"]


def test_wide_characters_stay_aligned() -> None:
    header, _, first, second = text(COLUMNS, [("漢字", 1), ("ab", 22)], io.StringIO()).splitlines()
    assert {cells(line) for line in (header, first, second)} == {10}


def test_times_are_not_cut(narrow: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    row = (datetime(2025, 11, 28, 19, 30, tzinfo=UTC), LONG, LONG)
    shown = text([Field("t", TIMESTAMP), Field("a", STRING), Field("b", STRING)], [row], narrow)
    assert shown.splitlines()[2] == "2025-11-28 19:30:00Z  /xxxxxxxxxx…  /xxxxxxxxxx…"


def test_many_columns_overflow_rather_than_vanish(narrow: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    shown = text([Field(f"c{at}", STRING) for at in range(6)], [("y" * 30,) * 6], narrow)
    assert shown.splitlines()[2].count("yyyyyyyyyyy…") == 6


@pytest.mark.parametrize(
    ("widths", "least", "available", "want"),
    [
        ([5, 5], [1, 1], 10, [5, 5]),
        ([30, 10], [1, 1], 20, [10, 10]),
        ([30, 10], [1, 10], 15, [5, 10]),
        ([30, 30], [12, 12], 30, [15, 15]),
        ([9, 9], [9, 9], 3, [9, 9]),
    ],
)
def test_fit(widths: list[int], least: list[int], available: int, want: list[int]) -> None:
    assert fit(widths, least, available) == want


NAN = float("nan")


@pytest.mark.parametrize(
    ("type", "values", "human", "plain"),
    [
        (BIGINT, [404, 9999, None], ["404", "9999", "NULL"], ["404", "9999", "NULL"]),
        (decimal(20, 6), [Decimal("1.250000"), Decimal(3)], ["1.25", "3.00"], ["1.250000", "3"]),
        (DOUBLE, [1 / 3, 2.5], ["0.333333", "2.500000"], ["0.3333333333333333", "2.5"]),
        (DOUBLE, [12345.678, 1.0], ["12345.68", "1.00"], ["12345.678", "1.0"]),
        (DOUBLE, [1e-9, NAN], ["1e-09", "NaN"], ["1e-09", "NaN"]),
        (DOUBLE, [1e300], ["1e+300"], ["1e+300"]),
        (DOUBLE, [NAN, 2.0, None], ["NaN", "2", "NULL"], ["NaN", "2.0", "NULL"]),
        (ARRAY, [[1 / 3, None, 2.0]], ["[0.333333, NULL, 2]"], ["[0.3333333333333333, null, 2.0]"]),
        (TIMESTAMP, [datetime(2024, 9, 30, tzinfo=UTC)], ["2024-09-30 00:00:00Z"], ["2024-09-30 00:00:00Z"]),
    ],
)
def test_cells(type: Type, values: list[Any], human: list[str], plain: list[str]) -> None:
    assert column_texts(type.kind, values, human=True) == human
    assert column_texts(type.kind, values, human=False) == plain


def test_commas() -> None:
    assert column_texts(Kind.BIGINT, [-10000, 5, None], human=True, grouped=True) == ["-10,000", "5", "NULL"]
    assert column_texts(Kind.DECIMAL, [Decimal("123456.50")], human=True, grouped=True) == ["123,456.5"]
    assert column_texts(Kind.DOUBLE, [1234.5], human=True, grouped=True) == ["1,234.5"]


def test_one_long_number_groups_the_whole_table(narrow: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    columns = [Field("a", BIGINT), Field("b", BIGINT)]
    assert "1234  9999" in text(columns, [(1234, 9999)], narrow)
    assert "1,234  10,000" in text(columns, [(1234, 10000)], narrow)
    assert "1234  10000" in text(columns, [(1234, 10000)], io.StringIO())


def test_windows_that_end_at_midnight_name_both_days() -> None:
    window = (datetime(2024, 9, 30, 23, tzinfo=UTC), datetime(2024, 10, 1, tzinfo=UTC))
    assert column_texts(Kind.WINDOW, [window, None], human=True) == ["2024-09-30 23:00:00 to 2024-10-01 00:00:00Z", "NULL"]


def test_texts_that_would_look_alike_are_cut_in_their_middle(narrow: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "24")
    columns = [Field("job", STRING), Field("state", STRING)]
    jobs = ["checkout-errors-eu-west-1", "checkout-errors-eu-west-2", "hot"]
    lines = [line.decode().rstrip("\n") for line in table_lines(columns, [(job, "running") for job in jobs], narrow)]
    assert [line.split()[0] for line in lines[2:]] == ["checkou…-west-1", "checkou…-west-2", "hot"]
    alone = [line.decode() for line in table_lines(columns, [(jobs[0], "running")], narrow)]
    assert alone[2].startswith("checkout-error…  running")
    whole = [line.decode() for line in table_lines(columns, [(jobs[0], "running")], narrow, ["job"])]
    assert whole[2] == f"{jobs[0]}  running\n"
