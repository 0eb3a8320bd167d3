"""Reading the text: names, strings, clauses, positions, and what is refused with which advice."""

from __future__ import annotations

import pytest

from job.errors import SqlError
from job.plan import Literal, Plan, Schema
from job.sql import compile_sql
from job.types import BIGINT, STRING, TIMESTAMP

SCHEMA = Schema({"time": TIMESTAMP, "path": STRING, "status": BIGINT}, aliases={"request_uri": "path"})
OPEN = Schema({"time": TIMESTAMP, "status": BIGINT}, open_fields=True)


def compiled(sql: str) -> Plan:
    return compile_sql(sql, {"access": SCHEMA, "docs": OPEN})


def refused(sql: str) -> SqlError:
    with pytest.raises(SqlError) as caught:
        compiled(sql)
    return caught.value


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        (r"'it\'s'", "it's"),
        ("'it''s'", "it's"),
        ('"x""y"', 'x"y'),
        ("'a' 'b'", "ab"),
        ("'a' /* and */ 'b' -- then\n 'c'", "abc"),
        (r"'a\nb\tc\\d\0e'", "a\nb\tc\\d\0e"),
        (r"'\101\u0042\U0001F600'", "AB\U0001f600"),
        (r"'50\%\_'", r"50\%\_"),
        (r"'\q\Z'", "q\x1a"),
        (r"r'\d+'", r"\d+"),
        ("'ümläut'", "ümläut"),
        ("''", ""),
    ],
)
def test_strings_are_read_as_spark_reads_them(literal: str, value: str) -> None:
    key = compiled(f"SELECT DISTINCT {literal} AS x FROM access").keys[0]
    assert key == Literal(value, STRING)


def test_names_do_not_care_for_case() -> None:
    plan = compiled("select PATH, Count(*) as Hits from ACCESS a group by A.Path order by HITS")
    assert [field.name for field in plan.fields] == ["path"]
    assert [output.name for output in plan.outputs] == ["PATH", "Hits"]
    assert plan.source == "access"


def test_an_alias_of_the_format_names_its_field() -> None:
    assert [field.name for field in compiled("SELECT max(request_uri) FROM access").fields] == ["path"]


def test_open_fields_are_strings_with_dots() -> None:
    plan = compiled("SELECT user.Id, docs.host, max(a.b.c.d.e.f) FROM docs GROUP BY ALL")
    assert [field.name for field in plan.fields] == ["user.Id", "host", "a.b.c.d.e.f"]
    assert {field.type for field in plan.fields} == {STRING}


def test_an_alias_wins_over_an_open_field() -> None:
    plan = compiled("SELECT lower(host) AS h, count(*) FROM docs GROUP BY h")
    assert [field.name for field in plan.fields] == ["host"]


def test_columns_are_named_by_their_text() -> None:
    plan = compiled("SELECT lower( path ),count(*)   , window(time, '1 minute') FROM access GROUP BY ALL")
    assert [output.name for output in plan.outputs] == ["lower( path )", "count(*)", "window"]


def test_keywords_may_be_names_in_backticks() -> None:
    plan = compiled("SELECT path AS `select`, count(*) AS `a``b` FROM access GROUP BY `select` ORDER BY `a``b`")
    assert [output.name for output in plan.outputs] == ["select", "a`b"]


def test_a_last_semicolon_and_comments_are_welcome() -> None:
    assert compiled("SELECT count(*) -- all\nFROM access /* the log */;").source == "access"


@pytest.mark.parametrize(
    ("sql", "at", "message"),
    [
        ("SELECT pth, count(*) FROM access GROUP BY 1", "pth", "there is no column pth"),
        ("SELECT count(*)\nFROM access\nWHERE lenght(path) > 1", "lenght", "the function lenght is unknown"),
        ("SELECT count(*) FROM acces", "acces", "there is no source acces"),
        ("SELECT path, status FROM access GROUP BY path", "status", "neither in GROUP BY nor inside"),
        ("SELECT count(*) FROM access LIMIT 1.5", "1.5", "LIMIT takes a whole number"),
        ("SELECT count(*) FROM access WHERE status + 1", "status", "WHERE takes a condition"),
        ("SELECT count(*) FROM access WHERE status = 'x'", "'x'", "'x' is no BIGINT"),
        ("SELECT count(*),, max(path) FROM access", ", max", "missing before this comma"),
        ("SELECT count(*) FROM access WHERE time > TIMESTAMP '2024-13-01'", "'2024", "'2024-13-01' is no TIMESTAMP"),
        ("SELECT count(*) FROM access WHERE status = 200 AND", "AND", "something is missing behind it"),
        ("SELECT path FORM access", "FORM", "this word is not expected here"),
        ("SELECT count(*) FROM access WHERE path LIKE ANY ('a')", "'a'", "ANY is not supported"),
    ],
)
def test_errors_point_into_the_text(sql: str, at: str, message: str) -> None:
    error = refused(sql)
    assert message in error.message
    assert error.position == sql.index(at)
    shown, caret = str(error).splitlines()[1:3]
    assert shown[caret.index("^") :].startswith(at)


@pytest.mark.parametrize(
    ("sql", "message", "advice"),
    [
        ("", "empty", "SELECT"),
        ("DELETE FROM access", "starts with SELECT", ""),
        ("SELECT 'open FROM access", "is not closed", ""),
        ("SELECT FROM access", "names no column", ""),
        ("SELECT max(path -> 'a') FROM access", "-> means nothing here", ""),
        ("SELECT count(*) FROM", "", ""),
        ("SELECT count(*)", "no FROM", "FROM access"),
        ("SELECT count(*) FROM access; SELECT 1", "more than one statement", ""),
        ("SELECT * FROM access", "SELECT * is not supported", "elfstream parse"),
        ("SELECT path FROM access", "lines, not groups", "SELECT DISTINCT"),
        ("SELECT count(*) FROM access a JOIN docs b ON a.time = b.time", "JOIN", "Spark"),
        ("SELECT count(*) FROM access, docs", "JOIN", "Spark"),
        ("SELECT count(*) FROM access UNION SELECT count(*) FROM docs", "UNION", "one query for each"),
        ("WITH a AS (SELECT 1) SELECT count(*) FROM a", "WITH", "subquery in FROM"),
        ("SELECT count(*) OVER () FROM access", "OVER", "LIMIT"),
        ("SELECT count(*) FROM access WHERE path IN (SELECT path FROM docs)", "IN takes a list", ""),
        ("SELECT count(*) FROM access WHERE EXISTS (SELECT 1)", "EXISTS", "FROM only"),
        ("SELECT (SELECT 1), count(*) FROM access", "subquery here", "FROM only"),
        ("SELECT path, count(*) FROM access GROUP BY ROLLUP(path)", "ROLLUP", "one query per grouping"),
        ("SELECT path, count(*) FROM access GROUP BY path WITH CUBE", "CUBE", ""),
        ("SELECT path, count(*) FROM access GROUP BY GROUPING SETS ((path))", "GROUPING", ""),
        ("SELECT count(*) FROM access LIMIT 5 OFFSET 5", "OFFSET", ""),
        ("SELECT count(*) FROM access TABLESAMPLE (5 PERCENT)", "TABLESAMPLE", ""),
        ("SELECT path, count(*) FROM access GROUP BY path SORT BY path", "SORT", "ORDER BY"),
        ("SELECT count(*) FROM access LATERAL VIEW explode(path) t", "LATERAL", ""),
        ("SELECT /*+ BROADCAST(a) */ count(*) FROM access", "/*+", ""),
        ("SELECT any_value(path) FROM access", "any_value is not supported", "min(x)"),
        ("SELECT count(*) FROM access WHERE time > now()", "now is not supported", ":now"),
        ("SELECT count(*) FROM access WHERE time > current_timestamp", "current_timestamp", ":now"),
        ("SELECT count(*) FROM access WHERE path ILIKE 'x'", "ILIKE", "lower(x)"),
        ("SELECT max(path || status + 1) FROM access", "which operator binds first", "parentheses"),
        ("SELECT max(path = (NOT path) = path) FROM access", "binds first", "parentheses"),
        ("SELECT max(path[0]) FROM access", "BRACKET", "a.b.c"),
        ("SELECT max(split(path, '/')[1]) FROM access", "BRACKET", "split_part"),
        ("SELECT max(regexp_replace(path, 'a', 'b')) FROM access", "not supported", "regexp_extract"),
        ("SELECT lowr(path) FROM access GROUP BY 1", "unknown", "Did you mean lower?"),
        ("SELECT count(*) FROM access WHERE time > DATE '2024-05-01'", "no type DATE", "TIMESTAMP '2024-05-01'"),
        ("SELECT max(CAST(path AS ARRAY<INT>)) FROM access", "plain types", ""),
        ("SELECT max(status) FROM access WHERE status IS 5", "IS takes NULL, TRUE or FALSE", ""),
        ("SELECT max(path) AS (a, b) FROM access", "one alias", ""),
    ],
)
def test_what_is_outside_is_refused_with_advice(sql: str, message: str, advice: str) -> None:
    error = refused(sql)
    assert message in error.message
    assert advice in error.advice


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("ststus", "status"),
        ("PATHS", "path"),
    ],
)
def test_unknown_names_come_with_the_nearest(written: str, meant: str) -> None:
    assert f"Did you mean {meant}" in refused(f"SELECT max({written}) FROM access").advice


def test_text_nesting_and_lists_are_limited() -> None:
    assert "characters" in refused("SELECT " + " " * 70_000 + "count(*) FROM access").message
    assert "parentheses" in refused("SELECT max(" + "(" * 200 + "1" + ")" * 200 + ") FROM access").message
    assert "nested too deeply" in refused(f"SELECT max({'1 + ' * 3000}1) FROM access").message
    assert "words and signs" in refused("SELECT max(" + "1+" * 15_000 + "1) FROM access").message
    many = ", ".join(f"max(status + {index})" for index in range(300))
    assert "more than 256 aggregates" in refused(f"SELECT {many} FROM access").message
    keys = ", ".join(f"status + {index}" for index in range(70))
    assert "more than 64 keys" in refused(f"SELECT DISTINCT {keys} FROM access").message
    inner = "access"
    for _ in range(6):
        inner = f"(SELECT path, count(*) AS status FROM {inner} GROUP BY path)"
    assert "subqueries inside each other" in refused(f"SELECT count(*) FROM {inner}").message


def test_long_chains_are_no_nesting() -> None:
    condition = " OR ".join(f"status = {index}" for index in range(2000))
    assert compiled(f"SELECT count(*) FROM access WHERE {condition}").where is not None
    listed = ", ".join(str(index) for index in range(9000))
    assert compiled(f"SELECT count(*) FROM access WHERE status IN ({listed})").where is not None


def test_importing_the_front_end_does_not_import_the_parser() -> None:
    import subprocess
    import sys

    code = "import sys, job.sql, job.plan, job.functions, job.spark_sql, job.explain; print('sqlglot' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
