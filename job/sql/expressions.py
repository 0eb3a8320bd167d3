"""Expressions: syntax to typed calls over the columns of FROM.

A result expression is typed over the same columns; its aggregates and windows become marked columns (`MARK`),
which `job.sql.grouping` later turns into finished columns of the group.
"""

from __future__ import annotations

from collections.abc import Mapping

from job import foreign_functions
from job.errors import SqlError
from job.functions import AGGREGATES, REFUSED, SQL_FUNCTIONS
from job.plan import Call, ColumnRef, Expr, Literal
from job.sql import literals
from job.sql.aggregates import AggregateList
from job.sql.limits import DEPTH_MAX
from job.sql.near_names import did_you_mean
from job.sql.rules import apply_rule
from job.sql.scope import Scope
from job.sql.syntax import Apply, Constant, Interval, Name, Node, Number, Parameter, Star, String, TypeName
from job.sql.windows import WindowSlot
from job.types import BOOLEAN, NULL, STRING, TIMESTAMP, WINDOW


class Analyzer:
    """Types the expressions of one SELECT. `aggregates` and `window` collect what they call for."""

    def __init__(self, sql: str, scope: Scope, parameters: Mapping[str, object]) -> None:
        self.sql, self.scope, self.parameters = sql, scope, parameters
        self.aggregates = AggregateList(sql)
        self.window = WindowSlot(sql)
        self.used_parameters: set[str] = set()
        self.item_names: frozenset[str] = frozenset()
        """The aliases of SELECT in lower case."""

    def row(self, node: Node, place: str, aliases: Mapping[str, Expr] | None = None) -> Expr:
        """An expression over one line. `place` names the clause, for the error where it calls an aggregate.
        """
        return _Walk(self, aliases or {}, place).typed(node)

    def result(self, node: Node, aliases: Mapping[str, Expr], aliases_first: bool = False) -> Expr:
        """An expression over a group: aggregates allowed; where a field and an alias share a name, the flag
        decides.
        """
        return _Walk(self, aliases, "", aliases_first).typed(node)


class _Walk:
    """One expression being typed."""

    def __init__(
        self, analyzer: Analyzer, aliases: Mapping[str, Expr], no_aggregates: str, aliases_first: bool = False
    ) -> None:
        self._a, self._aliases, self._no_aggregates = analyzer, aliases, no_aggregates
        self._aliases_first, self._depth = aliases_first, 0

    def _fail(self, message: str, node: Node, advice: str = "") -> SqlError:
        return SqlError(message, self._a.sql, node.position, advice)

    def typed(self, node: Node) -> Expr:
        """The typed expression of a node. Raises SqlError."""
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise self._fail("the expression is nested too deeply", node, "Split it, or drop parentheses.")
        try:
            return self._typed(node)
        finally:
            self._depth -= 1

    def _typed(self, node: Node) -> Expr:
        match node:
            case Name():
                return self._name(node)
            case Apply():
                return self._apply(node)
            case Number():
                return self._number(node)
            case String():
                return self._string(node)
            case Constant():
                return Literal(node.value, NULL if node.value is None else BOOLEAN)
            case Parameter():
                self._a.used_parameters.add(node.name.lower())
                return literals.parameter_literal(node.name, self._a.parameters)
            case Interval():
                raise self._fail(
                    "an INTERVAL stands only in window(...)", node, "Compare with TIMESTAMP '...' instead."
                )
            case Star():
                raise self._fail("* stands only in count(*)", node)
        raise self._fail("this is no value", node)

    def _string(self, node: String) -> Literal:
        """Double quotes make a text; who knows other engines writes a column's name in them."""
        if node.position is not None and self._a.sql[node.position] == '"' and self._a.scope.find((node.value,)):
            advice = f"Write {node.value} or `{node.value}` for the column, '{node.value}' for the text."
            raise self._fail(f'"{node.value}" is a text here, and the name of a column', node, advice)
        return Literal(node.value, STRING)

    def _number(self, node: Number) -> Literal:
        try:
            return literals.number(node.text, node.suffix)
        except ValueError as error:
            raise self._fail(str(error), node) from None

    def _name(self, node: Name) -> Expr:
        alias = self._aliases.get(str(node).lower())
        if alias is not None and self._aliases_first:
            return alias
        found = self._a.scope.find(node.parts)
        if found is not None:
            return found
        if alias is not None:
            return alias
        inside = self._window_column(node)
        if inside is not None:
            return inside
        opened = self._a.scope.find_open(node.parts)
        if opened is not None:
            return opened
        if node.parts[-1].lower() in ("current_timestamp", "current_date", "current_user"):
            raise self._fail(f"{node} is not supported", node, REFUSED["now"])
        advice = self._a.scope.advice(str(node), self._aliases)
        if self._no_aggregates == "WHERE" and str(node).lower() in self._a.item_names:
            advice = f"{node} is a column of the result: write the condition in HAVING."
        raise self._fail(f"there is no column {node}", node, advice)

    def _window_column(self, node: Name) -> Expr | None:
        """`window`, `w.start`, `window.end`: the window that this query groups by."""
        parts = tuple(part.lower() for part in node.parts)
        if len(parts) == 2 and parts[1] in ("start", "end"):
            whole = self._aliases.get(parts[0])
            if whole is not None and whole.type == WINDOW:
                return self._a.window.part(parts[1])
            if parts[0] == "window" and self._a.window.window is not None:
                return self._a.window.part(parts[1])
        if parts == ("window",) and self._a.window.window is not None:
            return self._a.window.whole()
        return None

    def _apply(self, node: Apply) -> Expr:
        if node.function == "window":
            return self._window(node)
        if node.function in ("window start", "window end"):
            self._window(node)
            return self._a.window.part(node.function.removeprefix("window "))
        if node.function in AGGREGATES:
            return self._aggregate(node)
        if node.distinct or node.filter is not None:
            raise self._fail(f"{node.function} is no aggregate, so it takes no DISTINCT or FILTER", node)
        if node.function not in SQL_FUNCTIONS:
            raise self._unknown(node)
        arguments: list[Expr] = []
        for argument in node.arguments:
            if not isinstance(argument, TypeName):
                arguments.append(self.typed(argument))
        return apply_rule(self._a.sql, node, arguments)

    def _unknown(self, node: Apply) -> SqlError:
        names = (*SQL_FUNCTIONS, *AGGREGATES, "window")
        known = [name for name in names if name.isidentifier() and len(name) > 2]  # `or` is close to everything
        refused = REFUSED.get(node.function) or foreign_functions.advice_on(node.function)
        advice = refused or did_you_mean(node.function, known) or "docs/SQL.md lists the functions."
        written = node.function
        if node.position is not None and self._a.sql[node.position :].lower().startswith(written):
            written = self._a.sql[node.position : node.position + len(written)]
        return self._fail(
            f"the function {written} is {'not supported' if refused else 'unknown'}", node, advice
        )

    def _window(self, node: Apply) -> Expr:
        if self._no_aggregates and self._no_aggregates != "GROUP BY":
            raise self._fail(
                f"window(...) cannot stand in {self._no_aggregates}", node, "Write GROUP BY window(...)."
            )
        if not 2 <= len(node.arguments) <= 3:
            raise self._fail(
                "window takes a time, a size and perhaps a slide", node, "Write window(time, '1 minute')."
            )
        time = self.typed(node.arguments[0])
        if time.type != TIMESTAMP or self._marked(time):
            raise self._fail(
                f"the first argument of window is a TIMESTAMP field, not a {time.type}",
                node,
                "Write window(time, '1 minute').",
            )
        return self._a.window.set(node, time, [self._interval(argument) for argument in node.arguments[1:]])

    def _interval(self, node: Node) -> int:
        text = ""
        if isinstance(node, Interval):
            text = f"{node.amount} {node.unit}"
        elif isinstance(node, String):
            text = node.value
        elif isinstance(node, Parameter):
            bound = self.typed(node)
            text = str(bound.value) if isinstance(bound, Literal) else ""
        try:
            return literals.interval_micros(text)
        except ValueError as error:
            raise self._fail(str(error), node, "Write window(time, '1 minute').") from None

    def _aggregate(self, node: Apply) -> Expr:
        if self._no_aggregates:
            advice = "Write it in HAVING." if self._no_aggregates == "WHERE" else ""
            raise self._fail(
                f"the aggregate {node.function} cannot stand in {self._no_aggregates}", node, advice
            )
        inner = _Walk(self._a, {}, "an aggregate")
        if self._aliases_first:
            self._refuse_ambiguous(node)
        arguments = [inner.typed(argument) for argument in node.arguments if not isinstance(argument, Star)]
        where = inner.typed(node.filter) if node.filter is not None else None
        return self._a.aggregates.add(node, arguments, where)

    def _refuse_ambiguous(self, node: Node) -> None:
        """HAVING max(x) where x is a field and another column's alias: Spark takes the alias and then fails.
        """
        if isinstance(node, Apply):
            for argument in node.arguments:
                self._refuse_ambiguous(argument)
        if isinstance(node, Name):
            alias, field = self._aliases.get(str(node).lower()), self._a.scope.find(node.parts)
            if alias is not None and field is not None and alias != field:
                raise self._fail(
                    f"{node} is a field and the alias of another column", node, "Rename the alias."
                )

    @staticmethod
    def _marked(expression: Expr) -> bool:
        if isinstance(expression, Call):
            return any(_Walk._marked(argument) for argument in expression.arguments)
        return isinstance(expression, ColumnRef) and expression.name.startswith("\0")
