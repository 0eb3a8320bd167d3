"""docs/API.md: its commands and its Python run, its tables are complete."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from elfstream.result_tables import tables
from master.problems import KINDS
from tests.memory_fleet import Client, with_fleet

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "API.md").read_text()
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def _blocks(language: str) -> list[str]:
    return [found[2] for found in BLOCK.finditer(PAGE) if found[1] == language]


def test_the_commands_run() -> None:
    known = shutil.which("curl") and subprocess.run(["curl", "--help", "all"], capture_output=True, text=True, check=False)
    if not known or "--json" not in known.stdout:
        pytest.skip("there is no curl of 7.82 or later")

    async def main(client: Client) -> None:
        address = client.fleet.nodes[0].ref.address
        (block,) = _blocks("sh")
        script = block.replace("127.0.0.1:7117", address)
        # Results to be shown appear as soon as the job is there.
        script = script.replace("curl -sf http", "curl -sS --fail-with-body http")
        process = await asyncio.create_subprocess_exec(
            "sh", "-ec", script, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        shown, _ = await process.communicate()
        assert process.returncode == 0, shown.decode()
        assert b'"hits"' in shown
        assert b'"valid":false' in shown
        assert b'"emit":"2s"' in shown
        assert not client.fleet.jobs

    with_fleet(main, 2, tables=tables())


def test_the_python_runs(capsys: pytest.CaptureFixture[str]) -> None:
    async def main(client: Client) -> None:
        (block,) = _blocks("python")
        code = block.replace("127.0.0.1:7117", client.fleet.nodes[0].ref.address)
        await asyncio.to_thread(exec, compile(code, "docs/API.md", "exec"), {})
        assert not client.fleet.jobs

    with_fleet(main)


def test_every_kind_of_problem_and_every_path_is_there() -> None:
    for name, kind in KINDS.items():
        assert f"| {kind.status} | `{name}` | {kind.title}" in PAGE

    async def main(client: Client) -> None:
        for route in client.running.apis[0].app.router.routes():
            assert route.resource is not None
            path = re.sub(r"\{(\w+)\}", lambda found: found[1].upper(), route.resource.canonical)
            shown = path.replace("/v1/jobs/NAME", "NAME") if "NAME" in path else path
            assert shown.replace("NAME", "/v1/jobs/NAME", 1) in PAGE or path.startswith("/v1/problems"), path

    with_fleet(main)
