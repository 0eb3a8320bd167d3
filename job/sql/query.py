"""A SELECT to a Plan, clause by clause."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NoReturn

import msgspec

from job.errors import ParameterError, SqlError
from job.functions import AGGREGATES
from job.plan import ColumnRef, Expr, Field, Literal, Order, Output, Plan, Schema, columns_of
from job.sql import grouping
from job.sql.coercion import cast
from job.sql.expressions import Analyzer
from job.sql.limits import KEYS_MAX, LIMIT_MAX, ORDER_TERMS_MAX, OUTPUTS_MAX, SUBQUERY_DEPTH_MAX
from job.sql.near_names import did_you_mean
from job.sql.scope import Scope
from job.sql.syntax import Apply, Item, Name, Node, Number, Select
from job.types import ARRAY, BIGINT, BOOLEAN, NULL, WINDOW


class Compiler:
    """Compiles the SELECTs of one text."""

    def __init__(self, sql: str, schemas: Mapping[str, Schema], parameters: Mapping[str, object]) -> None:
        self.sql, self.schemas, self.parameters = sql, schemas, parameters
        self.used_parameters: set[str] = set()

    def plan(self, select: Select) -> Plan:
        """The plan of a whole text. Raises SqlError or ParameterError."""
        plan = self.select(select, 0, self.sql)
        unused = [name for name in self.parameters if name.lower() not in self.used_parameters]
        if unused:
            advice = (
                did_you_mean(unused[0], self.used_parameters) or "Leave it out, or write it with a colon."
            )
            raise ParameterError(f"the query has no parameter :{unused[0]}. {advice}")
        return plan

    def select(self, select: Select, depth: int, text: str) -> Plan:
        """The plan of one SELECT, with the plan of its subquery inside."""
        inner = None
        if isinstance(select.source, Select):
            if depth == SUBQUERY_DEPTH_MAX:
                raise SqlError(
                    f"more than {SUBQUERY_DEPTH_MAX} subqueries inside each other",
                    self.sql,
                    select.source_position,
                )
            inner = self.select(select.source, depth + 1, "")
            scope, source = Scope.of_plan(inner, select.alias), inner.source
        else:
            source = self._source(select)
            scope = Scope.of_schema(self.schemas[source], source, select.alias)
        analyzer = Analyzer(self.sql, scope, self.parameters)
        analyzer.item_names = frozenset(item.alias.lower() for item in select.items if item.alias is not None)
        plan = _SelectCompiler(self.sql, select, analyzer).plan(source, inner, text)
        self.used_parameters |= analyzer.used_parameters
        return plan

    def _source(self, select: Select) -> str:
        for name in self.schemas:
            if name.lower() == str(select.source).lower():
                return name
        known = ", ".join(self.schemas)
        advice = did_you_mean(str(select.source), self.schemas) or (f"There is: {known}." if known else "None is known yet.")
        raise SqlError(f"there is no source {select.source}", self.sql, select.source_position, advice)


class _SelectCompiler:
    """One SELECT with its analyzer. Methods run in the order of `plan`."""

    def __init__(self, sql: str, select: Select, analyzer: Analyzer) -> None:
        self._sql, self._select, self._a = sql, select, analyzer
        self._items: list[Expr] = []
        self._aliases: dict[str, Expr] = {}
        self._keys: list[Expr] = []
        self._windowed = False

    def _fail(self, message: str, position: int | None, advice: str = "") -> NoReturn:
        raise SqlError(message, self._sql, position, advice)

    def plan(self, source: str, inner: Plan | None, text: str) -> Plan:
        select = self._select
        if len(select.items) > OUTPUTS_MAX:
            self._fail(f"more than {OUTPUTS_MAX} columns", select.position)
        where = self._condition(select.where, "WHERE") if select.where is not None else None
        self._find_window()
        self._read_items()
        self._read_keys()
        outputs = tuple(
            self._output(item, expr) for item, expr in zip(select.items, self._items, strict=True)
        )
        self._check_names(outputs)
        having = self._having()
        order = self._order(outputs)
        if select.distinct:
            self._check_distinct(outputs)
        window, aggregates = self._a.window.window, tuple(self._a.aggregates.aggregates)
        plan = Plan(
            source=source,
            fields=(),
            keys=tuple(self._keys),
            aggregates=aggregates,
            outputs=outputs,
            where=where,
            window=window,
            having=having,
            order=order,
            limit=self._limit(),
            inner=inner,
            sql=text,
        )
        return _with_fields(plan)

    def _condition(self, node: Node, place: str) -> Expr:
        condition = self._a.row(node, place)
        return self._boolean(condition, node, place)

    def _boolean(self, condition: Expr, node: Node, place: str) -> Expr:
        if condition.type not in (BOOLEAN, NULL):
            self._fail(
                f"{place} takes a condition, not a {condition.type}",
                node.position,
                "Compare it with something.",
            )
        return cast(condition, BOOLEAN)

    def _find_window(self) -> None:
        """Types window(...) first, wherever it stands, so that its names are known everywhere."""
        for node in (*(item.expression for item in self._select.items), *self._select.group):
            for call in _calls(node):
                if call.function in ("window", "window start", "window end"):
                    self._a.row(call, "GROUP BY")
        for item in self._select.items:
            named = item.expression
            if item.alias is not None and isinstance(named, Apply) and named.function == "window":
                self._aliases[item.alias.lower()] = self._a.window.whole()

    def _read_items(self) -> None:
        # An alias may be named by the items behind it, where no field has that name, as in Spark.
        for item in self._select.items:
            expression = self._a.result(item.expression, self._aliases)
            self._items.append(grouping.settled(expression))
            if item.alias is not None:
                self._aliases.setdefault(item.alias.lower(), self._items[-1])

    def _read_keys(self) -> None:
        select = self._select
        grouped = bool(select.group) or select.group_all
        if select.group_all:
            self._group_by_items()
        for node in select.group:
            self._add_key(self._group_term(node), node)
        if not grouped and select.distinct and not any(map(grouping.has_aggregate, self._items)):
            self._group_by_items()
        elif (
            not grouped
            and not any(map(grouping.has_aggregate, self._items))
            and not self._having_aggregates()
        ):
            self._fail(
                "the query returns lines, not groups",
                select.position,
                "Write SELECT DISTINCT, an aggregate or GROUP BY; `elfstream parse` prints lines.",
            )
        if self._a.window.window is not None and not self._windowed:
            self._fail(
                "the window is not in GROUP BY",
                self._a.window.position,
                "Write GROUP BY window(...) as well.",
            )

    def _having_aggregates(self) -> bool:
        having = self._select.having
        return having is not None and any(call.function in AGGREGATES for call in _calls(having))

    def _group_by_items(self) -> None:
        for item, expression in zip(self._select.items, self._items, strict=True):
            if not grouping.has_aggregate(expression):
                self._add_key(expression, item.expression)

    def _group_term(self, node: Node) -> Expr:
        ordinal = _ordinal(node)
        if ordinal is not None:
            return self._ordinal_item(ordinal, node, "GROUP BY")
        return self._a.row(node, "GROUP BY", self._aliases)

    def _ordinal_item(self, ordinal: int, node: Node, place: str) -> Expr:
        if not 1 <= ordinal <= len(self._items):
            count = len(self._items)
            message = f"{place} {ordinal}: SELECT has {count} column{'s' * (count != 1)}"
            self._fail(message, node.position, f"Write a number from 1 to {count}, or a name.")
        return self._items[ordinal - 1]

    def _add_key(self, expression: Expr, node: Node) -> None:
        if grouping.has_aggregate(expression):
            self._fail(
                "GROUP BY names a column that is an aggregate",
                node.position,
                "Group by fields or expressions of them.",
            )
        if grouping.is_window(expression):
            self._windowed = True
            return
        if expression.type in (WINDOW, ARRAY) or grouping.has_array(expression):
            self._fail(f"GROUP BY does not take a {expression.type}", node.position)
        if grouping.has_window(expression):
            self._fail(
                "GROUP BY does not compute with the window",
                node.position,
                "GROUP BY window(...) alone, and compute in SELECT.",
            )
        expression = grouping.settled(expression)
        if expression not in self._keys:
            self._keys.append(expression)
        if len(self._keys) > KEYS_MAX:
            self._fail(f"more than {KEYS_MAX} keys", node.position)

    def _place(self, expression: Expr, position: int | None) -> Expr:
        problem = grouping.unplaceable(expression)
        if problem:
            self._fail(problem, position)
        try:
            return grouping.place(expression, self._keys)
        except grouping.NotGroupedError as error:
            advice = f"Add {error.field} to GROUP BY, or write min({error.field}) or max({error.field})."
            self._fail(f"{error.field} is neither in GROUP BY nor inside an aggregate", position, advice)

    def _output(self, item: Item, expression: Expr) -> Output:
        name = item.alias
        if name is None:
            name = (
                "window"
                if expression.type == WINDOW and item.text.lower().startswith("window")
                else item.text
            )
        return Output(name, self._place(expression, item.position))

    def _check_names(self, outputs: tuple[Output, ...]) -> None:
        seen: set[str] = set()
        for item, output in zip(self._select.items, outputs, strict=True):
            if output.name.lower() in seen:
                self._fail(
                    f"two columns are named {output.name}", item.position, "Give one another name with AS."
                )
            seen.add(output.name.lower())

    def _having(self) -> Expr | None:
        node = self._select.having
        if node is None:
            return None
        condition = self._a.result(node, self._aliases, aliases_first=True)
        return self._place(self._boolean(condition, node, "HAVING"), node.position)

    def _order(self, outputs: tuple[Output, ...]) -> tuple[Order, ...]:
        terms: list[Order] = []
        if len(self._select.order) > ORDER_TERMS_MAX:
            self._fail(f"more than {ORDER_TERMS_MAX} terms in ORDER BY", self._select.position)
        for term in self._select.order:
            node = term.expression
            expression = self._order_term(node)
            if grouping.is_window(expression):
                if term.descending:
                    self._fail(
                        "windows come in the order of time", node.position, "Leave out DESC for the window."
                    )
                continue
            placed = self._place(expression, node.position)
            if placed.type == ARRAY:
                self._fail(
                    "ORDER BY does not take an array", node.position, "Order by one approx_percentile(x, p)."
                )
            if not isinstance(placed, Literal):
                terms.append(Order(placed, term.descending, term.nulls_first))
        if self._select.distinct:
            self._check_distinct_order(terms, outputs)
        return tuple(terms)

    def _order_term(self, node: Node) -> Expr:
        ordinal = _ordinal(node)
        if ordinal is not None:
            return self._ordinal_item(ordinal, node, "ORDER BY")
        if isinstance(node, Name):
            # An unaliased column is named by its text: ORDER BY `count(*)`.
            for item, expression in zip(self._select.items, self._items, strict=True):
                if item.alias is None and item.text.lower() == str(node).lower():
                    return expression
        return self._a.result(node, self._aliases, aliases_first=True)

    def _check_distinct(self, outputs: tuple[Output, ...]) -> None:
        """DISTINCT over groups is allowed where it changes nothing: every key is a column."""
        shown = {output.expr.name for output in outputs if isinstance(output.expr, ColumnRef)}
        hidden = [index for index in range(len(self._keys)) if f"key{index}" not in shown]
        window_hidden = self._windowed and not any(_shows_window(output.expr) for output in outputs)
        if hidden or window_hidden:
            advice = "Show all keys, or write SELECT DISTINCT ... FROM (SELECT ... GROUP BY ...)."
            self._fail("DISTINCT over groups whose keys are not all shown", self._select.position, advice)

    def _check_distinct_order(self, terms: list[Order], outputs: tuple[Output, ...]) -> None:
        shown = {output.expr for output in outputs}
        for term in terms:
            if term.expr not in shown and any(column not in shown for column in columns_of(term.expr)):
                self._fail("with DISTINCT, ORDER BY names columns of SELECT", self._select.position)

    def _limit(self) -> int | None:
        node = self._select.limit
        if node is None:
            return None
        value = self._a.row(node, "LIMIT")
        if not isinstance(value, Literal) or value.type != BIGINT or not isinstance(value.value, int):
            self._fail("LIMIT takes a whole number", node.position, "Write LIMIT 10.")
        if not 0 <= value.value <= LIMIT_MAX:
            self._fail(f"LIMIT is 0 to {LIMIT_MAX}", node.position)
        return value.value


def _shows_window(expression: Expr) -> bool:
    return isinstance(expression, ColumnRef) and expression.name in ("window", "window_start", "window_end")


def _ordinal(node: Node) -> int | None:
    if isinstance(node, Number) and not node.suffix and node.text.lstrip("-").isdigit():
        return int(node.text)
    return None


def _calls(node: Node) -> Iterator[Apply]:
    """Every call inside a node, outermost first."""
    if isinstance(node, Apply):
        yield node
        for argument in node.arguments:
            yield from _calls(argument)


def _with_fields(plan: Plan) -> Plan:
    """The plan with the fields that its row phase reads, in the order of first use."""
    expressions: list[Expr] = [plan.where] if plan.where is not None else []
    if plan.window is not None:
        expressions.append(plan.window.time)
    expressions += plan.keys
    for aggregate in plan.aggregates:
        expressions += aggregate.arguments
        if aggregate.filter is not None:
            expressions.append(aggregate.filter)
    fields: dict[str, Field] = {}
    for expression in expressions:
        for column in columns_of(expression):
            fields.setdefault(column.name, Field(column.name, column.type))
    return msgspec.structs.replace(plan, fields=tuple(fields.values()))
