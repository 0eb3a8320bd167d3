"""What is drawn of a fleet, letter by letter."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from elfstream.remote_results import RemoteCoverage, WindowResult, window_result
from elfstream.result import ResultColumn, row_class
from elfstream.terminal import cells
from elfstream.views.jobs import change_rows, differences, job_lines, list_rows, state_text, word_diff
from elfstream.views.nodes import node_rows
from elfstream.views.top import FleetState, JobState, Rate, Windows, fleet_picture, job_picture
from elfstream.views.tree import tree_lines
from elfstream.views.windows import result_document, window_line, window_table
from elfstream.views.words import moment, span, window_text
from job.settings import Settings
from job.types import ARRAY, BIGINT, BOOLEAN, DOUBLE, STRING, TIMESTAMP, WINDOW, decimal
from master.window_values import Window

NOW = datetime(2025, 11, 28, 20, 0, 0, tzinfo=UTC)
WEB1 = {"name": "web1", "address": "10.0.0.1:7117", "id": "01"}
COVERAGE = {
    "agents": 2, "missing": ["web2"], "lines": 12_000, "rows": 11_000, "filtered": 900, "rejected": 100, "late": 3,
    "lost_bytes": 0, "shed": 0,
}  # fmt: skip
JOB: dict[str, Any] = {
    "name": "hot", "state": "running", "wanted": "running", "revision": 2,
    "sql": "SELECT path, count(*) AS n\nFROM access\n", "settings": {**Settings().shown(), "emit": "1s"},
    "parameters": {"least": 500}, "source": "access",
    "columns": [{"name": "path", "type": "STRING"}, {"name": "n", "type": "BIGINT"}], "keys": ["path"],
    "plan": "scan lines of access\n  path: STRING\n", "created": "2025-11-28T19:00:00.123456Z", "master": WEB1,
    "group": [WEB1, {"name": None, "address": "10.0.0.9:7117", "id": "09"}], "coverage": COVERAGE,
    "watermark": "2025-11-28T19:59:56.5Z", "lag_seconds": 3.5, "horizon": None, "windows_open": 2, "results": 1234,
    "delivered": 0, "problem": None,
}  # fmt: skip
COLUMNS = (ResultColumn("w", WINDOW), ResultColumn("path", STRING), ResultColumn("n", BIGINT))


def window(start_s: int) -> Window:
    return Window(NOW + timedelta(seconds=start_s), NOW + timedelta(seconds=start_s + 10))


def result(
    start_s: int, *rows: tuple[str, int], number: int = 1, status: str = "final", revision: int = 1
) -> WindowResult:
    make = row_class(COLUMNS)
    return WindowResult(
        number, window(start_s), revision, status, 1, NOW, 500, RemoteCoverage(2, (), 1, 1, 0, 0, 0, 0, 0), COLUMNS,
        len(rows), [make((window(start_s), *row)) for row in rows],
    )  # fmt: skip


def test_words() -> None:
    assert moment("2025-11-28T19:00:00.123456Z") == "2025-11-28 19:00:00Z"
    assert [span(s) for s in (None, 0.04, 9.9, 42.4, 119, 600, 7200, 90_000, 200_000)] == [
        "-", "0.0 s", "9.9 s", "42 s", "119 s", "10 m", "2 h", "25 h", "2 d"
    ]  # fmt: skip
    assert window_text(window(0)) == "2025-11-28 20:00:00 to 20:00:10Z"
    assert window_text(Window(NOW, NOW + timedelta(days=1))) == "2025-11-28 20:00:00 to 2025-11-29 20:00:00Z"
    assert window_text(None) == "since the job began"


def test_a_job() -> None:
    assert list(job_lines(JOB, NOW)) == [
        "hot: running, revision 2",
        "",
        "  SELECT path, count(*) AS n",
        "  FROM access",
        "",
        "source     access, 2 agents, missing: web2",
        "settings   emit 1s",
        "parameters :least = 500",
        "lines      12,000 read, 900 filtered, 100 rejected, 3 late",
        "final      up to 2025-11-28 19:59:56Z, 3.5 s behind",
        "windows    2 open, 1,234 results published",
        "master     web1; its log is kept by web1, 10.0.0.9:7117",
        "made       2025-11-28 19:00:00Z, 60 m ago",
        "",
        "columns",
        "  path  STRING",
        "  n     BIGINT",
        "plan",
        "  scan lines of access",
        "    path: STRING",
    ]


def test_what_strangers_write_steers_no_terminal() -> None:
    job = {
        **JOB,
        "sql": "SELECT '\x1b[2J'",
        "coverage": {**COVERAGE, "missing": ["w\x07"]},
        "problem": "\x1b]0;x\x07",
    }
    assert "\x1b" not in "".join(job_lines(job, NOW))
    assert "\x07" not in "".join(job_lines(job, NOW))
    drawn = window_line(result(0, ("/\x1b[31m", 3)))
    assert drawn == "2025-11-28 20:00:00 to 20:00:10Z  final  500 lines  /\\x1b[31m 3"


@pytest.mark.parametrize(
    ("state", "wanted", "text"),
    [
        ("running", "running", "running"),
        ("changing", "running", "changing"),
        ("draining", "stopped", "draining"),
        ("running", "removed", "running, shall be removed"),
    ],
)
def test_states(state: str, wanted: str, text: str) -> None:
    assert state_text({"state": state, "wanted": wanted}) == text


def test_the_list_of_jobs() -> None:
    job = {"name": "hot", "state": "running", "revision": 3, "source": "access", "created": "2025-11-28T19:00:00Z",
           "changed": "2025-11-28T19:59:30Z"}  # fmt: skip
    assert list_rows([job], NOW) == [("hot", "running", 3, "access", "60 m", "30 s ago")]


def test_a_word_diff_shows_what_changed_and_nothing_else() -> None:
    before, after = (
        "SELECT path\nFROM access  WHERE status >= 500",
        "SELECT path FROM access WHERE status >= 400 LIMIT 5",
    )
    assert word_diff(before, after) == "SELECT path FROM access WHERE status >= [-500-]{+400 LIMIT 5+}"
    assert word_diff("a 'x y' b", "a 'x z' b") == "a [-'x y'-]{+'x z'+} b"
    assert word_diff("a b", "a c", colour=True) == "a \x1b[31mb\x1b[0m\x1b[32mc\x1b[0m"


def test_revisions_say_what_they_changed() -> None:
    first = {"revision": 1, "sql": "SELECT 1", "settings": {"emit": "1s", "webhook": "", "empty": False}, "parameters": {},
             "start": None, "made": "2025-11-28T19:00:00Z", "state": "closed", "problem": None}  # fmt: skip
    second = {**first, "revision": 2, "settings": {"emit": "2s", "webhook": "http://x/", "empty": True}, "state": "open",
              "parameters": {"a": 0.5}, "start": "2025-11-28T19:30:00Z"}  # fmt: skip
    third = {**second, "revision": 3, "state": "failed", "problem": "no such field"}
    assert change_rows([first, second, third]) == [
        (1, "closed", "2025-11-28 19:00:00Z", "all", "made"),
        (2, "open", "2025-11-28 19:00:00Z", "2025-11-28 19:30:00Z",
         "emit: 1s → 2s; webhook: none → http://x/; empty: false → true; :a: none → 0.5"),
        (3, "failed", "2025-11-28 19:00:00Z", "2025-11-28 19:30:00Z", "nothing (no such field)"),
    ]  # fmt: skip
    assert differences(first, first) == []


def vertex(name: str, children: list[Any] | None = None, **more: Any) -> dict[str, Any]:
    below = children or []
    plain = {"name": name, "address": f"{name}:7117", "id": name, "role": "inner" if below else "leaf", "agents": 1,
             "frames_in": 1000, "frames_out": 10, "problem": None, "children": below, "hidden": 0}  # fmt: skip
    return {**plain, **more}


TREE = vertex("work1", [
    vertex("work2", [vertex("web1"), vertex("web2")], agents=2),
    vertex("web3", problem="no answer in 2 s"),
    vertex("web4"),
], agents=4, role="root", hidden=7)  # fmt: skip
KINDS = {"work1": "worker", "work2": "worker", "web1": "agent", "web2": "agent", "web4": "agent"}


def test_a_tree() -> None:
    assert list(tree_lines(TREE, KINDS, ["web9"])) == [
        "work1 (work1:7117)      worker, master · 4 agents at and below · 1,000 frames in, 10 out",
        "├─ work2 (work2:7117)   worker · 2 agents at and below · 1,000 frames in, 10 out",
        "│  ├─ web1 (web1:7117)  agent · 1,000 frames in, 10 out",
        "│  └─ web2 (web2:7117)  agent · 1,000 frames in, 10 out",
        "├─ web3                 does not answer: no answer in 2 s",
        "├─ web4 (web4:7117)     agent · 1,000 frames in, 10 out",
        "└─ 7 nodes more         --depth shows what is further down",
        "missing: web9",
    ]
    assert max(map(cells, tree_lines(TREE, KINDS, [], columns=40))) <= 40


def test_nodes() -> None:
    node = {"name": "web1", "kind": "agent", "address": "a:1", "sources": ["access", "shop"],
            "started": "2025-11-28T19:00:00Z", "told": "2025-11-28T19:59:58Z", "version": "0.1", "left": False}  # fmt: skip
    gone = {**node, "name": "a", "left": True, "sources": []}
    assert node_rows([gone, node], NOW) == [
        ("web1", "agent", "a:1", "access, shop", "60 m", "2.0 s ago", "0.1"),
        ("a", "agent", "a:1", "-", "left", "2.0 s ago", "0.1"),
    ]


def test_a_result_is_written_as_it_was_read() -> None:
    types = {
        "w": WINDOW,
        "p": STRING,
        "d": decimal(10, 2),
        "f": DOUBLE,
        "t": TIMESTAMP,
        "b": BOOLEAN,
        "a": ARRAY,
    }
    row = {"w": {"start": "2025-11-28T20:00:00Z", "end": "2025-11-28T20:00:10Z"}, "p": None, "d": "1.50", "f": "NaN",
           "t": "2025-11-28T20:00:00.5Z", "b": True, "a": [0.5, None]}  # fmt: skip
    document = {
        "id": 7, "window": row["w"], "revision": 1, "status": "final", "plan": 1, "published": "2025-11-28T20:00:12Z",
        "lines": 5, "coverage": COVERAGE, "row_count": 1,
        "columns": [{"name": name, "type": str(type)} for name, type in types.items()],
        "rows": [row],
    }  # fmt: skip
    read = window_result(document)
    assert read.rows[0].d == Decimal("1.50")
    again = msgspec.json.decode(msgspec.json.encode(result_document(read)))
    assert again == {**document, "rows": [{**row, "t": "2025-11-28T20:00:00.500000Z"}]}


def test_a_line_about_a_window() -> None:
    rows = [(f"/{at}", at) for at in range(5)]
    assert window_line(result(0, *rows, revision=2)) == (
        "2025-11-28 20:00:00 to 20:00:10Z  final, revision 2  500 lines  /0 0; /1 1; /2 2; and 2 rows more"
    )
    assert window_line(result(0, status="tentative", revision=2)).endswith("Z  tentative  500 lines  no row")


def test_a_table_fits() -> None:
    one = result(0, *((f"/{'x' * 90}{at}", 10**at) for at in range(9)))
    for columns, lines in ((80, 24), (40, 6), (20, 4)):
        drawn = window_table(one, columns, lines, False)
        assert len(drawn) <= lines
        assert max(map(cells, drawn)) <= columns
    assert window_table(one, 40, 6, False)[-1] == "… and 6 rows more"


def test_the_rate_is_told_over_some_steps_and_begins_anew_with_a_new_job() -> None:
    rate = Rate()
    assert (rate.now, rate.history) == (None, [])
    for second in range(10):
        rate.note(second, 100 * second)
    assert (rate.now, rate.history[-1]) == (100.0, 100.0)
    rate.note(10, 5)
    assert rate.now is None


def test_trends_follow_rows_by_their_keys() -> None:
    windows = Windows()
    windows.note(result(0, ("/a", 1), ("/b", 2), number=1))
    windows.note(result(20, ("/c", 9), ("/a", 4), number=5))
    windows.note(result(10, ("/a", 3), number=4, revision=2))
    windows.note(result(10, ("/a", 77), number=3))  # an older revision, late
    assert windows.newest is not None
    assert windows.newest.id == 5
    assert windows.trends(["path"]) == ("n", {0: [0.0, 0.0, 9.0], 1: [1.0, 3.0, 4.0]})
    windows.note(result(20, number=6, status="withdrawn"))
    assert windows.newest.id == 4
    for at in range(40):
        windows.note(result(at * 10, ("/a", at), number=10 + at))
    assert len(windows.trends(["path"])[1][0]) == 30


def state(name: str, **more: Any) -> JobState:
    rate = Rate()
    for second in range(9):
        rate.note(second, 100 * second * second)
    return JobState(name, {**JOB, "name": name, **more}, rate)


NODES = [{"kind": "agent", "left": False}, {"kind": "agent", "left": True}, {"kind": "worker", "left": False}]


def test_top_of_a_fleet() -> None:
    jobs = [
        state("hot"),
        state("errors", state="stopped", lag_seconds=99.0),
        JobState("gone", None, Rate(), "no answer"),
    ]
    drawn = fleet_picture(FleetState("http://web1:7117", NODES, jobs, 5, "20:00:00Z"), 80, 24, False)
    assert drawn == [
        "elfstream at http://web1:7117 · 1 agent, 1 worker · 5 jobs             20:00:00Z",
        "",
        "job     state     rev  agents  lines/s                         behind    results",
        "hot     running     2     1/2   1.10 k               ▁▂▃▄▅▆▇█   3.5 s      1,234",
        "errors  stopped     2     1/2   1.10 k               ▁▂▃▄▅▆▇█       -      1,234",
        "gone    no answer",
        "… and 2 jobs more",
        "",
        "q quits",
    ]


@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (100, 50), (60, 10), (200, 24), (40, 12)])
def test_top_fits(columns: int, lines: int) -> None:
    jobs = [state("j" * (at + 1)) for at in range(40)]
    trouble = "no answer: " + "x" * 300
    drawn = fleet_picture(
        FleetState("http://web1:7117", NODES, jobs, 400, "20:00:00Z", trouble), columns, lines, False
    )
    assert len(drawn) < lines
    assert max(map(cells, drawn)) <= columns
    windows = Windows()
    for at in range(5):
        windows.note(result(10 * at, *((f"/{'ü' * n}", n * 999) for n in range(60)), number=at))
    picture = job_picture(jobs[0], windows, columns, lines, False, trouble)
    assert len(picture) < lines
    assert max(map(cells, picture)) <= columns


def test_top_of_a_job() -> None:
    windows = Windows()
    windows.note(result(0, ("/a", 10), ("/b", 20), number=1))
    windows.note(result(10, ("/b", 40), ("/a", 20), number=2))
    assert job_picture(state("hot"), windows, 80, 24, False) == [
        "hot: running, revision 2 · 2 agents, missing: web2 · 1.10 k lines/s · final 3.5…",
        "2025-11-28 20:00:10 to 20:00:20Z · final · 500 lines · 2 rows · 2 agents",
        "",
        "path   n                n, 2 windows",
        "────  ──",
        "/b    40                          ▄█",
        "/a    20                          ▄█",
        "",
        "q quits",
    ]
    assert job_picture(state("hot"), Windows(), 80, 24, False, foot=False)[1:3] == ["", "no result yet"]
