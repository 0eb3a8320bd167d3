"""What is drawn of a fleet, letter by letter."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from elfstream.commands.job_stop import progress
from elfstream.remote_results import RemoteCoverage, WindowResult, window_result
from elfstream.result import ResultColumn, row_class
from elfstream.terminal import cells, cut_middle
from elfstream.views.jobs import (
    change_rows,
    differences,
    final_text,
    job_lines,
    joining_text,
    list_rows,
    state_text,
    word_diff,
)
from elfstream.views.nodes import node_rows
from elfstream.views.top import FleetState, JobState, LineRates, Windows, fleet_picture, job_picture
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
    "lost_bytes": 0, "shed": 0, "outside": 0,
}  # fmt: skip
JOB: dict[str, Any] = {
    "name": "hot", "state": "running", "wanted": "running", "revision": 2,
    "sql": "SELECT path, count(*) AS n\nFROM access\n", "settings": {**Settings().shown(), "emit": "1s"},
    "parameters": {"least": 500}, "source": "access",
    "columns": [{"name": "path", "type": "STRING"}, {"name": "n", "type": "BIGINT"}], "keys": ["path"],
    "plan": "scan lines of access\n  path: STRING\n", "derived": None,
    "created": "2025-11-28T19:00:00.123456Z", "master": WEB1,
    "group": [WEB1, {"name": None, "address": "10.0.0.9:7117", "id": "09"}], "coverage": COVERAGE,
    "watermark": "2025-11-28T19:59:56.5Z", "lag_seconds": 3.5, "horizon": None, "windows_open": 2, "results": 1234,
    "delivered": 0, "problem": None, "rates": {
        "over_seconds": 5.5, "lines_per_second": 1100.0, "parsed_per_second": 1091.2, "rejected_per_second": 8.8,
        "late_per_second": 0.0, "results_per_second": 0.4,
    },
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


def test_a_derived_job_says_what_it_comes_from() -> None:
    derived = {"columns": [{"name": "n", "type": "BIGINT"}], "size": "10s", "text": "SELECT a\nFROM b"}
    job = {**JOB, "sql": None, "source": None, "plan": None, "columns": derived["columns"], "derived": derived}
    lines = list(job_lines(job, NOW))
    assert lines[2:4] == ["  SELECT a", "  FROM b"]
    assert lines[5] == "source     derived: windows of 10s, computed elsewhere"
    assert lines[-1] == "  n  BIGINT"
    assert list_rows([{**job, "changed": job["created"]}], NOW)[0][3] == "derived"


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
        "rates      1.10 k lines/s (1.09 k parsed, 8.8 rejected, 0 late), 0.4 results/s, over the last 5.5 s",
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


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "up to 2025-11-28 19:59:56Z, 3.5 s behind"),
        ({"watermark": None, "lag_seconds": None}, "no line yet"),
        ({"state": "stopped"}, "up to 2025-11-28 19:59:56Z"),
        ({"state": "stopped", "watermark": "9999-12-31T23:59:59Z", "lag_seconds": 0.0}, "all windows"),
    ],
)
def test_up_to_when_windows_are_final(more: dict[str, Any], said: str) -> None:
    assert final_text({**JOB, **more}) == said


def test_facts_of_a_job_are_broken_between_words() -> None:
    drawn = list(job_lines(JOB, NOW, columns=60))
    at = next(number for number, line in enumerate(drawn) if line.startswith("rates"))
    assert drawn[at : at + 3] == [
        "rates      1.10 k lines/s (1.09 k parsed, 8.8 rejected, 0",
        "           late), 0.4 results/s, over the last 5.5 s",
        "windows    2 open, 1,234 results published",
    ]


@pytest.mark.parametrize(
    ("agents", "missing", "able", "said"),
    [
        (0, [], 3, "3 agents with access are joining"),
        (0, [], 1, "1 agent with access is joining"),
        (2, ["web2"], 3, "1 of 3 agents so far, the others are joining"),
        (3, [], 3, "3 agents"),
        (3, [], 2, "3 agents"),
        (0, [], 0, "no agent takes part yet"),
    ],
)
def test_who_takes_part_in_a_job_that_was_just_made(agents: int, missing: list[str], able: int, said: str) -> None:
    job = {**JOB, "coverage": {**COVERAGE, "agents": agents, "missing": missing}}
    assert joining_text(job, able) == said


def test_whom_a_job_waits_for() -> None:
    waits = [{"agent": name, "watermark": f"2025-11-28T19:59:0{at}Z"} for at, name in ((1, "web3"), (4, "web\x07"))]
    job = {**JOB, "coverage": {**COVERAGE, "agents": 3, "missing": []}, "waits_for": waits}
    said = "source     access, 3 agents, waits for web3, web\\x07 (at 19:59:01Z)"
    assert list(job_lines(job, NOW))[5] == said
    assert progress("hot", job)[1:] == [
        f"  waits for {name}; 'elfstream job forget hot {name}' goes on without it" for name in ("web3", "web\\x07")
    ]
    state = FleetState("http://x", [], [JobState("hot", job, LineRates())], 1, "20:00:00Z")
    assert fleet_picture(state, 80, 24, False)[3].split()[3] == "1/3"


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
    trouble = "no leader: 1 of 3 members answers\x07"
    assert list_rows([{**job, "problem": trouble}], NOW)[0][1] == "no leader: 1 of 3 members answers\\x07"


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
    assert change_rows([first, second, third], NOW) == [
        (1, "closed", "60 m ago", "all", "made"),
        (2, "open", "60 m ago", "2025-11-28 19:30:00Z",
         "emit: 1s → 2s; webhook: none → http://x/; empty: false → true; :a: none → 0.5"),
        (3, "failed", "60 m ago", "2025-11-28 19:30:00Z", "nothing (no such field)"),
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
    silent = {**node, "told": "2025-11-28T19:59:08Z"}
    assert node_rows([silent, {**silent, "left": True}], NOW)[0][5] == "52 s ago, silent"
    assert node_rows([{**silent, "left": True}], NOW)[0][5] == "52 s ago"


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
        "lines": 5, "coverage": COVERAGE, "row_count": 1, "origin": "live",
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
        "2025-11-28 20:00:00 to 20:00:10Z  final, edition 2  500 lines  /0 0; /1 1; /2 2; and 2 rows more"
    )
    assert window_line(result(0, status="tentative", revision=2)).endswith("Z  tentative  500 lines  no row")


def test_a_table_fits() -> None:
    one = result(0, *((f"/{'x' * 90}{at}", 10**at) for at in range(9)))
    for columns, lines in ((80, 24), (40, 6), (20, 4)):
        drawn = window_table(one, columns, lines, False)
        assert len(drawn) <= lines
        assert max(map(cells, drawn)) <= columns
    assert window_table(one, 40, 6, False)[-1] == "… and 6 rows more"


def test_rates_are_those_that_the_master_tells_and_begin_anew_with_a_new_job() -> None:
    rates = LineRates()
    assert (rates.now, list(rates.history)) == (None, [])
    rates.note(JOB)
    rates.note({**JOB, "rates": {**JOB["rates"], "lines_per_second": 5.0}})
    assert (rates.now, list(rates.history)) == (5.0, [1100.0, 5.0])
    rates.note({**JOB, "rates": None})  # its master has just begun to lead it
    assert (rates.now, list(rates.history)) == (None, [1100.0, 5.0])
    rates.note({**JOB, "created": "2025-11-28T19:30:00Z"})
    assert list(rates.history) == [1100.0]


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
    rates = LineRates()
    for second in range(8):
        rates.note({**JOB, "rates": {**JOB["rates"], "lines_per_second": 100.0 * (2 * second + 1)}})
    rates.note({**JOB, **more})
    return JobState(name, {**JOB, "name": name, **more}, rates)


NODES = [{"kind": "agent", "left": False}, {"kind": "agent", "left": True}, {"kind": "worker", "left": False}]


def test_top_of_a_fleet() -> None:
    jobs = [
        state("hot"),
        state("errors", state="stopped", lag_seconds=99.0),
        JobState("gone", None, LineRates(), "no answer"),
    ]
    drawn = fleet_picture(FleetState("http://web1:7117", NODES, jobs, 5, "20:00:00Z"), 80, 24, False)
    assert drawn == [
        "elfstream at http://web1:7117 · 1 agent, 1 worker · 5 jobs             20:00:00Z",
        "",
        "job     state     rev  agents  lines/s                         behind    results",
        "hot     running     2     1/2   1.10 k              ▁▂▃▄▅▆▇█▆   3.5 s      1,234",
        "errors  stopped     2     1/2        -              ▁▂▃▄▅▆▇█▆       -      1,234",
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


def test_on_a_narrow_screen_facts_go_before_names_look_alike() -> None:
    names = ["checkout-errors-eu-west-1", "checkout-errors-eu-west-2", "checkout-errors-us-west-1", "hot"]

    def drawn(columns: int) -> list[str]:
        shown = FleetState("http://web1:7117", NODES, [*map(state, names)], 4, "20:00:00Z")
        return fleet_picture(shown, columns, 24, False)[2:-2]

    assert drawn(60) == [
        "job                       state      agents  lines/s  behind",
        "checkout-err…s-eu-west-1  running       1/2   1.10 k   3.5 s",
        "checkout-err…s-eu-west-2  running       1/2   1.10 k   3.5 s",
        "checkout-err…s-us-west-1  running       1/2   1.10 k   3.5 s",
        "hot                       running       1/2   1.10 k   3.5 s",
    ]
    assert drawn(40) == [
        "job                    state      behind",
        "checkout-e…-eu-west-1  running     3.5 s",
        "checkout-e…-eu-west-2  running     3.5 s",
        "checkout-e…-us-west-1  running     3.5 s",
        "hot                    running     3.5 s",
    ]


def test_missing_agents_are_marked_where_they_are_not_counted() -> None:
    one = FleetState("http://web1:7117", NODES, [state("x" * 40)], 1, "20:00:00Z")
    assert "\x1b[33mrunning  \x1b[0m" in fleet_picture(one, 50, 24, True)[3]
    assert "\x1b[33m     1/2\x1b[0m" in fleet_picture(one, 100, 24, True)[3]
    wide = FleetState("http://web1:7117", NODES, [state("hot", coverage={**COVERAGE, "missing": []})], 1, "20:00:00Z")
    assert "\x1b[33m" not in fleet_picture(wide, 100, 24, True)[3]


@pytest.mark.parametrize("text", ["checkout-errors-eu-west-1", "a", "ab", "日本語のログです", "x日本語yのzログ"])
def test_cut_in_the_middle_keeps_both_ends(text: str) -> None:
    for columns in range(1, 30):
        shown = cut_middle(text, columns)
        assert cells(shown) <= columns
        if 5 <= columns < cells(text):
            assert (shown[0], shown[-1], shown.count("…")) == (text[0], text[-1], 1)


def test_top_of_a_job() -> None:
    windows = Windows()
    windows.note(result(0, ("/a", 10), ("/b", 20), number=1))
    windows.note(result(10, ("/b", 40), ("/a", 20), number=2))
    assert job_picture(state("hot"), windows, 80, 24, False) == [
        "hot: running, revision 2 · 2 agents, missing: web2 · 1.10 k lines/s",
        "final 3.5 s behind",
        "2025-11-28 20:00:10 to 20:00:20Z · final · 500 lines · 2 rows · 2 agents",
        "",
        "path   n                n, 2 windows",
        "────  ──",
        "/b    40                          ▄█",
        "/a    20                          ▄█",
        "",
        "q quits",
    ]
    assert job_picture(state("hot"), Windows(), 80, 24, False, foot=False)[2:4] == ["", "no result yet"]
    small = job_picture(state("hot"), windows, 60, 12, False)
    assert small[:3] == [
        "hot: running, revision 2 · 2 agents, missing: web2 · 1.10 k…",
        "2025-11-28 20:00:10 to 20:00:20Z · final · 500 lines · 2 ro…",
        "",
    ]
