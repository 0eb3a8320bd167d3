"""SQL text to syntax tree. Everything the language has no meaning for is refused here, with its place in the
text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.tokenizer_core import TokenType

from job.errors import SqlError
from job.sql.dialect import PlainSpark
from job.sql.expression_syntax import ExpressionReader, start_of
from job.sql.leftovers import READ, refuse_leftovers
from job.sql.limits import SQL_CHARACTERS_MAX
from job.sql.parse_errors import parse_error
from job.sql.syntax import Item, Node, OrderTerm, Select
from job.sql.token_checks import check_tokens
from job.sql.unclosed import unclosed

_SUBQUERY = "Write a subquery in FROM: SELECT ... FROM (SELECT ... GROUP BY ...)."
_FILES = "Write FROM access; files are given on the command line, outside of the query."
_ONE_SOURCE = "A query reads one source; join the results of several jobs in Spark."

# Clauses of sqlglot's Select that the language lacks: the keyword to point at, and what to write instead.
_REFUSED_CLAUSES = {
    "with_": ("WITH", _SUBQUERY),
    "joins": ("JOIN", _ONE_SOURCE),
    "laterals": ("LATERAL", _ONE_SOURCE),
    "windows": ("WINDOW", "For time windows write GROUP BY window(time, '1 minute')."),
    "qualify": ("QUALIFY", "Use HAVING, or ORDER BY with LIMIT, which counts per window."),
    "distribute": ("DISTRIBUTE", "Leave it out: how rows are spread is not the query's concern."),
    "cluster": ("CLUSTER", "Leave it out: how rows are spread is not the query's concern."),
    "sort": ("SORT", "Write ORDER BY."),
    "offset": ("OFFSET", "Take more rows with LIMIT and skip the first."),
    "sample": ("TABLESAMPLE", "Every line is counted; leave it out."),
    "pivots": ("PIVOT", "Write one aggregate per column with FILTER (WHERE ...)."),
    "hint": ("/*+", "Hints mean nothing here; leave them out."),
    "into": ("INTO", "Choose the output on the command line."),
    "kind": ("SELECT", "Write the columns one by one."),
    "locks": ("FOR", "Leave it out."),
    "exclude": ("EXCLUDE", "Write the columns one by one."),
    "operation_modifiers": ("SELECT", "Leave the modifiers out."),
}


def parse(sql: str) -> Select:
    """The syntax tree of `sql`. Raises SqlError for what is no query of the language (docs/SQL.md). Linear
    time.
    """
    if len(sql) > SQL_CHARACTERS_MAX:
        raise SqlError(f"the query has {len(sql)} characters, the limit is {SQL_CHARACTERS_MAX}", "")
    if not sql.strip():
        raise SqlError("the query is empty", sql, None, "Write for example: SELECT count(*) FROM access")
    try:
        tokens = PlainSpark().tokenize(sql)
    except SqlglotError:
        raise unclosed(sql) from None
    try:
        check_tokens(sql, tokens)
        roots = PlainSpark().parser().parse(tokens, sql)
        return _StatementReader(sql, tokens).statement(roots)
    except RecursionError:
        raise SqlError(
            "the query is nested too deeply", sql, None, "Split it, or drop parentheses."
        ) from None
    except ParseError as error:
        raise parse_error(sql, tokens, error) from None


class _StatementReader:
    """Turns sqlglot's Select into ours, clause by clause."""

    def __init__(self, sql: str, tokens: Sequence[Any]) -> None:
        self._sql, self._tokens = sql, tokens
        self._expressions = ExpressionReader(sql)

    def statement(self, roots: Sequence[Any]) -> Select:
        statements = [root for root in roots if root is not None and not isinstance(root, exp.Semicolon)]
        select = self._query(statements[0], 0)
        refuse_leftovers(self._sql, statements[0])
        return select

    def _keyword(self, word: str) -> int | None:
        """Where a keyword stands first; None where the text has none (a comma join has no JOIN)."""
        for token in self._tokens:
            if token.text.upper().startswith(word) and token.token_type not in (TokenType.STRING, TokenType.IDENTIFIER):
                return int(token.start)
        return None

    def _query(self, node: Any, depth: int) -> Select:
        if isinstance(node, exp.SetOperation):
            word = type(node).__name__.upper()
            raise SqlError(
                f"{word} is not supported", self._sql, self._keyword(word), "Run one query for each part."
            )
        while isinstance(node, exp.Subquery) and not node.args.get("alias"):
            node = node.this
        if not isinstance(node, exp.Select):
            raise SqlError("only SELECT is supported", self._sql, None, _SUBQUERY)
        if not node.expressions:
            raise SqlError("SELECT names no column", self._sql, self._keyword("SELECT"), "Write SELECT count(*).")
        self._refuse_clauses(node)
        self._refuse_disorder(node)
        source, source_position, alias = self._source(node, depth)
        group = node.args.get("group")
        having, where, limit = (node.args.get(part) for part in ("having", "where", "limit"))
        distinct = node.args.get("distinct")
        if distinct is not None and distinct.args.get("on"):
            raise SqlError(
                "DISTINCT ON is not supported", self._sql, self._keyword("DISTINCT"), "Write GROUP BY."
            )
        read = self._expressions.read
        return Select(
            items=tuple(self._item(item) for item in node.expressions),
            source=source,
            alias=alias,
            where=read(where.this) if where is not None else None,
            group=self._group(group),
            group_all=group is not None and bool(group.args.get("all")),
            distinct=distinct is not None,
            having=read(having.this) if having is not None else None,
            order=tuple(self._order(term) for term in node.args["order"].expressions)
            if node.args.get("order")
            else (),
            limit=self._limit(limit) if limit is not None else None,
            position=self._keyword("SELECT"),
            source_position=source_position,
        )

    def _refuse_disorder(self, node: Any) -> None:
        """sqlglot takes WHERE, GROUP BY ... in any order, Spark in one. A clause's mark lies at its end."""
        end = -1
        for clause in ("where", "group", "having", "order", "limit"):
            part = node.args.get(clause)
            if part is None:
                continue
            if part.meta["start"] < end:
                word = {"group": "GROUP BY", "order": "ORDER BY"}.get(clause, clause.upper())
                advice = "The order is WHERE, GROUP BY, HAVING, ORDER BY, LIMIT."
                raise SqlError(f"{word} stands too early", self._sql, self._keyword(word), advice)
            end = part.meta["start"]

    def _refuse_clauses(self, node: Any) -> None:
        for clause, value in node.args.items():
            if not value or clause in READ[exp.Select]:
                continue
            word, advice = _REFUSED_CLAUSES.get(clause, (clause.rstrip("_").upper(), ""))
            position = self._keyword(word)
            if position is None:
                position = start_of(value[0] if isinstance(value, list) else value)
            raise SqlError(f"{word} is not supported", self._sql, position, advice)

    def _source(self, node: Any, depth: int) -> tuple[str | Select, int | None, str | None]:
        origin = node.args.get("from_")
        if origin is None:
            clauses = [self._keyword(word) for word in ("WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT")]
            end = len(self._sql.rstrip().rstrip(";"))
            place = min((at for at in clauses if at is not None), default=end)
            advice = "Write FROM access, the usual name of a source."
            raise SqlError("the query has no FROM", self._sql, place, advice)
        table = origin.this
        if table.args.get("db"):
            raise SqlError("the name of a source has one part", self._sql, start_of(table), _FILES)
        if any(value for key, value in table.args.items() if key not in ("this", "alias")):
            extra = next(key for key, value in table.args.items() if value and key not in ("this", "alias"))
            word, advice = _REFUSED_CLAUSES.get(extra, ("this form of FROM", _ONE_SOURCE))
            raise SqlError(
                f"{word} is not supported", self._sql, self._keyword(word) or self._keyword("FROM"), advice
            )
        alias = table.args.get("alias")
        if alias is not None and alias.args.get("columns"):
            position = start_of(alias.args["columns"][0])
            raise SqlError(
                "column names behind a table's alias are not supported", self._sql, position, "Use AS in SELECT."
            )
        alias_name = alias.this.name if alias is not None and alias.this is not None else None
        if isinstance(table, exp.Table) and isinstance(table.this, exp.Identifier):
            return table.this.name, table.this.meta.get("start"), alias_name
        if isinstance(table, exp.Subquery):
            return self._query(table.this, depth + 1), self._keyword("FROM"), alias_name
        raise SqlError(
            "FROM takes the name of a source or a subquery", self._sql, self._keyword("FROM"), _ONE_SOURCE
        )

    def _item(self, node: Any) -> Item:
        start, end = node.meta.get("span", (0, 0))
        alias = None
        if isinstance(node, exp.Aliases):
            if isinstance(node.this, exp.Anonymous) and not self._sql[end:].lstrip().upper().startswith("AS"):
                advice = "Write approx_percentile(x, 0.95) for a percentile."
                raise SqlError("a function takes one list of arguments", self._sql, start, advice)
            raise SqlError("one column takes one alias", self._sql, start)
        if isinstance(node, exp.Alias):
            alias = node.args["alias"].name
            node = node.this
        if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
            advice = "Name the columns: SELECT path, count(*) ... GROUP BY path. For lines, use `elfstream parse`."
            raise SqlError("SELECT * is not supported", self._sql, start, advice)
        return Item(self._expressions.read(node), alias, self._sql[start:end], start)

    def _group(self, group: Any) -> tuple[Node, ...]:
        if group is None:
            return ()
        for form in ("rollup", "cube", "grouping_sets", "totals"):
            if group.args.get(form):
                self._refuse_grouping(form)
        if group.args.get("all") is False:
            raise SqlError("GROUP BY DISTINCT is not supported", self._sql, self._keyword("GROUP"), "Write GROUP BY.")
        if not group.args.get("all") and not group.expressions:
            raise SqlError("GROUP BY names nothing", self._sql, self._keyword("GROUP"), "Write GROUP BY path.")
        for node in group.expressions:
            if isinstance(node, exp.Rollup | exp.Cube | exp.GroupingSets):
                self._refuse_grouping(type(node).__name__)
        return tuple(self._expressions.read(node) for node in group.expressions)

    def _refuse_grouping(self, form: str) -> None:
        word = {"grouping_sets": "GROUPING", "groupingsets": "GROUPING"}.get(form.lower(), form.upper())
        raise SqlError(
            f"{word} is not supported", self._sql, self._keyword(word), "Run one query per grouping."
        )

    def _order(self, term: Any) -> OrderTerm:
        if term.args.get("with_fill"):
            raise SqlError("WITH FILL is not supported", self._sql, self._keyword("FILL"))
        if isinstance(term.this, exp.Var):
            raise SqlError(
                "ORDER BY ALL is not supported", self._sql, self._keyword("ORDER"), "Name the columns."
            )
        expression = self._expressions.read(term.this)
        return OrderTerm(expression, bool(term.args.get("desc")), bool(term.args.get("nulls_first")))

    def _limit(self, limit: Any) -> Node | None:
        refused = ("offset", "limit_options", "expressions", "this")
        if not isinstance(limit, exp.Limit) or any(limit.args.get(part) for part in refused):
            raise SqlError("only LIMIT with one number is supported", self._sql, self._keyword("LIMIT"))
        if isinstance(limit.expression, exp.Var):
            return None
        return self._expressions.read(limit.expression)
