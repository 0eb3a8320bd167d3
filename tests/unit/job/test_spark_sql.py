"""The Spark SQL text of plans, without Spark: each form that differs from what was written, and why it does."""

from __future__ import annotations

import pytest

from job.plan import Plan, Schema
from job.spark_sql import expression, identifier, string_literal
from job.sql import compile_sql
from job.types import BIGINT, BOOLEAN, DOUBLE, SECONDS, STRING, TIMESTAMP

FIELDS = {
    "s": STRING,
    "i": BIGINT,
    "j": BIGINT,
    "d": SECONDS,
    "f": DOUBLE,
    "b": BOOLEAN,
    "t": TIMESTAMP,
}


def compiled(sql: str) -> Plan:
    return compile_sql(sql, {"log": Schema(FIELDS)})


def rendered(sql: str) -> str:
    return expression(compiled(f"SELECT DISTINCT {sql} AS x FROM log").keys[0])


@pytest.mark.parametrize(
    ("sql", "spark"),
    [
        ("i + 1", "try_add(`i`, 1L)"),
        ("d - 1", "try_subtract(`d`, CAST('1' AS DECIMAL(1,0)))"),
        ("d * i", "try_multiply(`d`, CAST(`i` AS DECIMAL(20,0)))"),
        ("f * 2", "(`f` * 2.0D)"),
        ("i / j", "try_divide(CAST(`i` AS DOUBLE), CAST(`j` AS DOUBLE))"),
        ("i % j", "try_mod(`i`, `j`)"),
        ("i DIV 2", "(`i` DIV nullif(2L, 0L))"),
        (
            "i DIV j",
            "(CASE WHEN `i` = -9223372036854775808L AND `j` = -1L THEN NULL ELSE (`i` DIV nullif(`j`, 0L)) END)",
        ),
        ("d DIV d", "try_cast(try_divide(try_subtract(`d`, try_mod(`d`, `d`)), `d`) AS BIGINT)"),
        ("-i", "(- nullif(`i`, -9223372036854775808L))"),
        ("-f", "(- `f`)"),
        ("abs(i)", "abs(nullif(`i`, -9223372036854775808L))"),
        ("ceil(d)", "ceil(`d`)"),
        (
            "floor(f)",
            "floor(CASE WHEN (`f` >= -9.223372036854775808E18D AND `f` < 9.223372036854775808E18D) OR isnan(`f`)"
            " THEN `f` END)",
        ),
        ("round(d, 2)", "round(`d`, 2)"),
        ("round(i, -2)", "try_cast(round(CAST(`i` AS DECIMAL(19,0)), -2) AS BIGINT)"),
        ("CAST(s AS BIGINT)", "try_cast(`s` AS BIGINT)"),
        ("CAST(i AS STRING)", "CAST(`i` AS STRING)"),
        ("CAST(d AS DECIMAL(5, 1))", "try_cast(`d` AS DECIMAL(5,1))"),
        ("CAST(i AS DECIMAL(19, 0))", "CAST(`i` AS DECIMAL(19,0))"),
        ("i = 1.5", "(CAST(`i` AS DECIMAL(21,1)) = CAST('1.5' AS DECIMAL(21,1)))"),
        ("t > '2024-05-01'", "(`t` > timestamp_micros(1714521600000000L))"),
        ("b IS NOT TRUE", "(NOT (`b` <=> TRUE))"),
        ("i IN (1, NULL)", "(`i` IN (1L, CAST(NULL AS BIGINT)))"),
        ("b AND i > 1 AND b", "(`b` AND (`i` > 1L) AND `b`)"),
        ("CASE WHEN b THEN 1 ELSE 2 END", "(CASE WHEN `b` THEN 1L ELSE 2L END)"),
        (r"s LIKE 'a\\_%'", r"(`s` LIKE 'a\\_%' ESCAPE '\\')"),
        (r"s RLIKE '^a\\s$'", r"(`s` RLIKE '(?d)^a[\\t\\n\\f\\r ]\\z')"),
        ("regexp_extract(s, '(a)')", "regexp_extract(`s`, '(?d)(a)', 1)"),
        ("length(s)", "CAST(length(`s`) AS BIGINT)"),
        ("substr(s, 2)", "substr(`s`, 2, 2147483647)"),
        (
            "left(s, i)",
            "substr(`s`, 1, CAST(CASE WHEN `i` < -2147483648L THEN -2147483648L WHEN `i` > 2147483647L"
            " THEN 2147483647L ELSE `i` END AS INT))",
        ),
        ("split_part(s, '/', 2)", "split_part(`s`, '/', nullif(2, 0))"),
        ("ltrim('x', s)", "trim(LEADING 'x' FROM `s`)"),
        ("trim(s)", "trim(`s`)"),
        ("parse_url(s, 'QUERY', 'a.b')", r"try_parse_url(`s`, 'QUERY', 'a\\.b')"),
        ("url_decode(s)", "try_url_decode(`s`)"),
        ("hour(t)", "CAST(hour(`t`) AS BIGINT)"),
        ("date_trunc('dd', t)", "date_trunc('DAY', `t`)"),
        (
            "timestamp_seconds(i)",
            "timestamp_seconds(CASE WHEN `i` BETWEEN -9223372036854L AND 9223372036854L THEN `i` END)",
        ),
        ("coalesce(f, CAST('NaN' AS DOUBLE))", "coalesce(`f`, try_cast('NaN' AS DOUBLE))"),
    ],
)
def test_expressions(sql: str, spark: str) -> None:
    assert rendered(sql) == spark


def test_a_grouped_query_is_two_layers() -> None:
    plan = compiled("SELECT s, count(*) AS n FROM log WHERE b GROUP BY s HAVING count(*) > 1 ORDER BY n DESC")
    assert plan.to_spark_sql() == (
        "SELECT `#key0` AS `s`, `#agg0` AS `n`\n"
        "FROM (SELECT `s` AS `#key0`, count(*) AS `#agg0` FROM `log` WHERE `b` GROUP BY `s`)\n"
        "WHERE (`#agg0` > 1L)\n"
        "ORDER BY `#agg0` DESC NULLS LAST, `#key0` ASC NULLS FIRST"
    )


def test_limit_counts_per_window_in_the_total_order() -> None:
    sql = "SELECT window(time, '1 minute', '30 seconds') AS w, s, max(i) FROM log GROUP BY 1, 2 ORDER BY 3 LIMIT 2"
    text = compile_sql(sql, {"log": Schema({**FIELDS, "time": TIMESTAMP})}).to_spark_sql()
    assert "window(`time`, '60000000 microseconds', '30000000 microseconds') AS `#window`" in text
    assert "row_number() OVER (PARTITION BY `#window` ORDER BY `#agg0` ASC NULLS FIRST, `#key0` ASC NULLS FIRST)" in text
    assert "WHERE `#rank` <= 2\nORDER BY `#window`.`start` ASC NULLS FIRST, `#agg0` ASC" in text


@pytest.mark.parametrize(
    ("sql", "spark"),
    [
        ("count(DISTINCT s, i)", "count(DISTINCT `s`, `i`)"),
        ("count_if(b)", "count(*) FILTER (WHERE `b`)"),
        ("sum(i)", "try_cast(sum(CAST(`i` AS DECIMAL(20,0))) AS BIGINT)"),
        ("sum(i) FILTER (WHERE b)", "try_cast(sum(CAST(`i` AS DECIMAL(20,0))) FILTER (WHERE `b`) AS BIGINT)"),
        ("sum(d)", "try_sum(`d`)"),
        ("avg(i)", "try_avg(`i`)"),
        ("approx_percentile(i, 0.5)", "approx_percentile(CAST(`i` AS DOUBLE), 0.5D)"),
        ("approx_count_distinct(s)", "approx_count_distinct(`s`)"),
        ("hll_sketch_agg(s) FILTER (WHERE i > 1)", "base64(hll_sketch_agg(`s`) FILTER (WHERE (`i` > 1L)))"),
        ("min(s)", "min(`s`)"),
    ],
)
def test_aggregates(sql: str, spark: str) -> None:
    assert f"SELECT {spark} AS `#agg0` FROM" in compiled(f"SELECT {sql} FROM log").to_spark_sql()


def test_a_query_without_groups_has_no_group_by() -> None:
    text = compiled("SELECT 5 AS five, count(*) FROM log").to_spark_sql()
    assert "GROUP BY" not in text
    assert "ORDER BY" not in text


def test_a_subquery_is_rendered_inside_and_its_window_read_by_parts() -> None:
    sql = "SELECT max(w.end) FROM (SELECT window(t, '1 hour') w, count(*) c FROM log GROUP BY w)"
    assert "max(`w`.`end`) AS `#agg0` FROM (SELECT `#window` AS `w`" in compiled(sql).to_spark_sql()


def test_names_and_strings_are_quoted() -> None:
    assert identifier("a`b") == "`a``b`"
    assert string_literal("it's \\ \n\t\0\x1a\x01 ü") == r"'it\'s \\ \n\t\0\Z\u0001 ü'"
