"""Spark as the oracle: generated questions over generated rows, answered by this engine and by Spark, row for row.

Expressions are asked many at a time: one group per row, each expression inside max(), so that one Spark job compares
some dozens of them over all rows. Whole queries are asked one by one. Sketches are another form of the same, so
Spark is asked whether they are. What is open there (approximate numbers, the rounding of DOUBLE sums) is left out.
"""

from __future__ import annotations

import datetime
import math
import random
import warnings
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from cython_ext.column import Column
from elfstream.embedded import run_rows
from job.errors import SqlError
from job.plan import Plan, Schema
from job.sql import compile_sql
from job.types import BIGINT, BOOLEAN, DOUBLE, SECONDS, STRING, TIMESTAMP, Kind, Type, decimal

pytestmark = pytest.mark.spark

FIELDS: dict[str, Type] = {
    "id": BIGINT,
    "s": STRING,
    "u": STRING,
    "i": BIGINT,
    "k": BIGINT,
    "d": SECONDS,
    "e": decimal(5, 2),
    "f": DOUBLE,
    "b": BOOLEAN,
    "t": TIMESTAMP,
}
SCHEMAS = {"log": Schema(FIELDS)}
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
EXPRESSIONS_PER_QUERY = 24

_INTS = [None, 0, 1, -1, 2, 7, 404, -(2**63), 2**63 - 1, 2**31, 10**15, -86_401]
_SMALL = [None, 0, 1, 2, 3, -1, -2, 5]
_DECIMALS = [None, 0, 125_000, -1_500_000, 2_500_000, 999_999_999_999_999_999, -1, 1_000_000]
_SHORT_DECIMALS = [None, 0, 150, -250, 99_999, 5, -99_999]
_DOUBLES = [None, 0.0, 1.5, -2.5, 0.1, 1e300, -1e300, math.nan, math.inf, -math.inf, 2.675, 9.3e18, 1e-7, 123456789.125]
_STRINGS = [
    None, "", " ", "a", "abc", "ABC", "/a/b/c", "/a", "ünï", "ÜNÏ", "ß", "😀x", " 5 ", "5", "-7.5", "1e3", "NaN", "inf",
    "true", "NO", "2024-05-01 10:00:00", "2024-05-01T10:00:00.25+02:00", "1969-12-31", "http://h.de:80/p?x=1&y=2#r",
    "http://u@h/p?x=%41", "http://a|b/", "ftp://[::1]/x", "//h/p?x", "/p?a.b=1&x=3", "%41%c3%bc", "%zz", "a+b", "%",
    "\\x41",
    "line\n", "\n", "a\tb", "9223372036854775808", "+12", "1.", ".5", "0x1F", "xaxbx", "50%_", "a\\b", "0.000001",
    "é",
]  # fmt: skip
_TIMES = [
    None, 0, -1, 1_714_557_607_250_000, -86_400_000_001, 951_782_399_999_999, 1_735_603_200_000_000,
    4_102_444_800_000_000,
]  # fmt: skip


@st.composite
def tables(draw: st.DrawFn, rows_max: int = 40) -> list[tuple[Any, ...]]:
    """Rows by FIELDS; a seed, not thousands of draws, so that examples stay small."""
    count = draw(st.integers(0, rows_max))
    chance = random.Random(draw(st.integers(0, 2**32)))
    pools = [_STRINGS, _STRINGS, _INTS, _SMALL, _DECIMALS, _SHORT_DECIMALS, _DOUBLES, [None, True, False], _TIMES]
    return [(index, *(chance.choice(pool) for pool in pools)) for index in range(count)]


class Writer:
    """Writes random SQL expressions of a wanted kind, at most `depth` calls deep."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def write(self, kind: str, depth: int = 3) -> str:
        forms = _LEAVES[kind] if depth == 0 or self._chance.random() < 0.2 else _FORMS[kind]
        form = self._chance.choice(forms)
        parts = form.split("@")
        out = parts[0]
        for part in parts[1:]:
            out += self._argument(part[0], depth - 1) + part[1:]
        return out

    def _argument(self, code: str, depth: int) -> str:
        if code == "N":
            code = self._chance.choice("IDF")
        if code == "A":
            code = self._chance.choice("IDFSBT")
        if code == "L":
            return self._chance.choice(["-20", "-3", "-1", "0", "1", "2", "3", "5", "100"])
        return self.write(code, max(depth, 0))


# @I @D @F @S @B @T: a BIGINT, DECIMAL, DOUBLE, STRING, BOOLEAN, TIMESTAMP; @N any number, @A anything, @L a small number.
_LEAVES = {
    "I": ["i", "i", "k", "k", "0", "1", "-3", "404", "9223372036854775807", "-9223372036854775808"],
    "D": ["d", "e", "e", "1.5", "-0.25", "0.0", "100.00", "12345678901234567890.5"],
    "F": ["f", "f", "1.5D", "-1e3", "0D", "1e300"],
    "S": ["s", "s", "u", "''", "'a'", "'/a/b'", "'ü'", "' '", "'5'"],
    "B": ["b", "b", "TRUE", "FALSE", "k > 1", "s = 'a'"],
    "T": ["t", "t", "TIMESTAMP '2024-05-01 10:00:00.25'", "TIMESTAMP '1969-12-31'"],
}
_FORMS = {
    "I": [
        "(@I + @I)", "(@I - @I)", "(@I * @I)", "(@I DIV @I)", "(@I % @I)", "(@D DIV @D)", "negative(@I)", "abs(@I)",
        "floor(@F)",
        "ceil(@F)", "round(@I, -2)", "length(@S)", "CAST(@A AS BIGINT)", "try_cast(@S AS BIGINT)", "coalesce(@I, @I)",
        "nullif(@I, @I)", "if(@B, @I, @I)", "greatest(@I, k, @I)", "least(@I, @I)",
        "CASE k WHEN 1 THEN @I WHEN 2 THEN @I END",
        "year(@T)", "quarter(@T)", "month(@T)", "week(@T)", "day(@T)", "dayofweek(@T)", "dayofyear(@T)", "hour(@T)",
        "minute(@T)", "second(@T)", "unix_seconds(@T)", "unix_micros(@T)", "nvl2(@A, @I, @I)",
        "unix_micros(timestamp_seconds(@F))",
    ],
    "D": [
        "(@D + @D)", "(@D - @D)", "(@D * @D)", "(@D / @D)", "(@D % @D)", "(@D + @I)", "(@I * @D)", "(@D / @I)",
        "(@D % 3)",
        "(@D * 2)", "negative(@D)", "abs(@D)", "floor(@D)", "ceil(@D)", "round(@D, 1)", "round(@D)", "round(@D, -1)",
        "CAST(@A AS DECIMAL(10, 2))", "CAST(@N AS DECIMAL(38, 6))", "CAST(@S AS DECIMAL(18, 3))", "coalesce(@D, @I)",
        "greatest(@D, @D)", "nullif(@D, @I)", "CASE WHEN @B THEN @D ELSE @I END",
    ],
    "F": [
        "(@F + @F)", "(@F - @I)", "(@F * @D)", "(@F / @F)", "(@I / @I)", "(@F % @F)", "negative(@F)", "abs(@F)",
        "round(@F, 2)",
        "CAST(@A AS DOUBLE)", "try_cast(@S AS DOUBLE)", "coalesce(@F, @I)", "greatest(@F, @N)", "least(@F, @F)",
        "nullif(@F, @F)",
    ],
    "S": [
        "lower(@S)", "upper(@S)", "trim(@S)", "ltrim(@S)", "rtrim(@S)", "trim(BOTH @S FROM @S)", "ltrim('/a', @S)",
        "rtrim('xc', @S)", "substr(@S, @L)", "substr(@S, @L, @L)", "substr(@S, k, 2)", "left(@S, k)",
        "concat(@S, @S)", "(@S || @I)",
        "replace(@S, 'a', @S)", "replace(@S, '/')", "split_part(@S, '/', @L)", "split_part(@S, @S, k)",
        "CAST(@A AS STRING)",
        "parse_url(@S, 'HOST')", "parse_url(s, 'PATH')", "parse_url(s, 'QUERY')", "parse_url(s, 'QUERY', 'x')",
        "parse_url(s, 'QUERY', 'a.b')", "parse_url(s, 'PROTOCOL')", "parse_url(s, 'REF')", "parse_url(s, 'FILE')",
        "parse_url(s, 'AUTHORITY')", "parse_url(s, 'USERINFO')", "url_decode(@S)",
        "regexp_extract(@S, '([a-z]+)', 1)",
        r"regexp_extract(@S, r'(\d+)(\.\d*)?', 2)", "coalesce(@S, @S)", "if(@B, @S, @S)", "nullif(@S, @S)",
    ],
    "B": [
        "(@B AND @B)", "(@B OR @B)", "(NOT @B)", "(@I = @I)", "(@N < @N)", "(@F >= @F)", "(@D <> @N)", "(@S = @S)",
        "(@S < @S)",
        "(@A IS NULL)", "(@A IS NOT NULL)", "(@I <=> @I)", "(@F <=> @F)", "(@B IS TRUE)", "(@B IS NOT FALSE)",
        "(@T > @T)",
        "(k IN (1, 2, NULL))", "(@I NOT IN (1, 404))", "(@S IN ('a', 'abc', @S))", "(@N BETWEEN @N AND @N)",
        "(@S LIKE '%a%')",
        "(@S LIKE '/_/%')", "(@S LIKE '50!%!_' ESCAPE '!')", r"(@S RLIKE '^[a-z/]+$')", r"(@S RLIKE r'\s')",
        r"(@S RLIKE r'(?i)Ü|\bx')", "(@S RLIKE 'a.b')", "startswith(@S, @S)", "endswith(@S, 'c')", "contains(@S, @S)",
        "CAST(@S AS BOOLEAN)", "CAST(@N AS BOOLEAN)", "coalesce(@B, @B)", "if(@B, @B, @B)",
    ],
    "T": [
        "date_trunc('HOUR', @T)", "date_trunc('WEEK', @T)", "date_trunc('QUARTER', @T)",
        "date_trunc('MILLISECOND', @T)",
        "date_trunc('YEAR', @T)", "timestamp_seconds(k)", "timestamp_seconds(@D)", "CAST(s AS TIMESTAMP)",
        "CAST(k AS TIMESTAMP)", "coalesce(@T, @T)", "greatest(@T, @T)", "if(@B, @T, @T)",
    ],
}  # fmt: skip


@st.composite
def expressions(draw: st.DrawFn) -> list[str]:
    """Expressions that compile, each of any kind; times as numbers, since Python's stop at the year 9999."""
    writer = Writer(random.Random(draw(st.integers(0, 2**32))))
    kinds = draw(st.lists(st.sampled_from("IDFSBT"), min_size=1, max_size=EXPRESSIONS_PER_QUERY))
    written = [f"unix_micros({writer.write('T')})" if kind == "T" else writer.write(kind) for kind in kinds]
    return [sql for sql in written if _compiles(sql)]


def _compiles(sql: str) -> bool:
    try:
        compile_sql(f"SELECT max({sql}) AS x FROM log", SCHEMAS)
    except SqlError:
        return False
    return True


_KEYS = [
    "s", "k", "b", "t", "e", "f", "i % 3", "lower(u)", "length(s)", "k IS NULL",
    "date_trunc('DAY', t)", "if(k > 1, s, u)",
]  # fmt: skip
_AGGREGATES = [
    "count(*)", "count(s)", "count(s, i)", "count(DISTINCT s)", "count(DISTINCT s, k)", "count(DISTINCT k)",
    "count_if(k > 1)",
    "sum(i)", "sum(k)", "sum(d)", "sum(e)", "avg(k)", "avg(d)", "avg(e)", "min(s)", "max(s)", "min(i)", "max(f)",
    "min(f)",
    "max(b)", "min(t)", "max(d)", "sum(k) FILTER (WHERE b)", "count(*) FILTER (WHERE k > 1)",
    "min(u) FILTER (WHERE s > 'a')",
    "sum(CAST(s AS BIGINT))", "count(DISTINCT f)", "max(k) + count(*)", "sum(i * 2)", "sum(k) / count(*)",
]  # fmt: skip
_WHERES = [
    "", "WHERE k > 0", "WHERE s IS NOT NULL AND NOT b", "WHERE k IN (1, 2, 3) OR f < 1", "WHERE 1 = 0",
    "WHERE i / k > 1",
]  # fmt: skip
_HAVINGS = ["", "", "HAVING count(*) > 1", "HAVING sum(k) > 0 OR max(s) < 'b'", "HAVING NULL"]
_WINDOWS = ["", "", "window(t, '1 hour')", "window(t, '1 hour', '20 minutes')", "window(t, '36 hours', '1 day')"]


@st.composite
def queries(draw: st.DrawFn) -> str:
    """A whole query: keys, perhaps a window, aggregates and the clauses around them."""
    keys = draw(st.lists(st.sampled_from(_KEYS), max_size=3, unique=True))
    aggregates = draw(st.lists(st.sampled_from(_AGGREGATES), min_size=1, max_size=5, unique=True))
    window = draw(st.sampled_from(_WINDOWS))
    columns = [f"{sql} AS c{index}" for index, sql in enumerate((*keys, *aggregates))]
    group = [*keys, *([window] if window else [])]
    if window:
        columns.append("unix_micros(window.start) AS w")
    names = [f"c{index}" for index in range(len(keys) + len(aggregates))]
    order = draw(st.lists(st.sampled_from(names), max_size=2, unique=True))
    terms = [name + draw(st.sampled_from(["", " DESC", " NULLS LAST", " DESC NULLS FIRST"])) for name in order]
    parts = [
        "SELECT " + ", ".join(columns),
        "FROM log",
        draw(st.sampled_from(_WHERES)),
        "GROUP BY " + ", ".join(group) if group else "",
        draw(st.sampled_from(_HAVINGS)),
        "ORDER BY " + ", ".join(terms) if terms else "",
        draw(st.sampled_from(["", "", "LIMIT 3", "LIMIT 1", "LIMIT 0"])),
    ]
    sql = " ".join(part for part in parts if part)
    if not window and draw(st.integers(0, 4)) == 0:
        return f"SELECT c0, count(*) AS n, max(c{len(keys)}) AS m FROM ({sql}) GROUP BY c0 ORDER BY n"
    return sql


def _ours(plan: Plan, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    half = len(rows) // 2
    blocks = []
    for part in (rows[:half], rows[half:]):
        values = list(zip(*part, strict=True)) or [()] * len(FIELDS)
        columns = {
            name: Column.from_list(int(kind.kind), list(column))
            for (name, kind), column in zip(FIELDS.items(), values, strict=True)
        }
        blocks.append((columns, len(part)))
    return [tuple(row) for row in run_rows(plan, blocks)]


def _for_spark(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    def value(kind: Type, raw: Any) -> Any:
        if raw is None:
            return None
        if kind.kind is Kind.DECIMAL:
            return Decimal(raw).scaleb(-kind.scale)
        return EPOCH + datetime.timedelta(microseconds=raw) if kind is TIMESTAMP else raw

    kinds = list(FIELDS.values())
    return [tuple(value(kind, raw) for kind, raw in zip(kinds, row, strict=True)) for row in rows]


def _theirs(session: Any, plan: Plan, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    from pyspark.sql import types as t

    simple = {Kind.BOOLEAN: t.BooleanType(), Kind.BIGINT: t.LongType(), Kind.DOUBLE: t.DoubleType()}
    simple |= {Kind.STRING: t.StringType(), Kind.TIMESTAMP: t.TimestampType()}
    schema = t.StructType(
        [
            t.StructField(name, simple.get(kind.kind) or t.DecimalType(kind.precision, kind.scale))
            for name, kind in FIELDS.items()
        ]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session.createDataFrame(_for_spark(rows), schema).coalesce(1).createOrReplaceTempView("log")
        return [tuple(row) for row in session.sql(plan.to_spark_sql()).collect()]


def _plain(value: Any) -> Any:
    """A value in a form in which equal means equal: NaN by name, zeros without sign, times in UTC."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, datetime.datetime):
        return value.astimezone(datetime.UTC)
    return value


def _compare(session: Any, sql: str, rows: list[tuple[Any, ...]]) -> None:
    plan = compile_sql(sql, SCHEMAS)
    ours = [tuple(map(_plain, row)) for row in _ours(plan, rows)]
    theirs = [tuple(map(_plain, row)) for row in _theirs(session, plan, rows)]
    if ours != theirs:
        _explain_difference(sql, plan, ours, theirs, rows)
    assert ours == theirs, sql


def _explain_difference(sql: str, plan: Plan, ours: list[Any], theirs: list[Any], rows: list[tuple[Any, ...]]) -> None:
    note(sql)
    for mine, yours in zip(ours, theirs, strict=False):
        for output, one, other in zip(plan.outputs, mine, yours, strict=True):
            if one != other:
                note(f"{output.name}: {one!r}, Spark says {other!r}")
                if isinstance(mine[0], int) and mine[0] < len(rows):
                    note(str(dict(zip(FIELDS, rows[mine[0]], strict=True))))
                return


SLOW = settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck), derandomize=True)


@SLOW
@given(tables(), expressions())
def test_expressions_mean_what_they_mean_in_spark(spark: Any, rows: list[tuple[Any, ...]], written: list[str]) -> None:
    columns = "".join(f", max({sql}) AS `{index}: {sql.replace('`', '')}`" for index, sql in enumerate(written))
    _compare(spark, f"SELECT id{columns} FROM log GROUP BY id", rows)


@settings(SLOW, max_examples=100)
@given(tables(), queries())
def test_queries_give_the_rows_of_spark(spark: Any, rows: list[tuple[Any, ...]], sql: str) -> None:
    _compare(spark, sql, rows)


_SKETCHED = [
    "nullif(s, '')", "nullif(lower(u), '')", "nullif(concat(s, u), '')", "k", "i", "length(s)", "DISTINCT k", "NULL",
    "try_cast(s AS BIGINT)", "if(b, k, i)",
]  # fmt: skip
"""The empty STRING counts here, and not in Spark: docs/SQL.md."""


@st.composite
def sketches(draw: st.DrawFn) -> tuple[str, int]:
    """A query for sketches, and how many columns stand before them."""
    keys = draw(st.lists(st.sampled_from(_KEYS), max_size=2, unique=True))
    arguments = draw(st.lists(st.sampled_from(_SKETCHED), min_size=1, max_size=4, unique=True))
    filters = [draw(st.sampled_from(["", "", " FILTER (WHERE k > 0)", " FILTER (WHERE NOT b)"])) for _ in arguments]
    window = draw(st.sampled_from(_WINDOWS))
    made = [*keys, *(["unix_micros(window.start)"] if window else [])]
    before = len(made)
    made += [f"hll_sketch_agg({one}){where}" for one, where in zip(arguments, filters, strict=True)]
    group = [*keys, *([window] if window else [])]
    parts = [
        "SELECT " + ", ".join(f"{sql} AS c{index}" for index, sql in enumerate(made)),
        "FROM log",
        draw(st.sampled_from(_WHERES)),
        "GROUP BY " + ", ".join(group) if group else "",
        draw(st.sampled_from(["", "", "HAVING count(*) > 1"])),
    ]
    return " ".join(part for part in parts if part), before


def _compare_sketches(session: Any, sql: str, before: int, rows: list[tuple[Any, ...]]) -> None:
    """Sketches of the same values, united with each other, tell what each tells united with itself: so their hashes, their
    sizes and the rules of a union are the same, also where their bytes and the ways they came about are not."""
    plan = compile_sql(sql, SCHEMAS)
    ours, theirs = _ours(plan, rows), _theirs(session, plan, rows)
    assert [tuple(map(_plain, row[:before])) for row in ours] == [tuple(map(_plain, row[:before])) for row in theirs], sql
    pairs = [
        pair for mine, yours in zip(ours, theirs, strict=True) for pair in zip(mine[before:], yours[before:], strict=True)
    ]
    both = [("a", "a"), ("b", "b"), ("a", "b")]
    told = [f"hll_sketch_estimate(hll_union(unbase64({one}), unbase64({other})))" for one, other in both]
    found = session.createDataFrame(pairs, "a string, b string").selectExpr("a", *told).collect()
    for sketch, our, their, united in found:
        assert our == their == united, (sql, sketch)


@settings(SLOW, max_examples=10)
@given(tables(), sketches())
def test_sketches_are_those_of_spark(spark: Any, rows: list[tuple[Any, ...]], asked: tuple[str, int]) -> None:
    _compare_sketches(spark, *asked, rows)


def test_large_sketches_are_those_of_spark(spark: Any) -> None:
    """With so many values that they are no lists any more: 4,096 registers."""
    chance = random.Random(5)
    rows = [
        (number, f"/{chance.randrange(12_000)}", None, chance.randrange(-(10**9), 10**9), number % 3, *[None] * 5)
        for number in range(15_000)
    ]
    sql = "SELECT k, hll_sketch_agg(s) AS a, hll_sketch_agg(i) AS b, hll_sketch_agg(id) AS c FROM log GROUP BY k"
    _compare_sketches(spark, sql, 1, rows)
