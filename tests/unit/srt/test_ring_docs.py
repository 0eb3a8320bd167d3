"""The automata in the docs are drawn from the tables of the code."""

from __future__ import annotations

from enum import Enum
from pathlib import Path

import pytest

from srt import ring, vertex

DOCS = Path(__file__).resolve().parents[3] / "docs"


def drawing(transitions: dict[tuple[Enum, str], Enum]) -> str:
    return "".join(f"{old.value} -- {trigger} --> {new.value}\n" for (old, trigger), new in transitions.items())


@pytest.mark.parametrize(
    ("page", "transitions"), [("RING.md", ring.TRANSITIONS), ("RING.md", vertex.TRANSITIONS)]
)
def test_the_drawing_is_that_of_the_table(page: str, transitions: dict[tuple[Enum, str], Enum]) -> None:
    assert f"```\n{drawing(transitions)}```" in (DOCS / page).read_text(), drawing(transitions)
