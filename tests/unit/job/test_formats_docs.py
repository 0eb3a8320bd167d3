"""docs/FORMATS.md says what the tables of the code say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from job.formats import apache, nginx, w3c
from job.formats.aliases import ALIASES
from job.formats.catalogue import ENTRIES
from job.formats.fields import Meaning

TEXT = (Path(__file__).resolve().parents[3] / "docs" / "FORMATS.md").read_text()


def section(title: str) -> list[list[list[str]]]:
    """The table of a section: rows of cells, each a list of its names in backquotes."""
    text = TEXT.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    return [[re.findall(r"`([^`]+)`", cell) for cell in row] for row in rows[2:]]


def fields_of(meaning: Meaning) -> list[str]:
    return [name for name in meaning.outputs if name is not None]


def test_names() -> None:
    assert [row[:2] for row in section("Names")] == [[[entry.name], list(entry.aliases)] for entry in ENTRIES.values()]
    for entry in ENTRIES.values():
        assert f"| {entry.title} |" in TEXT


def test_aliases() -> None:
    assert {alias: row[0][0] for row in section("Further names") for alias in row[1]} == ALIASES


@pytest.mark.parametrize(
    ("title", "meanings"),
    [
        ("nginx", {f"${name}": meaning for name, meaning in nginx.VARIABLES.items()}),
        (
            "Apache",
            {f"%{letter}": meaning for letter, meaning in apache._PLAIN.items()}
            | {f"%{{{argument}}}{letter}": meaning for (letter, argument), meaning in apache._WITH_ARGUMENT.items()},
        ),
        ("W3C: IIS, CloudFront and others", w3c._MEANINGS),
    ],
)
def test_variables(title: str, meanings: dict[str, Meaning]) -> None:
    told = {name: row[1] for row in section(title) for name in row[0]}
    for name, meaning in meanings.items():
        fields = fields_of(meaning)
        assert told[name][: len(fields)] == fields or (told[name] == [] and fields == [name[1:]]), name
