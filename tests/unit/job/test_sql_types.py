"""What each expression is typed as, and which casts the compiler writes down. Spark's own answers are the source."""

from __future__ import annotations

import pytest

from job.errors import SqlError
from job.explain import text
from job.plan import Expr, Schema
from job.sql import compile_sql
from job.types import BIGINT, BOOLEAN, DOUBLE, SECONDS, STRING, TIMESTAMP, decimal

FIELDS = {
    "s": STRING,
    "i": BIGINT,
    "d": decimal(10, 2),
    "seconds": SECONDS,
    "wide": decimal(38, 10),
    "whole": decimal(38, 0),
    "f": DOUBLE,
    "b": BOOLEAN,
    "t": TIMESTAMP,
}


def typed(sql: str) -> Expr:
    return compile_sql(f"SELECT DISTINCT {sql} AS x FROM log", {"log": Schema(FIELDS)}).keys[0]


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("1", "BIGINT"),
        ("9223372036854775807", "BIGINT"),
        ("-9223372036854775808", "BIGINT"),
        ("9223372036854775808", "DECIMAL(19,0)"),
        ("1.5", "DECIMAL(2,1)"),
        ("1.50", "DECIMAL(3,2)"),
        ("0.0", "DECIMAL(1,1)"),
        ("0.05", "DECIMAL(2,2)"),
        ("0.5", "DECIMAL(1,1)"),
        ("1e3", "DOUBLE"),
        ("1.5D", "DOUBLE"),
        ("2BD", "DECIMAL(1,0)"),
        ("1.50BD", "DECIMAL(3,2)"),
        ("7L", "BIGINT"),
        ("'x'", "STRING"),
        ("NULL", "STRING"),
        ("TRUE", "BOOLEAN"),
        ("TIMESTAMP '2024-05-01'", "TIMESTAMP"),
    ],
)
def test_literals_have_the_least_type(sql: str, kind: str) -> None:
    assert str(typed(sql).type) == kind


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("i + 1", "BIGINT"),
        ("i / 2", "DOUBLE"),
        ("i DIV 2", "BIGINT"),
        ("i % d", "DECIMAL(10,2)"),
        ("i + '5'", "BIGINT"),
        ("i / '2'", "DOUBLE"),
        ("d * '2'", "DOUBLE"),
        ("d + 1", "DECIMAL(11,2)"),
        ("d + i", "DECIMAL(23,2)"),
        ("d * d", "DECIMAL(21,4)"),
        ("d / d", "DECIMAL(23,13)"),
        ("d / 3", "DECIMAL(14,6)"),
        ("d % 3", "DECIMAL(3,2)"),
        ("1.5 + 1", "DECIMAL(3,1)"),
        ("1.5 * i", "DECIMAL(23,1)"),
        ("1.5 / 2", "DECIMAL(7,6)"),
        ("i / 1.5", "DECIMAL(27,6)"),
        ("1.5 % 1", "DECIMAL(2,1)"),
        ("wide * wide", "DECIMAL(38,6)"),
        ("wide + whole", "DECIMAL(38,6)"),
        ("wide % whole", "DECIMAL(38,10)"),
        ("d + f", "DOUBLE"),
        ("f + i", "DOUBLE"),
        ("-d", "DECIMAL(10,2)"),
        ("abs(f)", "DOUBLE"),
        ("round(d)", "DECIMAL(9,0)"),
        ("round(d, 1)", "DECIMAL(10,1)"),
        ("round(d, -1)", "DECIMAL(9,0)"),
        ("round(i, -1)", "BIGINT"),
        ("floor(d)", "DECIMAL(9,0)"),
        ("ceil(f)", "BIGINT"),
        ("coalesce(1.5, 1)", "DECIMAL(21,1)"),
        ("coalesce(d, i)", "DECIMAL(22,2)"),
        ("coalesce(d, f)", "DOUBLE"),
        ("coalesce(wide, whole)", "DECIMAL(38,0)"),
        ("coalesce(s, i)", "BIGINT"),
        ("coalesce(NULL, i)", "BIGINT"),
        ("CASE WHEN b THEN i ELSE 2.5 END", "DECIMAL(21,1)"),
        ("if(b, s, NULL)", "STRING"),
        ("nvl2(s, 1, f)", "DOUBLE"),
        ("nullif(i, 2.5)", "BIGINT"),
        ("nullif(d, i)", "DECIMAL(10,2)"),
        ("greatest(d, i)", "DECIMAL(22,2)"),
        ("s || i", "STRING"),
        ("length(s)", "BIGINT"),
        ("hour(t)", "BIGINT"),
        ("hour('2024-05-01 10:00:00')", "BIGINT"),
        ("date_trunc('day', t)", "TIMESTAMP"),
        ("extract(YEAR FROM t)", "BIGINT"),
        ("CAST(i AS INT)", "BIGINT"),
        ("CAST(i AS DECIMAL)", "DECIMAL(10,0)"),
        ("s::DECIMAL(5, 1)", "DECIMAL(5,1)"),
        ("try_cast(s AS TIMESTAMP)", "TIMESTAMP"),
    ],
)
def test_result_types_are_those_of_spark(sql: str, kind: str) -> None:
    assert str(typed(sql).type) == kind


@pytest.mark.parametrize(
    ("sql", "plan"),
    [
        ("i = 1.5", "(cast(i as DECIMAL(21,1)) = 1.5)"),
        ("d > 2", "(d > 2.00)"),
        ("d = i", "(cast(d as DECIMAL(22,2)) = cast(i as DECIMAL(22,2)))"),
        ("i = '404'", "(i = 404)"),
        ("s = 404", "(cast(s as BIGINT) = 404)"),
        ("s = 1.5", "(cast(s as DOUBLE) = 1.5)"),
        ("t >= '2024-05-01'", "(t >= TIMESTAMP(micros=1714521600000000))"),
        ("i / 2", "(cast(i as DOUBLE) / 2.0)"),
        ("d + 1", "(d + 1)"),
        ("i IN (1, 2.5)", "(cast(i as DECIMAL(21,1)) IN (1.0, 2.5))"),
        ("i BETWEEN 1 AND 2.5", "((i >= 1) AND (cast(i as DECIMAL(21,1)) <= 2.5))"),
        ("i IS NOT NULL", "(NOT (i IS NULL))"),
        ("b IS TRUE", "eq_null_safe(b, TRUE)"),
        ("b AND b AND NOT b OR b", "((b AND b AND (NOT b)) OR b)"),
        ("CASE i WHEN 1 THEN 'a' ELSE 'b' END", "case when (i = 1) then 'a' else 'b' end"),
        ("nvl2(s, 1, 0)", "case when (s IS NOT NULL) then 1 else 0 end"),
        ("nullif(i, 2.5)", "case when (cast(i as DECIMAL(21,1)) = 2.5) then NULL else i end"),
        ("s || ' ' || i", "concat(s, ' ', cast(i as STRING))"),
        ("ltrim('x', s)", "ltrim(s, 'x')"),
        ("trim(TRAILING 'x' FROM s)", "rtrim(s, 'x')"),
        ("substr(s, 2)", "substr(s, 2, 2147483647)"),
        ("left(s, 2)", "substr(s, 1, 2)"),
        ("replace(s, 'a')", "replace(s, 'a', '')"),
        ("round(i)", "i"),
        ("floor(i)", "i"),
        ("s NOT LIKE 'a%'", "(NOT (s LIKE 'a%'))"),
        ("- (5)", "(-5)"),
        ("i <> 1", "(i <> 1)"),
        ("s IS DISTINCT FROM 'x'", "(NOT (s <=> 'x'))"),
        ("mod(i, 2)", "(i % 2)"),
        ("CAST('1.5' AS DECIMAL(9, 3))", "cast('1.5' as DECIMAL(9,3))"),
        ("CAST('x' AS DECIMAL(9, 3))", "cast('x' as DECIMAL(9,3))"),
        ("CAST(1.5 AS BIGINT)", "cast(1.5 as BIGINT)"),
        ("CAST(7 AS DECIMAL(9, 3))", "7.000"),
        ("2.5::DOUBLE", "2.5"),
        ("1.5::BIGINT + 2l", "(cast(1.5 as BIGINT) + 2)"),
    ],
)
def test_conversions_are_written_down(sql: str, plan: str) -> None:
    assert text(typed(sql)) == plan.replace("eq_null_safe(b, TRUE)", "(b <=> TRUE)")


@pytest.mark.parametrize(
    ("sql", "message", "advice"),
    [
        ("i = b", "cannot mix BIGINT and BOOLEAN", "CAST"),
        ("t + 1", "cannot mix TIMESTAMP and BIGINT", "CAST"),
        ("t - t", "takes numbers, not TIMESTAMP", "unix_seconds"),
        ("i DIV f", "not a DOUBLE", "CAST(a / b AS BIGINT)"),
        ("abs(s)", "takes a number, not a STRING", "CAST"),
        ("greatest(i, s)", "cannot mix BIGINT and STRING", "CAST"),
        ("if(i, 1, 2)", "takes a BOOLEAN here, not a BIGINT", "CAST"),
        ("hour(i)", "takes a TIMESTAMP here, not a BIGINT", "CAST"),
        ("substr(s, 'x')", "takes a BIGINT here, not a STRING", "CAST"),
        ("CAST(b AS TIMESTAMP)", "a BOOLEAN cannot be cast to TIMESTAMP", ""),
        ("CAST(t AS DATE)", "there is no type DATE", "date_trunc"),
        ("CAST(f AS FLOAT)", "there is no type FLOAT", "DOUBLE"),
        ("CAST(i AS DECIMAL(39, 0))", "precision is 1 to 38", ""),
        ("i = 'abc'", "'abc' is no BIGINT", "CAST the other side"),
        ("t > 'noon'", "'noon' is no TIMESTAMP", ""),
        ("s LIKE s", "must be a constant STRING", "LIKE 'pattern'"),
        ("s LIKE 'a!b' ESCAPE '!'", "stands before %, _ or itself", ""),
        ("s RLIKE '(?=x)'", "'(?=x', which is not supported", "SQL.md"),
        ("regexp_extract(s, 'a')", "the pattern has 0 groups, no group 1", "parentheses"),
        ("parse_url(s, 'host')", "there is no part 'host'", "HOST"),
        ("parse_url(s, 'HOST', 'k')", "only the part QUERY takes a key", ""),
        ("date_trunc('fortnight', t)", "there is no unit 'FORTNIGHT'", "WEEK"),
        ("round(d, i)", "must be a constant BIGINT", "round(x[, digits])"),
        ("timestamp_seconds(wide)", "microseconds at the finest", "DECIMAL(18, 6)"),
        ("lower()", "lower does not take 0 arguments", "lower(text)"),
        ("lower(DISTINCT s)", "is no aggregate", ""),
        ("1.5F", "FLOAT is not supported", ""),
        ("300Y", "300 does not fit the suffix Y", ""),
        ("123456789012345678901234567890123456789", "39 digits", ""),
        ("INTERVAL 1 DAY", "an INTERVAL stands only in window", "TIMESTAMP"),
        ("array(1)", "GROUP BY does not take", ""),
    ],
)
def test_doubtful_mixes_are_refused_with_advice(sql: str, message: str, advice: str) -> None:
    with pytest.raises(SqlError) as caught:
        typed(sql)
    assert message in caught.value.message
    assert advice in caught.value.advice
