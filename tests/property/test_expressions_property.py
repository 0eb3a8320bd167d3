"""The kernels against the plain-Python reference, over random columns and random expressions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cython_ext.column import Column
from job.evaluate import Evaluator
from job.evaluation_values import stored, values_of
from job.plan import Call, ColumnRef, Expr, Literal
from job.row_evaluation import RowEvaluator
from job.types import BIGINT, BOOLEAN, DOUBLE, STRING, TIMESTAMP, Kind, Type, decimal

LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1

# --- values ---

_edges = [0, 1, -1, 2, 10, LONG_MIN, LONG_MIN + 1, LONG_MAX, LONG_MAX - 1, 2**31, 10**18]
longs = st.one_of(st.sampled_from(_edges), st.integers(-20, 20), st.integers(LONG_MIN, LONG_MAX))
_day_us = 86_400_000_000
timestamps = st.one_of(
    st.sampled_from([0, -1, LONG_MIN, LONG_MAX, 1_577_836_800_000_000, -62_167_219_200_000_000]),
    st.integers(-(10**15), 2 * 10**15),
    st.integers(-20_000, 40_000).map(lambda day: day * _day_us),
    st.integers(LONG_MIN, LONG_MAX),
)
doubles = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, -1.5, 2.5, 1e308, 5e-324, math.inf, -math.inf, math.nan, 2.0**63, 0.1]),
    st.floats(),
    st.floats(-1000, 1000).map(lambda x: round(x, 2)),
)
_spellings = [
    "", " ", "0", "-1", " 12 ", "1.5", "-.5", "5.", "1e3", "1E-3d", "NaN", "-inf", "0x1p3", "true", "No",
    "T", "1_0", "9223372036854775807", "9223372036854775808", "00000000000000000000017",
    "12345678901234567890.125", "٣", "\x7f7", "2020-02-29", "2021-02-29", "2020-01-02 03:04:05",
    "2020-01-02T03:04:05.123456789Z", "2020-1-2 3:4:5.5+05:30", "2020-01-02 03:04:05 Europe/Berlin", "2020",
    "+12020-01-01", "-0001-12-31 23:59:59", "2020-01-02 24:00:00", "/api/v1?a=b",
    "http://u@h.com:80/p?a=1&b=2#f", "http://h/a b", "a%20b+%C3%A9", "%zz", "%ff", "ÀÉß", "İI", "ΑΣ",
    "a,b,,c", "😀x", "aaa", "%_\\", "//", "mailto:x", "\u00a0",
]  # fmt: skip
texts = st.one_of(
    st.sampled_from(_spellings),
    st.text(alphabet="aAbB/%_,. é😀0", max_size=12),
    st.text(alphabet="0123456789+-.eE: ", max_size=20),
    st.text(alphabet=st.characters(exclude_categories=("Cs",)), max_size=8),
)


def decimals(type_: Type) -> st.SearchStrategy[Any]:
    limit = 10**type_.precision - 1
    scaled = st.one_of(
        st.sampled_from([0, 1, -1, 5, limit, -limit]), st.integers(-limit, limit), st.integers(-999, 999)
    ).filter(lambda value: -limit <= value <= limit)
    return scaled.map(lambda value: Column.from_list(Kind.DECIMAL, [value]).to_list(type_.scale)[0])


def values(type_: Type) -> st.SearchStrategy[Any]:
    if type_.kind is Kind.DECIMAL:
        return decimals(type_)
    table: dict[Kind, st.SearchStrategy[Any]] = {
        Kind.BOOLEAN: st.booleans(),
        Kind.BIGINT: longs,
        Kind.DOUBLE: doubles,
        Kind.STRING: texts,
        Kind.TIMESTAMP: timestamps,
    }
    return table[type_.kind]


DECIMALS = [decimal(38, 0), decimal(38, 38), decimal(18, 6), decimal(5, 2), decimal(38, 10), decimal(20, 18)]
decimal_types = st.sampled_from(DECIMALS)
plain_types = st.sampled_from([BOOLEAN, BIGINT, DOUBLE, STRING, TIMESTAMP])
all_types = st.one_of(plain_types, decimal_types)
number_types = st.one_of(st.sampled_from([BIGINT, DOUBLE]), decimal_types)


def literal(value: Any, type_: Type) -> Literal:
    text = format(value, "f") if type_.kind is Kind.DECIMAL and value is not None else value
    return Literal(text, type_)


def nullable(type_: Type) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), values(type_), values(type_), values(type_))


# --- expressions ---


class Field:
    """Collects the fields that an expression came to need."""

    def __init__(self, draw: Callable[..., Any], rows: int) -> None:
        self.draw, self.rows = draw, rows
        self.data: dict[str, tuple[Type, list[Any], bool]] = {}

    def leaf(self, type_: Type) -> Expr:
        choice = self.draw(st.integers(0, 5))
        if choice == 0:
            return literal(self.draw(nullable(type_)), type_)
        same = [name for name, (other, _, _) in self.data.items() if other == type_]
        if same and choice < 4:
            return ColumnRef(self.draw(st.sampled_from(same)), type_)
        name = f"f{len(self.data)}"
        constant = self.draw(st.integers(0, 4)) == 0
        if constant:
            column = [self.draw(nullable(type_))] * self.rows
        else:
            column = self.draw(st.lists(nullable(type_), min_size=self.rows, max_size=self.rows))
        self.data[name] = (type_, column, constant)
        return ColumnRef(name, type_)

    def columns(self) -> dict[str, Column]:
        out = {}
        for name, (type_, column, constant) in self.data.items():
            flat = [stored(value, type_) for value in column]
            if constant and flat:
                out[name] = Column.from_list(type_.kind, flat[:1], constant=True, length=len(flat))
            else:
                out[name] = Column.from_list(type_.kind, flat)
        return out


def check(fields: Field, expressions: list[Expr]) -> None:
    """The evaluator gives what the reference gives, row by row, and counts as many failures."""
    evaluator = Evaluator(expressions)
    columns = evaluator.run(fields.columns(), fields.rows)
    rows = [values_of(c, e.type) for c, e in zip(columns, expressions, strict=True)]
    oracle = RowEvaluator()
    for at in range(fields.rows):
        row = {name: column[at] for name, (_, column, _) in fields.data.items()}
        expected = oracle.run(expressions, row)
        for got, want, expression in zip([r[at] for r in rows], expected, expressions, strict=True):
            assert same(got, want), (expression, row, got, want)
    assert evaluator.eval_errors == oracle.eval_errors


def same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return repr(a) == repr(b)
    return type(a) is type(b) and bool(a == b)


COUNT = settings(deadline=None, max_examples=150)
row_counts = st.sampled_from([0, 1, 2, 5, 9])


@COUNT
@given(data=st.data(), rows=row_counts, type_=all_types)
def test_comparisons_and_choices(data: st.DataObject, rows: int, type_: Type) -> None:
    fields = Field(data.draw, rows)
    a, b, c = (fields.leaf(type_) for _ in range(3))
    condition = fields.leaf(BOOLEAN)
    expressions: list[Expr] = [
        Call(name, (a, b), BOOLEAN) for name in ("eq", "ne", "lt", "le", "gt", "ge", "eq_null_safe")
    ]
    expressions += [Call(name, (a,), BOOLEAN) for name in ("is_null", "is_not_null")]
    expressions += [Call(name, (a, b, c), type_) for name in ("greatest", "least", "coalesce")]
    expressions += [
        Call("nullif", (a, b), type_),
        Call("case", (condition, a, Call("eq", (a, b), BOOLEAN), b), type_),
    ]
    expressions += [Call("case", (condition, a, b), type_)]
    candidates = data.draw(st.lists(st.one_of(nullable(type_)), max_size=12))
    others: tuple[Expr, ...] = (c,) if data.draw(st.booleans()) or not candidates else ()
    expressions += [Call("in", (a, *(literal(value, type_) for value in candidates), *others), BOOLEAN)]
    check(fields, expressions)


@COUNT
@given(data=st.data(), rows=row_counts)
def test_logic(data: st.DataObject, rows: int) -> None:
    fields = Field(data.draw, rows)
    a, b, c = (fields.leaf(BOOLEAN) for _ in range(3))
    check(fields, [Call(name, (a, b, c), BOOLEAN) for name in ("and", "or")] + [Call("not", (a,), BOOLEAN)])


@COUNT
@given(data=st.data(), rows=row_counts, type_=st.sampled_from([BIGINT, DOUBLE]))
def test_arithmetic(data: st.DataObject, rows: int, type_: Type) -> None:
    fields = Field(data.draw, rows)
    a, b = fields.leaf(type_), fields.leaf(type_)
    expressions: list[Expr] = [Call(name, (a, b), type_) for name in ("add", "sub", "mul", "mod")]
    expressions += [Call("int_div" if type_ is BIGINT else "div", (a, b), type_)]
    expressions += [Call(name, (a,), type_) for name in ("neg", "abs")]
    expressions += [Call(name, (a,), BIGINT) for name in ("floor", "ceil")]
    places = Literal(data.draw(st.integers(-20, 20)), BIGINT)
    check(fields, [*expressions, Call("round", (a, places), type_)])


@settings(deadline=None, max_examples=400)
@given(data=st.data(), rows=row_counts, one=decimal_types, other=decimal_types, result=decimal_types)
def test_decimals(data: st.DataObject, rows: int, one: Type, other: Type, result: Type) -> None:
    fields = Field(data.draw, rows)
    a, b = fields.leaf(one), fields.leaf(other)
    expressions: list[Expr] = [Call(name, (a, b), result) for name in ("add", "sub", "mul", "div", "mod")]
    expressions += [Call("int_div", (a, b), BIGINT), Call("neg", (a,), one), Call("abs", (a,), one)]
    expressions += [Call(name, (a,), decimal(min(38, one.precision + 1), 0)) for name in ("floor", "ceil")]
    places = Literal(data.draw(st.integers(-40, 40)), BIGINT)
    check(fields, [*expressions, Call("round", (a, places), result), Call("cast", (a,), result)])


def castable(source: Type, target: Type) -> bool:
    pair = {source.kind, target.kind}
    return pair != {Kind.BOOLEAN, Kind.TIMESTAMP}


@settings(deadline=None, max_examples=500)
@given(
    data=st.data(),
    rows=row_counts,
    source=all_types,
    target=all_types,
    name=st.sampled_from(["cast", "try_cast"]),
)
def test_casts(data: st.DataObject, rows: int, source: Type, target: Type, name: str) -> None:
    if not castable(source, target):
        return
    fields = Field(data.draw, rows)
    check(fields, [Call(name, (fields.leaf(source),), target)])


patterns = st.text(alphabet="%_aé/b", max_size=6)


@COUNT
@given(data=st.data(), rows=row_counts)
def test_texts(data: st.DataObject, rows: int) -> None:
    fields = Field(data.draw, rows)
    a, b, c = (fields.leaf(STRING) for _ in range(3))
    position, size = fields.leaf(BIGINT), fields.leaf(BIGINT)
    expressions: list[Expr] = [
        Call(name, (a, b), BOOLEAN) for name in ("starts_with", "ends_with", "contains")
    ]
    expressions += [
        Call(name, (a,), STRING) for name in ("lower", "upper", "trim", "ltrim", "rtrim", "url_decode")
    ]
    expressions += [Call(name, (a, b), STRING) for name in ("trim", "ltrim", "rtrim", "concat")]
    expressions += [Call("length", (a,), BIGINT), Call("concat", (a, b, c, a), STRING)]
    expressions += [Call("substr", (a, position, size), STRING), Call("split_part", (a, b, position), STRING)]
    expressions += [Call("replace", (a, b, c), STRING)]
    pattern = Literal(data.draw(patterns), STRING)
    expressions += [Call("like", (a, pattern, Literal("\\", STRING)), BOOLEAN)]
    parts = ["HOST", "PATH", "QUERY", "REF", "PROTOCOL", "FILE", "AUTHORITY", "USERINFO", "host"]
    part = Literal(data.draw(st.sampled_from(parts)), STRING)
    expressions += [Call("parse_url", (a, part), STRING), Call("parse_url", (a, part, b), STRING)]
    check(fields, expressions)


@COUNT
@given(data=st.data(), rows=row_counts)
def test_regular_expressions(data: st.DataObject, rows: int) -> None:
    pytest.importorskip("re2", reason="google-re2 is not installed")
    fields = Field(data.draw, rows)
    a = fields.leaf(STRING)
    pattern = Literal(data.draw(st.sampled_from(["^/a", "[0-9]+", "(a)(b)?", ".é", "", "^.$"])), STRING)
    expressions: list[Expr] = [Call("rlike", (a, pattern), BOOLEAN)]
    expressions += [Call("regexp_extract", (a, pattern, Literal(0, BIGINT)), STRING)]
    check(fields, expressions)


@COUNT
@given(data=st.data(), rows=row_counts)
def test_times(data: st.DataObject, rows: int) -> None:
    fields = Field(data.draw, rows)
    time = fields.leaf(TIMESTAMP)
    units = (
        "MICROSECOND",
        "MILLISECOND",
        "SECOND",
        "MINUTE",
        "HOUR",
        "DAY",
        "WEEK",
        "MONTH",
        "QUARTER",
        "YEAR",
    )
    parts = ("year", "quarter", "month", "week", "day", "dayofweek", "dayofyear", "hour", "minute", "second")
    expressions: list[Expr] = [Call("date_trunc", (Literal(unit, STRING), time), TIMESTAMP) for unit in units]
    expressions += [Call(part, (time,), BIGINT) for part in (*parts, "unix_micros", "unix_seconds")]
    number = fields.leaf(data.draw(number_types))
    check(fields, [*expressions, Call("timestamp_seconds", (number,), TIMESTAMP)])


def tree(fields: Field, type_: Type, depth: int) -> Expr:
    """A random expression, rich in lazy functions over arguments that fail."""
    draw = fields.draw
    if depth == 0:
        return fields.leaf(type_)
    below = lambda t: tree(fields, t, depth - 1)  # noqa: E731
    choice = draw(st.integers(0, 4))
    if choice == 0:
        return Call("coalesce", (below(type_), below(type_)), type_)
    if choice == 1:
        arguments = (below(BOOLEAN), below(type_), below(BOOLEAN), below(type_))
        return Call("case", arguments + ((below(type_),) if draw(st.booleans()) else ()), type_)
    if type_ is BOOLEAN:
        if choice == 2:
            return Call("gt", (below(BIGINT), below(BIGINT)), BOOLEAN)
        return Call(
            draw(st.sampled_from(["and", "or"])), tuple(below(BOOLEAN) for _ in range(choice)), BOOLEAN
        )
    if choice == 2:
        return (
            Call("cast", (below(STRING),), BIGINT)
            if type_ is BIGINT
            else Call("url_decode", (below(STRING),), STRING)
        )
    if type_ is BIGINT:
        return Call(draw(st.sampled_from(["int_div", "add", "mod"])), (below(BIGINT), below(BIGINT)), BIGINT)
    return Call("split_part", (below(STRING), fields.leaf(STRING), fields.leaf(BIGINT)), STRING)


def distinct_calls(expressions: list[Expr]) -> bool:
    """Whether no call is written twice: only then does the order of evaluation not show in the count."""
    seen: set[str] = set()
    stack: list[Expr] = list(expressions)
    while stack:
        expr = stack.pop()
        if isinstance(expr, Call):
            if repr(expr) in seen:
                return False
            seen.add(repr(expr))
            stack += expr.arguments
    return True


@settings(deadline=None, max_examples=400)
@given(data=st.data(), rows=row_counts)
def test_lazy_trees(data: st.DataObject, rows: int) -> None:
    fields = Field(data.draw, rows)
    expressions = [tree(fields, type_, 3) for type_ in (BOOLEAN, BIGINT, STRING)]
    if distinct_calls(expressions):
        check(fields, expressions)
