"""What the documentation shows is what happens: console examples and Python examples are run.

A ```console block holds commands (`$ elfstream ...`) and their output, to the letter; they run in the checkout. A
```pycon block is a doctest. Commands other than elfstream belong in ```sh blocks, which are not run.

ELFSTREAM_UPDATE_DOCS=1 writes what the commands print into the pages; read the difference before you commit it.
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(console|pycon)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def _blocks(language: str) -> list[tuple[str, str]]:
    return [
        (f"{page.name}:{page.read_text()[: found.start()].count(chr(10)) + 2}", found.group(2))
        for page in PAGES
        for found in BLOCK.finditer(page.read_text())
        if found.group(1) == language
    ]


def _commands(block: str) -> list[tuple[str, str]]:
    """(command, expected output) pairs; a command goes on in lines that start with `> ` or follow a backslash."""
    pairs: list[tuple[str, str]] = []
    for line in block.splitlines(keepends=True):
        if line.startswith("$ "):
            pairs.append((line[2:], ""))
        elif pairs and not pairs[-1][1] and (line.startswith("> ") or pairs[-1][0].endswith("\\\n")):
            pairs[-1] = (pairs[-1][0] + line.removeprefix("> "), "")
        else:
            assert pairs, f"output without a command: {line}"
            pairs[-1] = (pairs[-1][0], pairs[-1][1] + line)
    return pairs


def _shown(command: str) -> str:
    """What a command prints, standard output before standard error, without blanks at line ends."""
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "LC_ALL": "C.UTF-8"}
    run = f"{shlex.quote(sys.executable)} -m {command}"
    done = subprocess.run(
        ["sh", "-c", run], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    return "".join(line.rstrip() + "\n" for line in (done.stdout + done.stderr).splitlines())


@pytest.mark.parametrize(("where", "block"), _blocks("console"), ids=lambda value: value.split("\n")[0][:40])
def test_console_examples(where: str, block: str) -> None:
    for command, expected in _commands(block):
        assert command.startswith("elfstream "), f"{where}: only elfstream commands are run: {command}"
        shown = _shown(command)
        if os.environ.get("ELFSTREAM_UPDATE_DOCS") == "1":
            _update(where.split(":")[0], command, expected, shown)
        else:
            assert shown == expected, f"{where}: {command}"


def _update(page: str, command: str, expected: str, shown: str) -> None:
    (path,) = (path for path in PAGES if path.name == page)
    text = path.read_text()
    lines = command.splitlines(keepends=True)
    before = "$ " + lines[0] + "".join(("> " + line, line)[lines[0].endswith("\\\n")] for line in lines[1:])
    assert before + expected in text, f"{page}: {before}"
    path.write_text(text.replace(before + expected, before + shown, 1))


@pytest.mark.parametrize(("where", "block"), _blocks("pycon"), ids=lambda value: value.split("\n")[0][:40])
def test_python_examples(where: str, block: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    test = doctest.DocTestParser().get_doctest(block, {}, where, where, 0)
    shown: list[str] = []
    doctest.DocTestRunner().run(test, out=shown.append)
    assert shown == [], "".join(shown)


def test_there_are_examples_to_run() -> None:
    assert _blocks("console")
