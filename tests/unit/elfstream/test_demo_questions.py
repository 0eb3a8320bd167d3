"""The demonstration's own check must be able to say no."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from elfstream.demo.checks import percentile_bounds
from elfstream.demo.evening import Truth, generate
from elfstream.demo.questions import QUESTIONS, Question, compare


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> Truth:
    return generate(tmp_path_factory.mktemp("shop"), 3_000, 1)[1]


def true_rows(question: Question, truth: Truth) -> list[tuple[Any, ...]]:
    """The truth's rows, with the middle of its bounds where a question allows some."""
    rows = question.expected(truth)
    return [tuple(sum(v) / 2 if at in question.within else v for at, v in enumerate(row)) for row in rows]


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.words[:12])
def test_the_truth_passes(question: Question, truth: Truth) -> None:
    rows = true_rows(question, truth)
    assert rows
    assert all(check.is_same for check in compare(question, 1, truth, rows))


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.words[:12])
def test_any_other_value_fails(question: Question, truth: Truth) -> None:
    rows = true_rows(question, truth)
    for at, value in enumerate(rows[-1]):
        wrong = (*rows[-1][:at], value * 1.03 if isinstance(value, float) else None, *rows[-1][at + 1 :])
        if at not in question.figures.values():
            assert not all(check.is_same for check in compare(question, 1, truth, [*rows[:-1], wrong]))
    assert not all(check.is_same for check in compare(question, 1, truth, rows[:-1]))
    assert not all(check.is_same for check in compare(question, 1, truth, [*rows, rows[0]]))


def test_numbers_off_by_one_fail(truth: Truth) -> None:
    for question in QUESTIONS:
        rows = true_rows(question, truth)
        for at in question.figures.values():
            wrong = (*rows[0][:at], rows[0][at] + 1, *rows[0][at + 1 :])
            assert [check.is_same for check in compare(question, 1, truth, [wrong, *rows[1:]])].count(False) == 2


def test_percentile_bounds() -> None:
    low, high = percentile_bounds(Counter([3, 1, 2, 100]), 0.5)
    assert (low, high) == (pytest.approx(2 * 0.99), pytest.approx(3 * 1.01))
    assert percentile_bounds({7: 1}, 0.99) == (pytest.approx(6.93), pytest.approx(7.07))


def test_the_folder_may_be_kept_for_questions(tmp_path: Path) -> None:
    from elfstream.demo.questions import farewell

    generate(tmp_path, 1_000, 1)
    assert f"--server-config {tmp_path}/nginx.conf --format timed" in farewell(tmp_path)
