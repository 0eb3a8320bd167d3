"""Text for people: what may be shown, how wide it is, where a line stops fitting."""

from __future__ import annotations

import io

import pytest

from elfstream.terminal import cells, cut, has_colour, is_terminal, pad, pointed, quantity, readable, visible


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (950, "950"), (999.4, "999"), (999.6, "1.00 k"), (12_345, "12.3 k"), (3_249_000, "3.25 M"), (7e11, "700 G")],
)
def test_quantity(number: float, text: str) -> None:
    assert quantity(number) == text


def test_quantity_with_a_unit() -> None:
    assert (quantity(12, "B"), quantity(66_000_000, "B")) == ("12 B", "66.0 MB")


def test_visible() -> None:
    assert visible("plain ✓ naïve") == "plain ✓ naïve"
    assert visible("a\x00\t\x1b[2J\x7f\x85\u202e\ufeff") == "a\\x00\\t\\x1b[2J\\x7f\\x85\\u202e\\ufeff"
    assert visible("no-break\u00a0space") == "no-break\u00a0space"


def test_readable_keeps_every_byte_recognisable() -> None:
    assert readable(b"caf\xe9 \xe2\x9c\x93") == "caf\\xe9 ✓"


def test_cells_cut_and_pad_count_columns() -> None:
    assert (cells("漢字"), cells("e\u0301")) == (4, 1)
    assert (cut("abcdef", 6), cut("abcdef", 4)) == ("abcdef", "abc…")
    assert cells(cut("漢字漢字", 4)) <= 4
    assert (pad("漢", 4), pad("7", 3, right=True)) == ("漢  ", "  7")


def test_pointed_puts_the_caret_below_the_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert pointed(b"GET /x", 4) == "  GET /x\n      ^"
    assert pointed(b"\x16\x03 x", 3) == "  \\x16\\x03 x\n           ^"
    assert pointed(b"", 0) == "  \n  ^"


@pytest.mark.parametrize("position", [0, 1, 100, 199, 200])
def test_pointed_fits_and_shows_the_place(position: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    line = bytes(65 + at % 26 for at in range(200))
    text, caret = pointed(line, position).splitlines()
    assert max(len(text), len(caret)) <= 60
    at = caret.index("^")
    assert text[at : at + 1] == line[position : position + 1].decode()
    assert text[2:at].lstrip("…") == line[:position].decode()[-len(text[2:at].lstrip("…")) :] or position == 0


def test_a_closed_stream_is_no_terminal() -> None:
    stream = io.StringIO()
    stream.close()
    assert not is_terminal(stream)
    assert not has_colour(stream)
