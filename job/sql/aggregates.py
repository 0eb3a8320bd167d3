"""Aggregate calls: checked, typed and numbered; equal calls share one aggregate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from job.errors import SqlError
from job.functions import AGGREGATES
from job.plan import Aggregate, Call, ColumnRef, Expr, Literal
from job.sql.coercion import bounded, cast
from job.sql.limits import AGGREGATES_MAX, PERCENTILES_MAX
from job.sql.syntax import Apply, Node, Star
from job.sql.windows import MARK
from job.types import ARRAY, BIGINT, BOOLEAN, DOUBLE, NULL, STRING, Kind, Type

_ORDERED = (Kind.BOOLEAN, Kind.BIGINT, Kind.DECIMAL, Kind.DOUBLE, Kind.STRING, Kind.TIMESTAMP)


class AggregateList:
    """The aggregates of one SELECT in the order met."""

    def __init__(self, sql: str) -> None:
        self._sql = sql
        self.aggregates: list[Aggregate] = []

    def add(self, node: Apply, arguments: Sequence[Expr], where: Expr | None) -> Expr:
        """The value of an aggregate call: a marked column, or an `array` of them. Raises SqlError."""
        if where is not None and where.type not in (BOOLEAN, NULL):
            self._fail(f"FILTER (WHERE ...) takes a condition, not a {where.type}", node)
        where = cast(where, BOOLEAN) if where is not None else None
        plan = AGGREGATES[node.function].plan
        if plan == "count":
            return self._count(node, arguments, where)
        if plan == "approx_percentile":
            return self._percentile(node, arguments, where)
        if len(arguments) != 1 or any(isinstance(argument, Star) for argument in node.arguments):
            self._fail(f"{node.function} takes one argument", node)
        if node.distinct and plan not in ("min", "max", "approx_count_distinct", "hll_sketch_agg"):
            advice = "" if plan == "count_if" else "Group by the column in a subquery first."
            self._fail(f"{node.function}(DISTINCT ...) is not supported", node, advice)
        if plan == "count_if":
            return self._count_if(node, arguments[0], where)
        return self._ref(plan, self._input(node, plan, arguments[0]), where, node)

    def _fail(self, message: str, node: Node, advice: str = "") -> NoReturn:
        if not advice and isinstance(node, Apply) and node.function in AGGREGATES:
            advice = f"Write {AGGREGATES[node.function].usage}."
        raise SqlError(message, self._sql, node.position, advice)

    def _ref(
        self, plan: str, arguments: tuple[Expr, ...], where: Expr | None, node: Apply, parameter: float = 0.0
    ) -> ColumnRef:
        kind = result_type(plan, arguments)
        aggregate = Aggregate(plan, arguments, kind, where, parameter)
        if aggregate not in self.aggregates:
            if len(self.aggregates) == AGGREGATES_MAX:
                self._fail(f"more than {AGGREGATES_MAX} aggregates", node, "Split the query.")
            self.aggregates.append(aggregate)
        return ColumnRef(f"{MARK}{self.aggregates.index(aggregate)}", kind)

    def _count(self, node: Apply, arguments: Sequence[Expr], where: Expr | None) -> Expr:
        stars = [argument for argument in node.arguments if isinstance(argument, Star)]
        if (not arguments and not stars) or (stars and (node.distinct or len(node.arguments) > 1)):
            self._fail("count takes * or expressions", node)
        for argument in arguments:
            if argument.type.kind not in (*_ORDERED, Kind.NULL):
                self._fail(f"count does not take a {argument.type}", node)
        if node.distinct:
            return self._ref(
                "count_distinct", tuple(_typed_null(argument) for argument in arguments), where, node
            )
        # A constant that is not NULL counts rows, as Spark's count(1) does.
        rest = tuple(one for one in arguments if not isinstance(one, Literal) or one.value is None)
        return self._ref("count", tuple(_typed_null(argument) for argument in rest), where, node)

    def _count_if(self, node: Apply, condition: Expr, where: Expr | None) -> Expr:
        if condition.type not in (BOOLEAN, NULL):
            self._fail(f"count_if takes a condition, not a {condition.type}", node)
        condition = cast(condition, BOOLEAN)
        both = condition if where is None else Call("and", (where, condition), BOOLEAN)
        return self._ref("count", (), both, node)

    def _input(self, node: Apply, plan: str, argument: Expr) -> tuple[Expr, ...]:
        kind = argument.type
        if plan in ("sum", "avg"):
            if kind == NULL:
                return (cast(argument, DOUBLE),)
            if not kind.is_numeric:
                advice = "Write CAST(x AS BIGINT), AS DOUBLE or AS DECIMAL(p, s)." if kind == STRING else ""
                if kind == BOOLEAN:
                    advice = "Write count_if(condition)" + ("." if plan == "sum" else " / count(*).")
                self._fail(f"{node.function} takes a number, not a {kind}", node, advice)
        elif plan == "hll_sketch_agg" and kind not in (BIGINT, STRING, NULL):
            advice = "Write CAST(x AS STRING)."
            self._fail(f"{node.function} takes a STRING or a BIGINT, not a {kind}", node, advice)
        elif kind.kind not in (*_ORDERED, Kind.NULL):
            self._fail(f"{node.function} does not take a {kind}", node)
        return (_typed_null(argument),)

    def _percentile(self, node: Apply, arguments: Sequence[Expr], where: Expr | None) -> Expr:
        if len(arguments) == 3:
            self._fail(
                "approx_percentile takes no accuracy here: its relative error is always below 1 %", node
            )
        if len(arguments) != 2 or node.distinct:
            self._fail("approx_percentile takes a number and a share", node)
        value, shares = arguments
        if not value.type.is_numeric and value.type != NULL:
            self._fail(
                f"approx_percentile takes a number, not a {value.type}", node, "Write CAST(x AS DOUBLE)."
            )
        inputs = (cast(value, DOUBLE),)
        if isinstance(shares, Call) and shares.function == "array":
            if len(shares.arguments) > PERCENTILES_MAX:
                self._fail(f"more than {PERCENTILES_MAX} shares", node)
            refs = tuple(
                self._ref("approx_percentile", inputs, where, node, self._share(node, one))
                for one in shares.arguments
            )
            return Call("array", refs, ARRAY)
        return self._ref("approx_percentile", inputs, where, node, self._share(node, shares))

    def _share(self, node: Apply, share: Expr) -> float:
        if not isinstance(share, Literal) or share.value is None or not share.type.is_numeric:
            self._fail("the share of approx_percentile is a constant number", node)
        value = float(share.value)
        if not 0.0 <= value <= 1.0:
            self._fail(
                f"the share {share.value} is not between 0 and 1", node, "0.95 is the 95th percentile."
            )
        return value


def _typed_null(argument: Expr) -> Expr:
    return cast(argument, STRING) if argument.type == NULL else argument


def result_type(plan: str, arguments: tuple[Expr, ...]) -> Type:
    """The type of an aggregate of the plan over these arguments."""
    if plan in ("count", "count_distinct", "approx_count_distinct"):
        return BIGINT
    if plan == "hll_sketch_agg":
        return STRING
    kind = arguments[0].type
    if plan == "sum" and kind.kind is Kind.DECIMAL:
        return bounded(kind.precision + 10, kind.scale)
    if plan == "avg":
        return bounded(kind.precision + 4, kind.scale + 4) if kind.kind is Kind.DECIMAL else DOUBLE
    return DOUBLE if plan == "approx_percentile" else kind
