"""The tables of functions agree with the documents and with each other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from job import evaluation_kernels
from job.functions import AGGREGATES, FUNCTIONS, REFUSED, SQL_FUNCTIONS, can_fail, cast_can_fail, is_slow
from job.plan import Call, ColumnRef, Literal, Schema
from job.sql import compile_sql
from job.types import BIGINT, BOOLEAN, DOUBLE, SECONDS, STRING, TIMESTAMP, Type, decimal

DOCS = Path(__file__).resolve().parents[3] / "docs"


def test_the_alphabet_is_the_documented_one() -> None:
    table = (DOCS / "EXPRESSIONS.md").read_text(encoding="utf-8").split("| function |")[1].split("\n\n")[0]
    documented = {name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split(" | ")[0])}
    assert documented == set(FUNCTIONS)


def test_every_name_of_the_language_is_documented() -> None:
    text = (DOCS / "SQL.md").read_text(encoding="utf-8").lower()
    for name in (*SQL_FUNCTIONS, *AGGREGATES):
        assert name in text or name.replace(" ", "(") in text, name


def test_the_examples_of_the_document_compile() -> None:
    text = (DOCS / "SQL.md").read_text(encoding="utf-8")
    fields = {"time": TIMESTAMP, "path": STRING, "status": BIGINT, "request_time": SECONDS}
    examples = re.findall(r"^```sql\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(examples) >= 3
    for sql in examples:
        assert compile_sql(sql, {"access": Schema(fields)}).outputs


def test_every_function_compiles_to_one_of_the_alphabet() -> None:
    for function in SQL_FUNCTIONS.values():
        assert function.plan == "" or function.plan in FUNCTIONS


def test_slow_is_what_the_evaluator_runs_outside_the_kernels() -> None:
    kinds = (BOOLEAN, BIGINT, DOUBLE, STRING, TIMESTAMP, decimal(10, 2))
    for name in FUNCTIONS:
        for source in kinds:
            for target in kinds:
                call = Call(name, (ColumnRef("x", source),), target)
                assert is_slow(call) == evaluation_kernels.is_slow(call), call


def test_no_name_is_both_offered_and_refused() -> None:
    assert not set(REFUSED) & (set(SQL_FUNCTIONS) | set(AGGREGATES))


@pytest.mark.parametrize(
    ("source", "target", "fails"),
    [
        (BIGINT, DOUBLE, False),
        (BIGINT, STRING, False),
        (BIGINT, TIMESTAMP, True),
        (BIGINT, decimal(19, 0), False),
        (BIGINT, decimal(18, 0), True),
        (BIGINT, decimal(20, 2), True),
        (decimal(5, 2), decimal(7, 4), False),
        (decimal(5, 2), decimal(4, 1), True),
        (decimal(5, 2), decimal(5, 1), False),
        (decimal(5, 2), BIGINT, True),
        (STRING, DOUBLE, True),
        (DOUBLE, BIGINT, True),
        (BOOLEAN, BIGINT, False),
        (TIMESTAMP, STRING, False),
    ],
)
def test_which_casts_can_fail(source: Type, target: Type, fails: bool) -> None:
    assert cast_can_fail(source, target) is fails


def test_failing_is_found_anywhere_inside() -> None:
    column = ColumnRef("i", BIGINT)
    total = Call("add", (column, Literal(1, BIGINT)), BIGINT)
    assert can_fail(Call("is_null", (total,), BOOLEAN))
    assert not can_fail(Call("add", (ColumnRef("f", DOUBLE), Literal(1.0, DOUBLE)), DOUBLE))
    assert not can_fail(Call("try_cast", (ColumnRef("s", STRING),), BIGINT))
    assert not can_fail(column)


def test_every_deviation_names_a_test_that_exists() -> None:
    text = (DOCS / "SQL.md").read_text(encoding="utf-8").split("## Where this is not Spark")[1].split("## Limits")[0]
    rows = [row for row in text.splitlines() if row.startswith("| ") and not row.startswith(("| here", "|---"))]
    tests = "".join(path.read_text(encoding="utf-8") for path in DOCS.parent.joinpath("tests").rglob("test_*.py"))
    assert len(rows) > 10
    for row in rows:
        names = re.findall(r"`(test_\w+)`", row.rsplit("|", 2)[1])
        assert names, row
        for name in names:
            assert f"def {name}(" in tests, row
