"""Every word of a query counts: what the plan does not carry is refused, whatever sqlglot makes of it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from sqlglot import exp

from job.errors import SqlError
from job.sql.leftovers import READ, refuse_leftovers
from job.sql.parse import parse

QUERIES = (
    "SELECT path , count ( DISTINCT a ) FILTER ( WHERE b > 3 ) AS n FROM access AS t WHERE c >= 500 AND path LIKE '/a%' "
    "GROUP BY path HAVING count ( * ) > 1 ORDER BY n DESC NULLS LAST , path LIMIT 5",
    "SELECT CASE WHEN a IS NULL THEN 1 ELSE 2 END , CAST ( b AS DECIMAL ( 3 , 2 ) ) , x BETWEEN 1 AND 2 , y NOT IN ( 1 ) , "
    "substr ( p , 1 , 2 ) , trim ( BOTH 'x' FROM p ) , extract ( HOUR FROM time ) , window ( time , INTERVAL 1 MINUTE ) "
    "FROM ( SELECT DISTINCT a FROM t ) GROUP BY ALL",
)
PLAIN_WORDS = """
, ; ( ) * (3) (x) ,3 7 'text' word ALL AS ASC BY COLLATE CROSS CUBE DEFAULT DESC DISTINCT ELSE EXCEPT FETCH FILTER FINAL
FIRST FOR FORMAT FROM GROUP HAVING IGNORE INTO JOIN LATERAL LIMIT NOT OFFSET ON ONLY ORDER PERCENT QUALIFY RENAME REPLACE
ROLLUP ROWS SAMPLE SORT STRAIGHT_JOIN STRUCT TOP USING WHERE WINDOW WITH BIGINT DATE DOUBLE()
"""
WORDS = (
    *PLAIN_WORDS.split(),
    "/*+ hint */",
    "AS t(a)",
    "EXCEPT (x)",
    "FOR UPDATE",
    "GROUP BY",
    "IGNORE NULLS",
    "OVER ()",
    "REPLACE (a AS b)",
    "SORT BY x",
    "TABLESAMPLE (5 ROWS)",
    "USING INDEX x",
    "VERSION AS OF 3",
    "WITH TIES",
)


def _bare(node: Any) -> Any:
    """A syntax tree without places and spelling."""
    if isinstance(node, tuple):
        return tuple(map(_bare, node))
    if not dataclasses.is_dataclass(node):
        return node
    shown = [f.name for f in dataclasses.fields(node) if f.name not in ("position", "source_position", "text")]
    return (type(node).__name__, *(_bare(getattr(node, name)) for name in shown))


def _ignored(query: str, at: int, word: str) -> bool:
    """Whether `word`, put in before piece `at`, is accepted and changes nothing."""
    pieces = query.split(" ")
    try:
        changed = parse(" ".join([*pieces[:at], word, *pieces[at:]]))
    except SqlError:
        return False
    return bool(_bare(changed) == _bare(parse(query)))


@pytest.mark.parametrize("query", QUERIES)
def test_no_word_is_passed_over(query: str) -> None:
    pieces = query.split(" ")
    for at in range(1, len(pieces) + 1):
        before, after = pieces[at - 1], pieces[at] if at < len(pieces) else ""
        for word in WORDS:
            noise = (
                (word == ";" and not after)
                or (word == "ALL" and before in ("SELECT", "("))
                or (word == "ASC" and after in ("LIMIT", ","))
            )
            assert noise or not _ignored(query, at, word), f"{word} is ignored behind {' '.join(pieces[:at])}"


@pytest.mark.parametrize("kind", READ, ids=lambda kind: kind.__name__)
def test_every_part_of_a_node_is_read_or_refused(kind: type) -> None:
    ignored = {"typed", "safe"}  # sqlglot's notes on a dialect
    for part in set(kind.arg_types) - READ[kind] - ignored:
        node = kind(**{part: exp.Var(this="x")})
        with pytest.raises(SqlError, match="is not supported"):
            refuse_leftovers("", node)


def test_nodes_that_no_reader_knows_are_refused() -> None:
    with pytest.raises(SqlError, match="PREWHERE"):
        refuse_leftovers("", exp.Select(where=exp.PreWhere(this=exp.Null())))


@pytest.mark.parametrize(
    ("sql", "at", "message"),
    [
        ("SELECT count(*), FROM access", ", FROM", "missing behind this comma"),
        ("SELECT count(*) FROM access, WHERE a", ", WHERE", "missing behind this comma"),
        ("SELECT count(*) FROM access GROUP BY path,", ",", "missing behind this comma"),
        ("SELECT count(a,) FROM access", ",", "missing behind this comma"),
        ("SELECT count(*) FROM access LIMIT , 5", ", 5", "missing before this comma"),
        ("SELECT AS path FROM access", "AS", "missing before AS"),
        ("SELECT path AS, b FROM access", ",", "missing behind AS"),
        ("SELECT count(*) FROM access *", "*\n", "* means nothing behind a source"),
        ("SELECT a FROM access GROUP BY DISTINCT a", "GROUP", "GROUP BY DISTINCT"),
        ("SELECT count(*) FROM (SELECT a FROM access GROUP BY)", "GROUP", "GROUP BY names nothing"),
        ("SELECT count(* EXCEPT (a)) FROM access", "EXCEPT", "cannot follow *"),
        ("SELECT count(*) FILTER (a = 1) FROM access", "a =", "WHERE is missing"),
        ("SELECT a FROM access ORDER BY a ASC DESC", "DESC", "either ASC or DESC"),
        ("SELECT max(a) FROM access /*+ x */", "/*+", "hints"),
        ("SELECT trim(a FROM access", "(", "not closed"),
        ("SELECT max(a)) FROM access", ") FROM", "closes nothing"),
        ("SELECT substr(a, 1, 2, 3) FROM access", ", 3", "a closing parenthesis is expected"),
        ("SELECT CAST(a AS STRING FORMAT 'x') FROM access", "FORMAT", "a closing parenthesis is expected"),
        ("SELECT CAST(a AS DECIMAL(b, 2)) FROM access", "DECIMAL", "a type such as"),
        ("SELECT extract(HOUR(3) FROM time) FROM access", "time", "name of a unit"),
        ("SELECT a FROM access LIMIT 5 GROUP BY a", "LIMIT", "stands too early"),
        ("SELECT a FROM access HAVING count(*) > 1 GROUP BY a", "HAVING", "stands too early"),
        ("SELECT max(a) FROM access; SELECT", "SELECT\n", "more than one statement"),
    ],
)
def test_what_sqlglot_drops_is_refused_with_its_place(sql: str, at: str, message: str) -> None:
    with pytest.raises(SqlError) as caught:
        parse(sql)
    assert message in caught.value.message
    assert caught.value.position == (sql + "\n").rindex(at)


def test_comments_and_texts_that_look_like_hints_are_none() -> None:
    assert parse("SELECT '/*+ x */' -- /*+ y */\n, count(*) FROM access /* plus */").items
