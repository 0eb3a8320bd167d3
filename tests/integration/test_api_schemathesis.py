"""The API against its own description, as Schemathesis reads it: every answer is one that is described, none is a 500."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.fleet_processes import Fleet, until
from tests.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
CONFIG = f"""
hooks = "{ROOT}/tests/schemathesis_hooks.py"
request-timeout = 300.0
[checks]
# 503 says by its type what is the matter, and that it passes: nobody leads the job yet, the node is busy.
not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", "503"]
"""
CHECKS = (
    "not_a_server_error", "status_code_conformance", "content_type_conformance", "response_headers_conformance",
    "response_schema_conformance", "unsupported_method", "allow_header_conformance",
)  # fmt: skip
HOT = "SELECT window(time, '10 seconds') AS w, path, count(*) AS hits FROM access GROUP BY w, path"


def line(ago_s: int) -> str:
    stamp = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(time.time() - ago_s))
    return f'203.0.113.9 - - [{stamp}] "GET /a HTTP/1.1" 200 12 "-" "x"\n'


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """One node, which has the job of the examples, with results."""
    with Fleet(tmp_path, 1, 0, {"access": "combined"}) as fleet, fleet.client() as client:
        fleet.wait_sources()
        log = fleet.agents[0].folder / "access" / "access.log"
        log.parent.mkdir(exist_ok=True)
        log.write_text("".join(line(ago_s) for ago_s in (90, 90, 45)))
        client.submit("hot", HOT, settings={"since": "1h", "idle": "1s"})
        until(lambda: any(client.job("hot").results(status="final")), PATIENCE_S, "a result")
        yield fleet


def schemathesis(fleet: Fleet, folder: Path, *options: str) -> str:
    """What it reports; asserts that it found nothing."""
    config = folder / "schemathesis.toml"
    config.write_text(CONFIG)
    program = [str(Path(sys.executable).with_name("schemathesis")), "--config-file", str(config), "run"]
    url = f"{fleet.urls()[0]}/v1/openapi.json"
    # A stream of events has no end.
    chosen = ["--checks", ",".join(CHECKS), "--exclude-path-regex", "/stream$", "--continue-on-failure", "--no-color"]
    done = subprocess.run(
        [*program, url, *chosen, *options], cwd=folder, capture_output=True, text=True, check=False, timeout=900
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr
    return done.stdout


def test_what_is_asked_of_a_job_is_answered_as_described(fleet: Fleet, tmp_path: Path) -> None:
    told = schemathesis(fleet, tmp_path, "--phases", "examples,coverage", "--exclude-method", "DELETE", "--seed", "1")
    assert " passed" in told
    with fleet.client() as client:
        (result, *_) = client.job("hot").results()
    assert result.rows


@pytest.mark.stress
@pytest.mark.parametrize("seed", range(3))
def test_what_is_asked_for_minutes_is_answered_as_described(fleet: Fleet, tmp_path: Path, seed: int) -> None:
    schemathesis(fleet, tmp_path, "--max-time", "200", "--seed", str(seed))
