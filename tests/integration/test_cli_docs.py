"""docs/CLI.md: its commands about a fleet run, and it names all commands and settings there are."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path

from elfstream.cli import COMMANDS
from elfstream.commands.job import COMMANDS as JOB_COMMANDS
from job.settings import Settings
from tests.memory_fleet import Client, with_fleet

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "CLI.md").read_text()
FLEET = PAGE[PAGE.index("## Commands about a fleet") : PAGE.index("## Exit codes")]


def test_the_commands_run(tmp_path: Path) -> None:
    launcher = tmp_path / "elfstream"
    launcher.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m elfstream "$@"\n')
    launcher.chmod(0o755)

    async def main(client: Client) -> None:
        (block,) = re.findall(r"^```sh\n(.*?)^```$", FLEET, re.MULTILINE | re.DOTALL)
        more = {
            "ELFSTREAM_URL": client.running.url(1),
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
        }
        process = await asyncio.create_subprocess_exec(
            "sh", "-ec", block, cwd=ROOT, env={**os.environ, **more},
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        shown = (await process.communicate())[0].decode()
        assert process.returncode == 0, shown
        assert "hot: revision 2, for all windows\n" in shown
        assert "emit: 1s → 500ms\n:least: 200 → 400\n" in shown
        assert shown.endswith("hot: stopped\nhot: removed with its results\n")
        assert not client.fleet.jobs

    with_fleet(main, 2)


def test_every_command_and_setting_is_there() -> None:
    for name in COMMANDS:
        assert f"\nelfstream {name} " in PAGE
    for name in JOB_COMMANDS:
        assert f"| `job {name} " in FLEET or f"| `job {name}`" in FLEET
    for name, value in Settings().shown().items():
        assert f"`{name}` ({str(value).lower()}" in FLEET or name == "webhook"
