"""The commands about a fleet, on two nodes that run: what they print, and how they end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from elfstream.cli import main
from elfstream.fleet_session import Fleet
from tests.integration.fleet_processes import ROOT, until
from tests.integration.two_nodes import TwoNodes, two_nodes
from tests.patience import PATIENCE_S
from tests.terminal_model import Session

PATHS = "SELECT window(time, '10 seconds') AS w, path, count(*) AS n FROM access GROUP BY w, path ORDER BY n DESC LIMIT 5"
PATIENT = ("--wait-max", "5m")
"""At 20 processes to a core what takes half a second, from a job to its first cut, takes 20 s; it is no test of that."""
COMMAND = [sys.executable, "-m", "elfstream"]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoNodes]:
    with two_nodes(tmp_path_factory.mktemp("fleet")) as running:
        done = run(
            running, "job", "submit", "paths", PATHS, "--set", "since=1h", "--set", "emit=100ms", "--wait", *PATIENT
        )
        assert (done.exit_code, done.output) == (0, "paths: running, revision 1, 1 agent\n")
        yield running


def run(fleet: TwoNodes, *arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(main, arguments, env={"ELFSTREAM_URL": fleet.url}, input=stdin)


def printed(fleet: TwoNodes, *arguments: str, code: int = 0) -> str:
    done = run(fleet, *arguments)
    assert done.exit_code == code, done.output
    return done.stderr if code else done.stdout


def test_a_job_from_its_making_to_its_end(fleet: TwoNodes, tmp_path: Path) -> None:
    file = tmp_path / "errors.sql"
    file.write_text(
        "SELECT window(time, '1 minute') AS w, count(*) AS n FROM access WHERE status >= :least GROUP BY w\n"
    )
    arguments = (
        "--file",
        str(file),
        "--param",
        "least=500",
        "--set",
        "since=1h",
        "--set",
        "lateness=0s",
        "--wait",
        *PATIENT,
    )
    assert printed(fleet, "job", "submit", "errors", *arguments).startswith(
        "errors: running, revision 1, 1 agent\n"
    )
    assert printed(fleet, "job", "submit", "errors", *arguments).startswith("errors: running, revision 1")
    assert [line.split()[0] for line in printed(fleet, "job", "list").splitlines()] == [
        "job",
        "------",
        "errors",
        "paths",
    ]
    shown = printed(fleet, "job", "show", "errors")
    assert "parameters :least = 500" in shown
    assert "agg0 = count(*): BIGINT" in shown
    changed = printed(fleet, "job", "update", "errors", "--param", "least=400", "--set", "emit=2s")
    first, second, last = changed.splitlines()
    assert (first, second) == ("emit: 500ms → 2s", ":least: 500 → 400")
    assert last.startswith("errors: revision 2, for windows from 20")
    changes = json.loads(printed(fleet, "job", "changes", "errors", "-o", "json"))
    assert [(one["revision"], one["parameters"]["least"]) for one in changes] == [(1, 500), (2, 400)]
    assert "emit: 500ms → 2s; :least: 500 → 400" in printed(fleet, "job", "changes", "errors")
    assert printed(fleet, "job", "stop", "errors", "--drain").startswith(
        "errors: stopped, all windows are final, "
    )
    rows = printed(fleet, "job", "results", "errors", "--status", "final", "-o", "csv").splitlines()
    assert rows[0] == "_start,_end,_revision,_status,w.start,w.end,n"
    assert rows[1].endswith(",60")
    assert printed(fleet, "job", "remove", "errors") == "errors: removed with its results\n"


def test_the_nodes_and_the_tree(fleet: TwoNodes) -> None:
    nodes = [line.split()[:2] for line in printed(fleet, "nodes").splitlines()[2:]]
    assert nodes == [["web1", "agent"], ["work1", "worker"]]
    drawn = printed(fleet, "tree", "paths").splitlines()
    assert ", master · 1 agent at and below · " in drawn[0]
    assert "web1 (127.0.0.1:" in "".join(drawn)
    assert json.loads(printed(fleet, "tree", "paths", "-o", "json"))["role"] == "root"
    until(lambda: " 1 agent, 1 worker · 1 job" in printed(fleet, "top"), PATIENCE_S, "all know that one was removed")
    assert json.loads(printed(fleet, "top", "paths", "-o", "json"))[0]["name"] == "paths"


def test_results_in_every_form(fleet: TwoNodes) -> None:
    """Those of the lines that were there before the job."""
    results = json.loads(printed(fleet, "job", "results", "paths", "-o", "json"))
    assert [one["path"] for one in results[0]["rows"]] == ["/cart", "/"]
    assert [one["n"] for one in results[0]["rows"]] == [20, 10]
    lines = printed(fleet, "job", "results", "paths", "-o", "ndjson", "--limit", "2").splitlines()
    assert [json.loads(line)["window"] for line in lines] == [one["window"] for one in results[:2]]
    start = results[1]["window"]["start"]
    later = json.loads(printed(fleet, "job", "results", "paths", "-o", "json", "--from", start))
    assert later[0]["window"]["start"] == start
    table = printed(fleet, "job", "results", "paths", "--limit", "1").splitlines()
    assert table[0].split() == ["w", "path", "n", "status", "edition"]
    assert len(table) == 4
    assert printed(fleet, "job", "results", "paths", "--limit", "1", "-o", "markdown").startswith("| w ")
    assert printed(fleet, "job", "results", "paths", "--from", "2100-01-01", "-o", "json") == "[]\n"


def test_arrow_is_the_same(fleet: TwoNodes) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    done = subprocess.run(
        [*COMMAND, "job", "results", "paths", "-o", "arrow", "--limit", "1", "--url", fleet.url],
        cwd=ROOT, capture_output=True, check=True,
    )  # fmt: skip
    table = pyarrow.ipc.open_stream(done.stdout).read_all()
    assert table.column("path").to_pylist() == ["/cart", "/"]
    assert table.column_names[:4] == ["_start", "_end", "_revision", "_status"]


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        ("job show path", 1, "there is no job path; did you mean paths?"),
        ("nodes --url http://127.0.0.1:70000", 2, "--url http://127.0.0.1:70000: this is no address of a node"),
        ("nodes --url ftp://web1:7117", 2, "--url ftp://web1:7117: this is no address of a node"),
        ("job show zzz", 1, "there is no job zzz; the fleet has paths"),
        ("job update paths --revision 7 --set emit=1s", 1, "job paths has changed since: revision 1 is the current one. "
         "'elfstream job changes paths' shows its revisions. Leave --revision out to change the current one."),
        ("job update paths --set emt=1s", 2, "--set emt: no such setting; did you mean emit?"),
        ("job update paths --set emit=soon", 2, "--set emit: 'soon' is no duration; write 500ms, 10s, 5m, 1h or 1d"),
        ("job update paths --set emit", 2, "--set emit: write name=value, such as --set emit=1s"),
        ("job update paths", 2, "say what shall change: SQL or --file, --set, --param"),
        ("job forget paths web9", 1, "no agent named 'web9' took part in this job"),
        ("job recover paths", 2, "--confirm: entries that only other members have are lost for good"),
        ("job recover paths --confirm paths --url http://a:1,http://b:1", 2, "--url: name the one node whose log it is"),
        ("job results paths --from soon", 2, "'soon' is no time; write 2025-11-28T19:30:00Z, or -10m for ten minutes ago"),
        ("job submit", 2, "Missing argument 'NAME'."),
        ("job submit x", 2, 'say what the job shall answer: "SELECT ...", or --file FILE'),
        ("job shwo", 2, "there is no command shwo; did you mean show?"),
        ("nodes --key x.key", 2, "--key is the key of a certificate; name that with --cert"),
        ("nodes --cacert none.pem", 2, "--cacert: there is no file none.pem; 'elfstream certs' makes certificates"),
        ("backfill path examples/access.log", 1, "there is no job path; did you mean paths?"),
        ("backfill paths none.log", 1, "none.log: no such file"),
        ("backfill paths --from 2100-01-01 examples/access.log", 2, "--from: no window starts then; live are those from 2"),
        ("backfill paths --conf memory=1g examples/access.log", 2, "write spark.NAME=VALUE"),
        ("sink path none", 1, "there is no job path; did you mean paths?"),
        ("nodes --url ,", 2, "--url names no node; write --url http://127.0.0.1:7117"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_what_to_do(
    fleet: TwoNodes, arguments: str, code: int, told: str
) -> None:
    assert told in printed(fleet, *arguments.split(), code=code)
    assert not Path("none").exists()


@pytest.mark.parametrize("command", [["submit", "x"], ["validate"], ["update", "paths"]])
def test_errors_of_sql_have_a_caret(fleet: TwoNodes, command: list[str]) -> None:
    assert printed(fleet, "job", *command, "SELECT stat FROM access", code=2).startswith(
        "elfstream: error: there is no column stat\n  SELECT stat FROM access\n         ^\nDid you mean status"
    )


def test_validate_says_what_a_job_would_do(fleet: TwoNodes) -> None:
    shown = printed(fleet, "job", "validate", "SELECT count(*) AS n FROM access")
    assert shown.endswith("good: 1 column from access\n")
    assert "note: Without a window" in shown
    assert "good: 3 columns" in printed(fleet, "job", "validate", "paths", "--set", "emit=2s")
    assert printed(fleet, "job", "validate", "paths", "--set", "emit=2", code=2).startswith(
        "elfstream: error: --set emit: 2 is"
    )


def test_another_job_of_the_name_is_refused(fleet: TwoNodes) -> None:
    told = printed(fleet, "job", "submit", "paths", "SELECT count(*) AS n FROM access", code=1)
    assert "there is another job of that name. 'elfstream job update paths' changes it" in told


def test_who_asks_a_plain_node_for_tls_is_told(fleet: TwoNodes) -> None:
    url = fleet.url.split(",")[0].replace("http://", "https://")
    told = f"elfstream: error: no node answers at {url}: it speaks no TLS. Does it want http?\n"
    assert printed(fleet, "nodes", "--url", url, code=1) == told  # and nobody is advised to start one


def test_an_address_may_be_a_name_alone() -> None:
    given = {
        "web1": "http://web1:7117", "web1:80": "http://web1:80", "[::1]": "http://[::1]:7117", "http://web1": "http://web1",
        "https://web1/fleet/": "https://web1/fleet/", "web1/fleet": "http://web1/fleet",
    }  # fmt: skip
    assert {text: Fleet((text,))._addresses()[0] for text in given} == given
    assert Fleet(("web1",), cert="x.pem")._addresses() == ["https://web1:7117"]


def test_nobody_there_is_told_at_once() -> None:
    done = CliRunner().invoke(main, ["nodes", "--url", "127.0.0.1:1"])
    assert done.exit_code == 1
    assert done.stderr.startswith(
        "elfstream: error: no node answers at http://127.0.0.1:1: nobody listens there.\nStart one"
    )


def test_names_of_jobs_are_completed(fleet: TwoNodes) -> None:
    environment = {
        "_ELFSTREAM_COMPLETE": "bash_complete",
        "COMP_WORDS": "elfstream job show pa",
        "COMP_CWORD": "3",
    }
    done = CliRunner().invoke(
        main, [], env={**environment, "ELFSTREAM_URL": fleet.url}, prog_name="elfstream"
    )
    assert done.stdout == "plain,paths\n"


def test_watch_in_a_pipe(fleet: TwoNodes) -> None:
    """All that is kept, then what comes, until SIGTERM."""
    command = [*COMMAND, "job", "watch", "paths", "--after", "0", "-o", "json", "--url", fleet.url]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        try:
            assert child.stdout is not None
            first, second = (json.loads(child.stdout.readline()) for _ in range(2))
            assert 0 < first["id"] < second["id"]
            child.send_signal(signal.SIGTERM)
            _, errors = child.communicate()
        finally:
            child.kill()
    assert (child.returncode, errors) == (0, "")


@pytest.mark.parametrize("key", [b"q", b"\x03"])
def test_top_gives_the_terminal_back(fleet: TwoNodes, key: bytes) -> None:
    with Session([*COMMAND, "top", "--url", fleet.url]) as session:
        shown = session.until(lambda lines: lines[3].split()[:4] == ["paths", "running", "1", "1/1"])
        assert shown[0].startswith("elfstream at http://127.0.0.1:")
        assert session.terminal.is_other
        assert not session.terminal.has_cursor
        assert session.modes != session.modes_before
        session.press(b"x" + key)
        assert session.end() == 0
        assert session.modes == session.modes_before
    assert session.terminal.has_cursor
    assert not any(session.terminal.shown())
    assert session.terminal.wrapped == 0


def test_top_of_a_job_and_watch_show_its_newest_window(fleet: TwoNodes) -> None:
    for command, keeps in ((["top", "paths"], False), (["job", "watch", "paths"], True)):
        with Session([*COMMAND, *command, "--url", fleet.url]) as session:
            shown = session.until(lambda lines: any(line.startswith("/cart") for line in lines))
            assert shown[0].startswith("paths: running, revision 1 · 1 agent")
            head = shown.index("") + 1  # titles take one line or two
            assert shown[head].split()[:3] == ["path", "n", "n,"]
            assert "▄" in shown[head + 2] or "█" in shown[head + 2]
            session.press(b"\x03")
            assert session.end() == 0
        assert session.terminal.has_cursor
        assert any(line.startswith("/cart") for line in session.terminal.shown()) == keeps
