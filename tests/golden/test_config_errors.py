"""What operators get wrong in a node's file, and what they are told: config_errors.txt.

Each entry is a file, and the report about it. Comments in front set the scene: `#env NAME=value`, and `#file NAME MODE TEXT`
beside the file. DIR stands for the folder. ELFSTREAM_UPDATE_DOCS=1 writes what is said today into the file; read the
difference before you commit it.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from elfstream.config import ConfigError, load

GOLDEN = Path(__file__).with_name("config_errors.txt")
MARK, REPORT = "=== ", "\n---\n"
ENTRIES = {
    entry.split("\n", 1)[0]: entry.split("\n", 1)[1].split(REPORT)[0]
    for entry in GOLDEN.read_text("utf-8").split(MARK)[1:]
}


@pytest.fixture(autouse=True)
def _scene(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "web1")


def report(text: str, folder: Path) -> str:
    """What is said about `text`, a line a problem; `good` if nothing is."""
    environ: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith("#env "):
            name, _, value = line.removeprefix("#env ").partition("=")
            environ[name] = value
        elif line.startswith("#file "):
            name, mode, content = line.removeprefix("#file ").split(" ", 2)
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(content.replace("\\n", "\n"))
            (folder / name).chmod(int(mode, 8))
    file = folder / "node.toml"
    file.write_text(text + "\n")
    try:
        load(file, environ)
    except ConfigError as error:
        return str(error).replace(str(folder), "DIR")
    return "good"


@pytest.mark.parametrize("title", ENTRIES)
def test_an_error_says_what_where_and_what_to_do(title: str, tmp_path: Path) -> None:
    text = ENTRIES[title]
    said = report(text, tmp_path)
    assert (said == "good") == title.startswith("good: ")
    for line in () if said == "good" else said.splitlines():
        assert line.startswith(("DIR/", "environment: ELFSTREAM_"))
        assert line.endswith((".", "?", ")")) or "chmod" in line or "chgrp" in line
        if line.startswith("DIR/node.toml:"):
            number = int(line.split(":")[1])
            assert 1 <= number <= len(text.splitlines()) + 1


def test_errors_read_as_recorded(tmp_path: Path) -> None:
    parts = []
    for number, (title, text) in enumerate(ENTRIES.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        parts.append(f"{MARK}{title}\n{text}{REPORT}{report(text, folder)}\n\n")
    now = "".join(parts)
    if os.environ.get("ELFSTREAM_UPDATE_DOCS") == "1":
        GOLDEN.write_text(now, "utf-8")
    assert now == GOLDEN.read_text("utf-8")
