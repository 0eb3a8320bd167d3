"""A log that stands still is no reason to wait for its agent: on processes."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from click.testing import CliRunner

from elfstream.cli import main
from tests.integration.fleet_processes import Fleet, until
from tests.patience import PATIENCE_S

HITS = "SELECT path, count(*) AS n FROM access GROUP BY path"
LINE = '203.0.113.9 - - [{:%d/%b/%Y:%H:%M:%S +0000}] "GET /{} HTTP/1.1" 200 1 "-" "-"\n'


def test_an_agent_whose_log_is_read_from_its_end_takes_part_without_a_line(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, 2, 1, {"access": "combined"})
    logs = [node.folder / "access" / "access.log" for node in fleet.agents]
    for log in logs:
        log.parent.mkdir()
        log.write_text(LINE.format(datetime.now(UTC), "old"))

    def printed(*arguments: str) -> str:
        done = CliRunner().invoke(main, arguments, env={"ELFSTREAM_URL": ",".join(fleet.urls())})
        assert done.exit_code == 0, done.output
        return done.stdout

    with fleet:
        said = printed("job", "submit", "hits", HITS, "--set", "emit=100ms", "--wait", "--wait-max", "5m")
        assert said == "hits: running, revision 1, 2 agents\n"
        shown = json.loads(printed("job", "show", "hits", "-o", "json"))
        assert (shown["coverage"]["missing"], shown["coverage"]["lines"]) == ([], 0)
        with open(logs[0], "a") as log:
            log.write(LINE.format(datetime.now(UTC), "new"))

        def counted() -> bool:
            results = json.loads(printed("job", "results", "hits", "-o", "json"))
            return bool(results) and results[-1]["rows"] == [{"path": "/new", "n": 1}]

        until(counted, PATIENCE_S, "the line that was written after is in the result")
