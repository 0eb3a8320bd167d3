"""A typed plan as Spark SQL text: the same question, asked of Spark 4.3 in its default ANSI mode.

The text is written for exactness, not for looks: what fails for a row is NULL (`try_` forms), integers are
BIGINT, the order of rows is total, LIMIT counts per window. Rows are read from a table named `plan.source`
with a column per field. What cannot be bridged is listed in docs/SQL.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from job.functions import FUNCTIONS, cast_can_fail
from job.plan import (
    WINDOW_END,
    WINDOW_START,
    Aggregate,
    Call,
    ColumnRef,
    Expr,
    Literal,
    Order,
    Plan,
    key_name,
)
from job.sql.patterns import java_pattern
from job.types import BIGINT, STRING, WINDOW, Kind

_BIGINT_MIN = "-9223372036854775808L"
_INT_RANGE = ("-2147483648L", "2147483647L")
# The seconds that fit a TIMESTAMP of microseconds.
_SECONDS_MAX = 9_223_372_036_854
_TWO_63 = "9.223372036854775808E18D"
_ESCAPES = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0", "\x1a": "\\Z"}


def render(plan: Plan) -> str:
    """The plan as one SELECT. Linear in the plan's size."""
    return _PlanWriter(plan).text()


def expression(expr: Expr) -> str:
    """An expression over columns called by their names."""
    return _ExpressionWriter(lambda column: identifier(column.name)).text(expr)


def identifier(name: str) -> str:
    """A name in backticks."""
    return "`" + name.replace("`", "``") + "`"


def string_literal(value: str) -> str:
    """A string literal that Spark reads back as `value`, whatever is in it."""
    return "'" + "".join(_escaped(letter) for letter in value) + "'"


def _escaped(letter: str) -> str:
    if letter in _ESCAPES:
        return _ESCAPES[letter]
    return f"\\u{ord(letter):04x}" if ord(letter) < 32 or ord(letter) == 127 else letter


class _ExpressionWriter:
    """Writes expressions; `column` says how a column is called where they stand."""

    def __init__(self, column: Callable[[ColumnRef], str]) -> None:
        self._column = column

    def text(self, expr: Expr) -> str:
        if isinstance(expr, ColumnRef):
            return self._column(expr)
        if isinstance(expr, Literal):
            return _literal(expr)
        special = _SPECIAL.get(expr.function)
        if special is not None:
            return special(self, expr)
        arguments = [self.text(argument) for argument in expr.arguments]
        template = FUNCTIONS[expr.function].spark
        if "{*}" in template:
            return template.replace("{*}", ", ".join(arguments))
        return template.format(*arguments)

    def _join(self, expr: Call) -> str:
        return "(" + f" {expr.function.upper()} ".join(map(self.text, expr.arguments)) + ")"

    def _in(self, expr: Call) -> str:
        subject, *candidates = map(self.text, expr.arguments)
        return f"({subject} IN ({', '.join(candidates)}))"

    def _arithmetic(self, expr: Call) -> str:
        left, right = map(self.text, expr.arguments)
        if expr.type.kind is Kind.DOUBLE:
            sign = {"add": "+", "sub": "-", "mul": "*"}[expr.function]
            return f"({left} {sign} {right})"
        return FUNCTIONS[expr.function].spark.format(left, right)

    def _int_div(self, expr: Call) -> str:
        left, right = map(self.text, expr.arguments)
        if expr.arguments[0].type == BIGINT:
            quotient = f"({left} DIV nullif({right}, 0L))"
            if isinstance(expr.arguments[1], Literal) and expr.arguments[1].value != -1:
                return quotient
            return f"(CASE WHEN {left} = {_BIGINT_MIN} AND {right} = -1L THEN NULL ELSE {quotient} END)"
        # DIV of decimals wraps around in Spark. What is left after the remainder divides evenly, and try_cast
        # fails beyond BIGINT.
        return f"try_cast(try_divide(try_subtract({left}, try_mod({left}, {right})), {right}) AS BIGINT)"

    def _sign(self, expr: Call) -> str:
        operand = self.text(expr.arguments[0])
        if expr.type == BIGINT:
            operand = f"nullif({operand}, {_BIGINT_MIN})"
        return f"abs({operand})" if expr.function == "abs" else f"(- {operand})"

    def _whole(self, expr: Call) -> str:
        operand, name = self.text(expr.arguments[0]), expr.function
        if expr.arguments[0].type.kind is not Kind.DOUBLE:
            return f"{name}({operand})"
        # NaN is the greatest DOUBLE, and its floor is 0.
        inside = f"({operand} >= -{_TWO_63} AND {operand} < {_TWO_63}) OR isnan({operand})"
        return f"{name}(CASE WHEN {inside} THEN {operand} END)"

    def _round(self, expr: Call) -> str:
        operand, digits = self.text(expr.arguments[0]), expr.arguments[1]
        assert isinstance(digits, Literal)
        if expr.type == BIGINT:
            return f"try_cast(round(CAST({operand} AS DECIMAL(19,0)), {digits.value}) AS BIGINT)"
        return f"round({operand}, {digits.value})"

    def _case(self, expr: Call) -> str:
        arguments = [self.text(argument) for argument in expr.arguments]
        pairs = zip(arguments[::2], arguments[1::2], strict=False)
        branches = " ".join(f"WHEN {condition} THEN {value}" for condition, value in pairs)
        otherwise = f" ELSE {arguments[-1]}" if len(arguments) % 2 else ""
        return f"(CASE {branches}{otherwise} END)"

    def _cast(self, expr: Call) -> str:
        source = expr.arguments[0]
        name = "try_cast" if cast_can_fail(source.type, expr.type) else "CAST"
        return f"{name}({self.text(source)} AS {expr.type})"

    def _pattern(self, expr: Call) -> str:
        pattern = expr.arguments[1]
        assert isinstance(pattern, Literal)
        java = string_literal(java_pattern(str(pattern.value)))
        subject = self.text(expr.arguments[0])
        if expr.function == "rlike":
            return f"({subject} RLIKE {java})"
        return f"regexp_extract({subject}, {java}, {self._int(expr.arguments[2])})"

    def _trim(self, expr: Call) -> str:
        arguments = [self.text(argument) for argument in expr.arguments]
        if len(arguments) == 1:
            return f"{expr.function}({arguments[0]})"
        return FUNCTIONS[expr.function].spark.format(*arguments)

    def _with_ints(self, expr: Call) -> str:
        arguments = [
            self._int(argument) if argument.type == BIGINT else self.text(argument)
            for argument in expr.arguments
        ]
        return FUNCTIONS[expr.function].spark.format(*arguments)

    def _int(self, expr: Expr) -> str:
        """A BIGINT where Spark wants an INT; what is beyond INT stands for "very far" and is cut."""
        if isinstance(expr, Literal) and expr.value is not None:
            return str(expr.value)
        low, high = _INT_RANGE
        # NULL must stay NULL, but greatest and least pass NULLs over; CASE does not.
        value = self.text(expr)
        cut = f"CASE WHEN {value} < {low} THEN {low} WHEN {value} > {high} THEN {high} ELSE {value} END"
        return f"CAST({cut} AS INT)"

    def _parse_url(self, expr: Call) -> str:
        arguments = [self.text(argument) for argument in expr.arguments[:2]]
        if len(expr.arguments) == 3:
            key = expr.arguments[2]
            assert isinstance(key, Literal)
            # Spark puts the key into a regular expression; here it is plain text.
            arguments.append(
                string_literal("".join("\\" + c if c in "\\.[]{}()*+?^$|" else c for c in str(key.value)))
            )
        return f"try_parse_url({', '.join(arguments)})"

    def _timestamp_seconds(self, expr: Call) -> str:
        operand, kind = self.text(expr.arguments[0]), expr.arguments[0].type.kind
        if kind is Kind.DOUBLE:
            return f"timestamp_seconds({operand})"
        limit = f"{_SECONDS_MAX}L" if kind is Kind.BIGINT else f"{_SECONDS_MAX}.0BD"
        return f"timestamp_seconds(CASE WHEN {operand} BETWEEN -{limit} AND {limit} THEN {operand} END)"


_SPECIAL: dict[str, Callable[[_ExpressionWriter, Call], str]] = {
    "and": _ExpressionWriter._join,
    "or": _ExpressionWriter._join,
    "in": _ExpressionWriter._in,
    "add": _ExpressionWriter._arithmetic,
    "sub": _ExpressionWriter._arithmetic,
    "mul": _ExpressionWriter._arithmetic,
    "int_div": _ExpressionWriter._int_div,
    "neg": _ExpressionWriter._sign,
    "abs": _ExpressionWriter._sign,
    "floor": _ExpressionWriter._whole,
    "ceil": _ExpressionWriter._whole,
    "round": _ExpressionWriter._round,
    "case": _ExpressionWriter._case,
    "cast": _ExpressionWriter._cast,
    "try_cast": _ExpressionWriter._cast,
    "rlike": _ExpressionWriter._pattern,
    "regexp_extract": _ExpressionWriter._pattern,
    "trim": _ExpressionWriter._trim,
    "ltrim": _ExpressionWriter._trim,
    "rtrim": _ExpressionWriter._trim,
    "substr": _ExpressionWriter._with_ints,
    "split_part": _ExpressionWriter._with_ints,
    "parse_url": _ExpressionWriter._parse_url,
    "timestamp_seconds": _ExpressionWriter._timestamp_seconds,
}


def _literal(literal: Literal) -> str:
    value, kind = literal.value, literal.type
    if value is None:
        return f"CAST(NULL AS {kind if kind.kind is not Kind.NULL else STRING})"
    match kind.kind:
        case Kind.BOOLEAN:
            return "TRUE" if value else "FALSE"
        case Kind.BIGINT:
            return f"{value}L"
        case Kind.DECIMAL:
            return f"CAST('{value}' AS {kind})"
        case Kind.DOUBLE:
            number = float(value)
            return repr(number) + "D" if math.isfinite(number) else f"CAST('{number}' AS DOUBLE)"
        case Kind.TIMESTAMP:
            return f"timestamp_micros({value}L)"
    return string_literal(str(value))


class _PlanWriter:
    """Writes a plan in three layers: rows, groups, result."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._rows = _ExpressionWriter(self._row_column)
        self._groups = _ExpressionWriter(_group_column)

    def text(self) -> str:
        plan = self._plan
        outputs = ", ".join(f"{self._groups.text(o.expr)} AS {identifier(o.name)}" for o in plan.outputs)
        ranked = plan.limit is not None
        origin = self._ranked() if ranked else self._grouped()
        condition = ""
        if ranked:
            condition = f"\nWHERE `#rank` <= {plan.limit}"
        elif plan.having is not None:
            condition = f"\nWHERE {self._groups.text(plan.having)}"
        order = self._total_order(with_window=True)
        return f"SELECT {outputs}\nFROM ({origin}){condition}" + (f"\nORDER BY {order}" if order else "")

    def _row_column(self, column: ColumnRef) -> str:
        """A field; with a subquery `w.start` is a part of its window w."""
        inner = self._plan.inner
        if inner is not None:
            for output in inner.outputs:
                for part in ("start", "end"):
                    if output.expr.type == WINDOW and column.name == f"{output.name}.{part}":
                        return f"{identifier(output.name)}.`{part}`"
        return identifier(column.name)

    def _source(self) -> str:
        if self._plan.inner is None:
            return identifier(self._plan.source)
        return f"({_PlanWriter(self._plan.inner).text()})"

    def _grouped(self) -> str:
        plan = self._plan
        columns = [f"{self._window()} AS `#window`"] if plan.window is not None else []
        keys = [self._rows.text(key) for key in plan.keys]
        columns += [f"{key} AS `#{key_name(index)}`" for index, key in enumerate(keys)]
        columns += [f"{self._aggregate(one)} AS `#agg{index}`" for index, one in enumerate(plan.aggregates)]
        terms = ([self._window()] if plan.window is not None else []) + keys
        where = f" WHERE {self._rows.text(plan.where)}" if plan.where is not None else ""
        group = f" GROUP BY {', '.join(terms)}" if terms else ""
        return f"SELECT {', '.join(columns) or '1 AS `#one`'} FROM {self._source()}{where}{group}"

    def _window(self) -> str:
        window = self._plan.window
        assert window is not None
        slide = f", '{window.slide_us} microseconds'" if window.slide_us != window.size_us else ""
        return f"window({self._rows.text(window.time)}, '{window.size_us} microseconds'{slide})"

    def _aggregate(self, aggregate: Aggregate) -> str:
        arguments = [self._rows.text(argument) for argument in aggregate.arguments]
        where = f" FILTER (WHERE {self._rows.text(aggregate.filter)})" if aggregate.filter is not None else ""
        match aggregate.function:
            case "count":
                return f"count({', '.join(arguments) or '*'}){where}"
            case "count_distinct":
                return f"count(DISTINCT {', '.join(arguments)}){where}"
            case "sum" if aggregate.type == BIGINT:
                # Summed beyond 64 bits, so that only the final sum can overflow.
                return f"try_cast(sum(CAST({arguments[0]} AS DECIMAL(20,0))){where} AS BIGINT)"
            case "sum" | "avg":
                return f"try_{aggregate.function}({arguments[0]}){where}"
            case "hll_sketch_agg":
                return f"base64(hll_sketch_agg({arguments[0]}){where})"
            case "approx_percentile":
                return f"approx_percentile({arguments[0]}, {aggregate.parameter!r}D){where}"
        return f"{aggregate.function}({arguments[0]}){where}"

    def _ranked(self) -> str:
        plan = self._plan
        having = f" WHERE {self._groups.text(plan.having)}" if plan.having is not None else ""
        partition = "PARTITION BY `#window` " if plan.window is not None else ""
        order = self._total_order(with_window=False) or "1"
        rank = f"row_number() OVER ({partition}ORDER BY {order}) AS `#rank`"
        return f"SELECT *, {rank} FROM ({self._grouped()}){having}"

    def _total_order(self, with_window: bool) -> str:
        terms = ["`#window`.`start` ASC NULLS FIRST"] if with_window and self._plan.window is not None else []
        terms += [self._order(order) for order in self._plan.order]
        terms += [f"`#{key_name(index)}` ASC NULLS FIRST" for index in range(len(self._plan.keys))]
        return ", ".join(terms)

    def _order(self, order: Order) -> str:
        direction = "DESC" if order.descending else "ASC"
        return f"{self._groups.text(order.expr)} {direction} NULLS {'FIRST' if order.nulls_first else 'LAST'}"


def _group_column(column: ColumnRef) -> str:
    if column.name == WINDOW_START:
        return "`#window`.`start`"
    if column.name == WINDOW_END:
        return "`#window`.`end`"
    return identifier("#" + column.name)
