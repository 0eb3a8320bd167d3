"""Whatever the text: a plan or a JobError with its place, never another exception."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from job.errors import JobError, SqlError
from job.explain import explain
from job.plan import Plan, Schema
from job.sql import compile_sql
from job.types import BIGINT, BOOLEAN, DOUBLE, SECONDS, STRING, TIMESTAMP

FIELDS = {"s": STRING, "i": BIGINT, "d": SECONDS, "f": DOUBLE, "b": BOOLEAN, "t": TIMESTAMP}
SCHEMAS = {"log": Schema(FIELDS), "open": Schema({"t": TIMESTAMP}, open_fields=True)}
WORDS = [
    *FIELDS, "SELECT", "SELECT", "FROM", "FROM", "log", "open", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT",
    "DISTINCT",
    "AS", "x", "y", "AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "RLIKE", "ESCAPE", "IS", "NULL", "TRUE", "CASE",
    "WHEN", "THEN",
    "ELSE", "END", "CAST", "(", "(", ")", ")", ",", ",", "*", "+", "-", "/", "%", "DIV", "||", "=", "<>", "<", "<=>",
    "::", ".",
    "1", "2.5", "1e3", "'a'", "'1 minute'", '"q"', "`z`", ":p", "count", "sum", "max", "window", "substr",
    "regexp_extract",
    "parse_url", "date_trunc", "approx_percentile", "array", "round", "coalesce", "BIGINT", "DECIMAL(5, 2)",
    "STRING", "DATE",
    "INTERVAL", "MINUTE", "FILTER", "OVER", "ALL", "DESC", "NULLS", "LAST", "JOIN", "UNION", "WITH", "EXISTS",
    "ROLLUP",
    "EXTRACT", "HOUR", "TRIM", "BOTH", "TIMESTAMP", "'2024-05-01'", "--c\n", "/*", "*/", "[", "]", "{", "}", "?",
    "@", "$",
    "->", "=>", ";", "\\", "'", "if", "left", "interval", "TRY_CAST", "NATURAL", "LATERAL", "PIVOT", "VALUES", "ANY",
    "SOME",
]  # fmt: skip
TEMPLATES = [
    "SELECT {} FROM log",
    "SELECT max({}) FROM log",
    "SELECT {}, count(*) FROM log GROUP BY {}",
    "SELECT count(*) AS n FROM log WHERE {} HAVING {} ORDER BY {}",
    "SELECT window(t, {}) AS w, count(*) FROM log GROUP BY ALL",
    "SELECT max(x) FROM (SELECT s, {} AS x FROM log GROUP BY s) LIMIT {}",
    "{}",
]
soups = st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join)


def _outcome(sql: str) -> Plan | JobError:
    try:
        return compile_sql(sql, SCHEMAS, {"p": 5} if ":p" in sql else {})
    except JobError as error:
        return error


def _attempt(sql: str) -> None:
    outcome = _outcome(sql)
    if isinstance(outcome, Plan):
        assert outcome.outputs
        assert outcome.to_spark_sql().startswith("SELECT ")
        assert explain(outcome)
        return
    assert str(outcome)
    if isinstance(outcome, SqlError):
        assert outcome.position is None or 0 <= outcome.position <= len(sql)


@settings(deadline=None, max_examples=1500)
@given(st.sampled_from(TEMPLATES), soups, soups, soups)
def test_word_soup_compiles_or_is_refused(template: str, one: str, two: str, three: str) -> None:
    _attempt(template.format(one, two, three))


@settings(deadline=None, max_examples=500)
@given(st.text(max_size=40), st.text(max_size=10))
@example("'\\", "")
@example("'a' 'b' --", "")
@example("\ud800", "")
def test_any_text_compiles_or_is_refused(one: str, two: str) -> None:
    _attempt(one)
    _attempt(f"SELECT max({one}) AS `{two}` FROM log")
    _attempt(f"SELECT count_if(s RLIKE '{one}') FROM log WHERE s LIKE '{two}'")
