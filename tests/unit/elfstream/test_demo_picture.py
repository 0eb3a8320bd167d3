"""The live view as text: every line fits, nothing steers the terminal, few lines are used well."""

from __future__ import annotations

import io

import pytest

from elfstream.demo.picture import ServerState, State, picture, summary
from elfstream.screen import Screen, sparkline
from elfstream.terminal import cells

STATE = State(
    servers=[ServerState(f"web{number}", [1000.0 * at for at in range(40)], 123_456, 90) for number in (1, 2, 3)],
    rejected=12, lag_s=1.25, memory_bytes=50_000_000, cpu_share=0.06,
    hot=[("walnut-desk", 28_676), ("oak\x1b[31m-desk", 3_000), *((f"p{at}", 10) for at in range(6))],
    endpoints=[("/product", 101_337, 120, 0.346), ("/checkout", 17_925, 1_810, 3.885),
               *((f"/{at}", 9, 0, None) for at in range(8))],
    logins=[("203.0.113.9", 93), ("203.0.113.\x1b[1m7", 5)], page="http://127.0.0.1:41234",
    events=["13:39:11  web2 renamed access.log"], windows_right=26, windows_wrong=0, at_s=14.2, until_s=20.0,
)  # fmt: skip


@pytest.mark.parametrize("columns", [80, 100, 110, 200])
@pytest.mark.parametrize("lines", [24, 40])
def test_it_fits(columns: int, lines: int) -> None:
    drawn = picture(STATE, columns, lines, colour=False)
    assert len(drawn) < lines
    assert max(map(cells, drawn)) <= min(columns, 110)
    assert not any("\x1b" in line for line in drawn)


def test_what_it_shows() -> None:
    drawn = picture(STATE, 80, 24, colour=False)
    assert drawn[0] == "a fleet of four nodes answers; in a browser: http://127.0.0.1:41234   14 of 20 s"
    assert drawn[5].endswith(" 117 k lines/s        370,368 lines")
    assert drawn[6] == "unread 270 B · windows final 1.2 s behind · rejected 12 · 50.0 MB · cpu 6%"
    assert drawn[10] == "walnut-desk     28,676 █████████████   /product       101,337     0.1%    0.346"
    assert drawn[11] == "oak\\x1b[31m-d…   3,000 █▍              /checkout       17,925    10.1%    3.885"
    assert drawn[-1] == "26 final windows compared with what the generator meant: all equal"


def test_colour_marks_what_hurts_and_what_is_wrong() -> None:
    drawn = picture(STATE._replace(windows_wrong=2), 80, 24, colour=True)
    assert "\x1b[31m    10.1%\x1b[0m\x1b[33m    3.885\x1b[0m" in drawn[11]
    assert drawn[-1] == "\x1b[31m2 windows differ from what the generator meant\x1b[0m"


def test_a_view_without_lines_yet() -> None:
    empty = STATE._replace(servers=[ServerState("web1", [], 0, 0)], lag_s=None, hot=[], endpoints=[], logins=[], events=[])
    assert max(map(cells, picture(empty, 80, 24, colour=False))) <= 80


def test_a_changed_job_has_one_more_column() -> None:
    slowest = STATE._replace(endpoints=[(*row, 9.25) for row in STATE.endpoints])
    drawn = picture(slowest, 100, 24, colour=False)
    assert any(line.endswith("p99 s  slowest") for line in drawn)
    assert any(line.endswith("0.346    9.250") for line in drawn)
    assert max(map(cells, drawn)) <= 100


def test_one_line_per_window() -> None:
    assert summary("20:00:00", "20:00:10", STATE.hot[:1], STATE.endpoints[:2]) == (
        "20:00:00 to 20:00:10  hot: walnut-desk 28,676; 119,262 requests, 1.62% errors, slowest /checkout p99 3.885 s"
    )
    assert summary("a", "b", [], []) == "a to b  hot: ; 0 requests, 0.00% errors"


def test_sparkline() -> None:
    assert sparkline([0, 1, 4, 8], 6) == "   ▁▄█"
    assert sparkline([8, 1, 2], 2, top=8) == "▁▂"
    assert sparkline([], 3) == "   "


def test_a_screen_draws_over_its_last_frame_and_gives_the_cursor_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "4")
    out = io.StringIO()
    with Screen(out) as screen:
        screen.draw(["one", "two"])
        first = len(out.getvalue())
        screen.draw(["1", "2", "3", "4", "5"])
        second = out.getvalue()[first:]
        monkeypatch.setenv("COLUMNS", "60")
        screen.draw(["x"])
    assert "\x1b[2A1\x1b[K\n2\x1b[K\n3\x1b[K\n\x1b[J" in second
    assert "4" not in second
    assert "\x1b[H\x1b[2Jx" in out.getvalue()
    assert out.getvalue().endswith("\x1b[?25h")
