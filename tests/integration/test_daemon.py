"""A node as a process: what it says when it cannot start, how it ends, and how it reads its configuration again."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import elfstream as elf
from elfstream.metrics import METRICS, PREFIX
from tests.integration.fleet_processes import Fleet, free_port, is_ready, until
from tests.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
BEGAN_S = int(time.time()) - 60
SETTINGS = {"since": "1d", "idle": "1s", "delay": "0s"}
"""A run of all tests may reach these many minutes after it read this file."""


def line(second: int) -> str:
    """Logged so long after the minute before the test."""
    stamp = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(BEGAN_S + second))
    return f'203.0.113.9 - - [{stamp}] "GET /a HTTP/1.1" 200 12 "-" "x"\n'


def config(folder: Path, port: int, *sources: str) -> Path:
    file = folder / "node.toml"
    text = f'[node]\nname = "web1"\nlisten = "127.0.0.1:{port}"\ndata_dir = "{folder}/data"\n'
    for name in sources:
        (folder / name).mkdir(exist_ok=True)
        text += f'[[sources]]\nname = "{name}"\npaths = ["{folder}/{name}/access.log*"]\nread_from = "beginning"\n'
    file.write_text(text)
    return file


def run_node(file: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "elfstream", "node", "-c", str(file)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE_S)


def test_a_wrong_configuration_is_told_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text('[node]\nlistn = "127.0.0.1:1"\n')
    done = run_node(file)
    assert done.returncode == 78
    assert f"{file}:2: node.listn" in done.stderr
    assert "elfstream check -c" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_in_use_is_told_by_name(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run_node(config(tmp_path, port))
    assert done.returncode == 1
    assert f"127.0.0.1:{port}: the port is in use" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture
def node(tmp_path: Path) -> Iterator[tuple[Path, int, subprocess.Popen[bytes]]]:
    port = free_port(random.Random(os.getpid()))
    file = config(tmp_path, port, "access")
    with (tmp_path / "log").open("wb") as log:
        command = [sys.executable, "-m", "elfstream", "node", "-c", str(file)]
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
    try:
        until(lambda: is_ready(f"http://127.0.0.1:{port}"), PATIENCE_S, "the node")
        yield tmp_path, port, process
    finally:
        process.kill()
        process.wait()


def metrics(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE_S) as answer:
        return str(answer.read(), "utf-8")


def finals(client: elf.Client, name: str) -> list[tuple[object, ...]]:
    return [tuple(row)[1:] for result in client.job(name).results(status="final") for row in result.rows]


def test_sources_are_reloaded_while_it_runs_and_keep_their_place(
    node: tuple[Path, int, subprocess.Popen[bytes]],
) -> None:
    folder, port, process = node
    sql = "SELECT window(time, '1 second') AS w, count(*) AS hits FROM {} GROUP BY w"
    with elf.connect(f"http://127.0.0.1:{port}") as client:
        until(lambda: len(client.sources()) == 1, PATIENCE_S, "the first source")
        log = folder / "access" / "access.log"
        log.write_text(line(1))
        client.submit("first", sql.format("access"), settings=SETTINGS)
        with log.open("a") as file:
            file.write(line(3))
        until(lambda: finals(client, "first") == [(1,), (1,)], PATIENCE_S, "the windows of the first lines")
        config(folder, port, "access", "shop")
        process.send_signal(signal.SIGHUP)
        until(lambda: len(client.sources()) == 2, PATIENCE_S, "the second source")
        with log.open("a") as file:
            file.write(line(5) * 2)
        (folder / "shop" / "access.log").write_text(line(7) * 3)
        client.submit("second", sql.format("shop"), settings=SETTINGS)
        until(lambda: finals(client, "second") == [(3,)], PATIENCE_S, "the window of the new source")
        until(lambda: 'elfstream_job_agents{job="second"} 1' in metrics(port), PATIENCE_S, "figures of the jobs")
        text = metrics(port)
        assert "\nelfstream_jobs_led 2\n" in text
        missing = {one.name for one in METRICS if f"# TYPE {PREFIX}{one.name} " not in text}
        assert missing <= {"memory_max_bytes", "spill_max_bytes"}  # limits that are not set
        until(lambda: finals(client, "first") == [(1,), (1,), (2,)], PATIENCE_S, "the old source going on")
    process.terminate()
    assert process.wait(PATIENCE_S) == 0
    assert "stopped" in (folder / "log").read_text()


def test_a_broken_configuration_is_not_reloaded(node: tuple[Path, int, subprocess.Popen[bytes]]) -> None:
    folder, port, process = node
    (folder / "node.toml").write_text("[node\n")
    process.send_signal(signal.SIGHUP)
    until(lambda: "the old one stays" in (folder / "log").read_text(), PATIENCE_S, "the complaint")
    assert is_ready(f"http://127.0.0.1:{port}")


def test_a_node_stops_at_once_though_others_have_links_to_it(tmp_path: Path) -> None:
    with Fleet(tmp_path, 1, 2, {"access": "combined"}) as fleet:
        first = fleet.workers[0]
        assert first.stop() == 0
        assert "stopped" in first.said.read_text()


def reload(port: int) -> tuple[int, dict[str, Any]]:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/-/reload", method="POST")
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refused:
        return refused.code, json.load(refused)


def test_a_reload_over_http_says_what_it_changed(node: tuple[Path, int, subprocess.Popen[bytes]]) -> None:
    folder, port, process = node
    assert reload(port)[1]["changed"] == []
    text = config(folder, port, "access", "shop").read_text()
    file = folder / "node.toml"
    file.write_text(text.replace("[node]\n", '[node]\nfleet = "b"\nlog_level = "warning"\nlog_format = "json"\n'))
    status, done = reload(port)
    assert status == 200
    assert done["changed"] == ["node.log_level", "node.log_format", "sources.shop"]
    assert done["restart"] == ["node.fleet"]
    with elf.connect(f"http://127.0.0.1:{port}") as client:
        until(lambda: len(client.sources()) == 2, PATIENCE_S, "the second source")
    file.write_text(text.replace("[node]\n", '[node]\nlog_levle = "info"\n'))
    status, refused = reload(port)
    assert status == 422
    assert refused["errors"] == [
        {"key": "node.log_levle", "problem": refused["errors"][0]["problem"], "file": str(file), "line": 2,
         "advice": refused["errors"][0]["advice"]}
    ]  # fmt: skip
    assert "log_level" in refused["errors"][0]["advice"]
    said = (folder / "log").read_text().splitlines()
    events = [json.loads(one)["event"] for one in said if one.startswith("{")]  # others may come on a busy machine
    assert "the configuration was not reloaded; the old one stays" in events
    assert not any('"reloaded"' in one for one in said)  # it tells warnings alone by then
    process.terminate()
    assert process.wait(PATIENCE_S) == 0


def test_a_node_is_gone_when_its_time_to_drain_is_over(node: tuple[Path, int, subprocess.Popen[bytes]]) -> None:
    folder, port, process = node
    with (folder / "node.toml").open("a") as file:
        file.write('[limits]\ndrain_max = "50ms"\n')
    assert reload(port)[1]["changed"] == ["limits.drain_max"]
    process.terminate()
    assert process.wait(PATIENCE_S) == 0
    assert "not stopped within limits.drain_max" in (folder / "log").read_text()


def test_a_node_that_is_ready_never_goes_over_what_came_with_the_program_again(tmp_path: Path) -> None:
    """A full collection stops all threads, the loop among them, for as long as there are objects to look at."""
    program = f"""
import gc, os, signal
from elfstream.config.reading import load
from elfstream.daemon import Daemon
from elfstream.sd_notify import Notifier
def ready(self, text):
    print(gc.get_freeze_count(), len(gc.get_objects()))
    os.kill(os.getpid(), signal.SIGTERM)
Notifier.ready = ready
file = {str(config(tmp_path, free_port(random.Random())))!r}
raise SystemExit(Daemon(file, load(file)).run())
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    kept, looked_at = map(int, done.stdout.split())
    assert kept > 20 * looked_at


def test_two_nodes_never_share_a_data_folder(node: tuple[Path, int, subprocess.Popen[bytes]]) -> None:
    folder, _, process = node
    other = folder / "other.toml"
    text = (folder / "node.toml").read_text()
    other.write_text(text.replace("listen = ", "# ").replace("[node]\n", '[node]\nlisten = "127.0.0.1:0"\n'))
    done = run_node(other)
    assert done.returncode == 1
    assert f"in use by another node (process {process.pid})" in done.stderr
