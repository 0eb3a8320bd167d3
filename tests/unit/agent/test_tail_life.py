"""The tables of the tail, and the drawings of them in the documentation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agent.errors import InvariantError, OptionsError
from agent.tail_life import FILE_LIFE, LOG_LIFE, FileCause, FileState, LogState, drawing, step
from agent.tail_options import TailOptions

PAGE = Path(__file__).resolve().parents[3] / "docs" / "TAIL.md"


def test_the_drawings_are_those_of_the_tables() -> None:
    shown = re.findall(r"^```mermaid\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert shown == [drawing(FILE_LIFE), drawing(LOG_LIFE)]


@pytest.mark.parametrize("life", [FILE_LIFE, LOG_LIFE])
def test_every_state_is_in_the_table_and_can_be_reached(life: dict) -> None:  # type: ignore[type-arg]
    assert set(life) == set(type(next(iter(life))))
    reached, front = {next(iter(life))}, [next(iter(life))]
    while front:
        front = [target for state in front for target in life[state].values() if target not in reached]
        reached.update(front)
    assert reached == set(life)


def test_only_gone_and_nothing_else_is_the_end() -> None:
    assert [state for state, steps in FILE_LIFE.items() if not steps] == [FileState.GONE]
    assert [state for state, steps in LOG_LIFE.items() if not steps] == []
    assert LogState.FINISHED in LOG_LIFE


def test_a_step_that_is_not_in_the_table_is_a_bug() -> None:
    with pytest.raises(InvariantError, match="no step from gone by open"):
        step(FILE_LIFE, FileState.GONE, FileCause.OPEN)


def test_every_cause_is_used() -> None:
    assert {cause for steps in FILE_LIFE.values() for cause in steps} == set(FileCause)


def test_all_wrong_options_are_named_at_once() -> None:
    with pytest.raises(OptionsError) as caught:
        TailOptions(read_bytes=0, drain_s=-1, open_deleted_max=5000)
    for name in ("read_bytes must be positive", "drain_s must not be negative", "open_deleted_max must be at most"):
        assert name in str(caught.value)


def test_the_presets_are_valid() -> None:
    assert TailOptions.tiny().read_bytes < TailOptions().read_bytes
