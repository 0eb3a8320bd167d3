"""The manual pages say all there is, and are roff."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import click
import pytest

from elfstream.cli import COMMANDS, main
from elfstream.config.keys import SECTIONS

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def manpages() -> ModuleType:
    spec = importlib.util.spec_from_file_location("manpages", ROOT / "packaging" / "manpages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def plain(page: str) -> str:
    """The text of a page as it is read."""
    for roff, text in {"\\-": "-", "\\(aq": "'", "\\(ga": "`", "\\(ha": "^", "\\(ti": "~", "\\e": "\\", "\\&": ""}.items():
        page = page.replace(roff, text)
    return re.sub(r"\\f[BRI]", "", page)


def test_every_command_and_option_is_there(manpages: ModuleType) -> None:
    page = plain(manpages.command_page())
    context = click.Context(main, info_name="elfstream")
    commands = list(manpages.every_command(main, context))
    assert {inner.command_path for _, inner in commands} >= {f"elfstream {name}" for name in (*COMMANDS, "job watch")}
    for command, inner in commands:
        assert f".SS {inner.command_path} " in page
        for parameter in command.params:
            if isinstance(parameter, click.Option) and not parameter.hidden:
                assert " ".join((parameter.help or "").split()) in page
                assert all(option in page for option in parameter.opts)
        assert " ".join((command.help or "").split("\n\n")[0].split()) in page


def test_every_key_is_there(manpages: ModuleType) -> None:
    page = plain(manpages.node_page())
    for keys in SECTIONS.values():
        for key in keys:
            assert f".TP\n{key.name}\n" in page
            assert key.default in page


def test_no_line_of_text_is_taken_for_a_request(manpages: ModuleType) -> None:
    known = {".TH", ".SH", ".SS", ".TP", ".PP", ".nf", ".fi"}
    for page in (manpages.command_page(), manpages.node_page()):
        for line in page.splitlines():
            assert not line.startswith("'")
            assert not line.startswith(".") or line.split()[0] in known
    assert manpages.escaped(".x") == "\\&.x"
    assert manpages.escaped("a\\b -c") == "a\\eb \\-c"


def test_groff_has_nothing_to_say(manpages: ModuleType, tmp_path: Path) -> None:
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed")
    manpages.write(tmp_path)
    for page in tmp_path.iterdir():
        done = subprocess.run(
            ["groff", "-man", "-ww", "-Tutf8", "-z", page], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
