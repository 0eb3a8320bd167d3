"""Expressions: sqlglot's nodes to ours, by a table that lists every node the language knows."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NoReturn

from sqlglot import exp

from job.errors import SqlError
from job.sql.literals import timestamp_micros
from job.sql.strings import read_strings
from job.sql.syntax import Apply, Constant, Interval, Name, Node, Number, Parameter, Star, String, TypeName

_BINARY: dict[type, str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.IntDiv: "div",
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
    exp.RegexpLike: "rlike",
}
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_PREDICATES = (*_COMPARISONS, exp.RegexpLike, exp.Like, exp.Escape, exp.In, exp.Between, exp.Is)
_CHAINS: dict[type, str] = {exp.And: "and", exp.Or: "or", exp.DPipe: "||"}
_SUFFIXED = re.compile(r"(\.?[0-9][0-9.eE+-]*)(BD|[LDSYF])", re.IGNORECASE)

_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_ADDRESS = re.compile(r"[0-9]+(?:\.[0-9]+){2,3}(?:/[0-9]+)?")

_ADVICE: dict[type, str] = {
    exp.Window: "Window functions (OVER) rank rows of a result; LIMIT with ORDER BY often does.",
    exp.Subquery: "A subquery may stand in FROM only.",
    exp.Select: "A subquery may stand in FROM only.",
    exp.Exists: "A subquery may stand in FROM only.",
    exp.ILike: "Write lower(x) LIKE 'pattern'.",
    exp.Any: "Write the alternatives with OR.",
    exp.All: "Write the alternatives with AND.",
    exp.Tuple: "Compare the parts one by one with AND.",
    exp.WithinGroup: "Write approx_percentile(x, p).",
    exp.IgnoreNulls: "Write FILTER (WHERE x IS NOT NULL).",
    exp.Bracket: "There are no arrays: write split_part(text, delimiter, number); a JSON key is named with dots: a.b.c.",
}


class ExpressionReader:
    """Reads expressions of one text."""

    def __init__(self, sql: str) -> None:
        self._sql = sql

    def read(self, node: Any) -> Node:
        """The syntax node of a sqlglot expression. Raises SqlError for what the language lacks."""
        reader = _READERS.get(type(node))
        if reader is not None:
            return reader(self, node)
        if type(node) in _BINARY:
            return self._binary(node)
        if type(node) in _CHAINS:
            return self._chain(node)
        return self._refuse(node)

    def _refuse(self, node: Any) -> NoReturn:
        advice = _ADVICE.get(type(node), "docs/SQL.md lists what a query may hold.")
        if node is None:
            raise SqlError("an expression is missing", self._sql, None)
        what = {"Window": "OVER", "Subquery": "a subquery here", "Select": "a subquery here"}
        name = what.get(type(node).__name__, _CAMEL.sub(" ", type(node).__name__).upper())
        raise SqlError(f"{name} is not supported", self._sql, start_of(node), advice)

    def _chain(self, node: Any) -> Node:
        """a AND b AND c (also OR, ||) as one call: the tree leans left and can be thousands deep."""
        kind, operands = type(node), []
        if kind is exp.DPipe:
            self._refuse_unclear(node.expression, (exp.Add, exp.Sub))
        while type(node) is kind:
            operands.append(node.expression)
            node = node.this
        operands.append(node)
        arguments = tuple(self.read(operand) for operand in reversed(operands))
        return Apply(_CHAINS[kind], arguments, arguments[0].position)

    def _binary(self, node: Any) -> Node:
        self._refuse_unclear(node.this, (exp.Not, *_PREDICATES))
        self._refuse_unclear(node.expression, (exp.Not, *_PREDICATES))
        left, right = self.read(node.this), self.read(node.expression)
        return Apply(_BINARY[type(node)], (left, right), left.position)

    def _refuse_unclear(self, operand: Any, kinds: tuple[type, ...]) -> None:
        """Where sqlglot and Spark may bind differently, the text has to say what it means."""
        bare = operand.this if isinstance(operand, exp.Paren) and not operand.meta.get("written") else operand
        if isinstance(bare, kinds):
            raise SqlError(
                "which operator binds first is not clear here", self._sql, start_of(bare), "Write parentheses."
            )

    def _paren(self, node: Any) -> Node:
        return self.read(node.this)

    def _column(self, node: Any) -> Node:
        parts = tuple(part.name for part in node.parts)
        return Name(parts, start_of(node.parts[0]))

    def _dot(self, node: Any) -> Node:
        """window(...).start; and a.b.c.d.e, of which sqlglot makes a column of four parts and dots."""
        self._refuse_address(node)
        left = self.read(node.this)
        if isinstance(left, Apply) and left.function == "window" and node.expression.name.lower() in ("start", "end"):
            return Apply(f"window {node.expression.name.lower()}", left.arguments, left.position)
        if not isinstance(left, Name) or not isinstance(node.expression, exp.Identifier):
            self._refuse(node)
        return Name((*left.parts, node.expression.name), left.position)

    def _refuse_address(self, node: Any) -> None:
        """10.0.0.1 without quotes."""
        start = start_of(node)
        address = _ADDRESS.match(self._sql, start) if start is not None else None
        if address:
            advice = f"Put it in quotes: '{address[0]}'."
            if "/" in address[0]:
                advice = "Addresses are texts: for 10.0.0.0/8 write remote_addr LIKE '10.%'."
            raise SqlError(f"{address[0]} is no number", self._sql, start, advice)

    def _literal(self, node: Any) -> Node:
        start = start_of(node)
        if not node.is_string:
            return Number(node.this, "", start)
        if start is None:
            return String(node.this, None)
        return String(read_strings(self._sql, start, 1), start)

    def _strings(self, node: Any) -> Node:
        """'a' 'b': adjacent strings are one."""
        parts = node.expressions
        start = start_of(parts[0])
        if start is None or not all(isinstance(part, exp.Literal) and part.is_string for part in parts):
            self._refuse(node)
        return String(read_strings(self._sql, start, len(parts)), start)

    def _raw_string(self, node: Any) -> Node:
        return String(node.this, start_of(node))

    def _constant(self, node: Any) -> Node:
        return Constant(node.this if isinstance(node, exp.Boolean) else None, start_of(node))

    def _placeholder(self, node: Any) -> Node:
        if not node.this or node.args.get("widget"):
            raise SqlError("a parameter needs a name", self._sql, start_of(node), "Write :name.")
        start = start_of(node)
        return Parameter(str(node.this), None if start is None else start - 1)

    def _negative(self, node: Any) -> Node:
        operand = self.read(node.this)
        position = None if operand.position is None else self._sql.rfind("-", 0, operand.position)
        if isinstance(operand, Number) and not isinstance(node.this, exp.Paren) and operand.text[0] != "-":
            return Number("-" + operand.text, operand.suffix, position)
        return Apply("negative", (operand,), position)

    def _not(self, node: Any) -> Node:
        operand = self.read(node.this)
        return Apply("not", (operand,), operand.position)

    def _cast(self, node: Any) -> Node:
        written = _SUFFIXED.fullmatch(self._sql[node.meta.get("start", 0) : node.meta.get("end", -1) + 1])
        if written:
            # sqlglot makes 5L a cast; CAST(5 AS BIGINT) and 5::BIGINT end elsewhere.
            return Number(written[1], written[2].upper(), start_of(node))
        target = node.args["to"]
        operand = self.read(node.this)
        numbers = tuple(
            int(number.name)
            for number in target.expressions
            if isinstance(number, exp.DataTypeParam) and number.name.isascii() and number.name.isdigit()
        )
        if len(numbers) != len(target.expressions) or target.args.get("nested"):
            raise SqlError(
                "values are of plain types", self._sql, operand.position, "docs/SQL.md lists the types."
            )
        if node.args.get("format") or node.args.get("default"):
            raise SqlError("CAST takes only a type", self._sql, operand.position)
        kind = target.this.name if isinstance(target.this, exp.DataType.Type) else str(target.this)
        if kind == "USERDEFINED":
            kind = str(target.args.get("kind"))
        self._check_timestamp(operand)
        name = "try_cast" if node.args.get("safe") else "cast"
        return Apply(name, (operand, TypeName(kind, numbers, start_of(target))), operand.position)

    def _check_timestamp(self, operand: Node) -> None:
        """Refuses TIMESTAMP 'text' whose text is no time: the literal is wrong whatever the log says."""
        if not isinstance(operand, String) or operand.position is None:
            return
        if self._sql[: operand.position].rstrip().upper().endswith("TIMESTAMP"):
            try:
                timestamp_micros(operand.value)
            except ValueError as error:
                message = f"{operand.value!r} is no TIMESTAMP: {error}"
                raise SqlError(message, self._sql, operand.position) from None

    def _case(self, node: Any) -> Node:
        subject = self.read(node.this) if node.this is not None else None
        arguments: list[Node] = []
        for branch in node.args["ifs"]:
            condition = self.read(branch.this)
            if subject is not None:
                condition = Apply("=", (subject, condition), condition.position)
            arguments += [condition, self.read(branch.args["true"])]
        if node.args.get("default") is not None:
            arguments.append(self.read(node.args["default"]))
        return Apply("case", tuple(arguments), arguments[0].position)

    def _in(self, node: Any) -> Node:
        if node.args.get("query") or node.args.get("unnest") or node.args.get("field"):
            raise SqlError("IN takes a list of values", self._sql, start_of(node), "Write x IN (1, 2, 3).")
        self._refuse_unclear(node.this, (exp.Not, *_PREDICATES))
        subject = self.read(node.this)
        return Apply("in", (subject, *(self.read(value) for value in node.expressions)), subject.position)

    def _between(self, node: Any) -> Node:
        if node.args.get("symmetric") is not None:
            raise SqlError(
                "BETWEEN SYMMETRIC is not supported", self._sql, start_of(node), "Write x BETWEEN low AND high."
            )
        for operand in (node.this, node.args["low"], node.args["high"]):
            self._refuse_unclear(operand, (exp.Not, *_PREDICATES))
        subject, low, high = (self.read(part) for part in (node.this, node.args["low"], node.args["high"]))
        return Apply("between", (subject, low, high), subject.position)

    def _like(self, node: Any) -> Node:
        escape: tuple[Node, ...] = ()
        if isinstance(node, exp.Escape):
            escape = (self.read(node.expression),)
            node = node.this
        if not isinstance(node, exp.Like) or isinstance(
            node.expression, exp.Any | exp.All | exp.Paren | exp.Tuple
        ):
            self._refuse(node.expression if isinstance(node, exp.Like) else node)
        self._refuse_unclear(node.this, (exp.Not, *_PREDICATES))
        subject, pattern = self.read(node.this), self.read(node.expression)
        call = Apply("like", (subject, pattern, *escape), subject.position)
        return Apply("not", (call,), subject.position) if node.args.get("negate") else call

    def _is(self, node: Any) -> Node:
        self._refuse_unclear(node.this, (exp.Not,))
        operand = self.read(node.this)
        tested = node.expression
        if isinstance(tested, exp.Null):
            call = Apply("is null", (operand,), operand.position)
        elif isinstance(tested, exp.Boolean):
            call = Apply("is true" if tested.this else "is false", (operand,), operand.position)
        else:
            raise SqlError("IS takes NULL, TRUE or FALSE", self._sql, operand.position, "Write = or <=>.")
        return Apply("not", (call,), operand.position) if node.args.get("negate") else call

    def _is_distinct(self, node: Any) -> Node:
        left, right = self.read(node.this), self.read(node.expression)
        return Apply("not", (Apply("<=>", (left, right), left.position),), left.position)

    def _call(self, node: Any) -> Node:
        name = node.this if isinstance(node.this, str) else node.this.name
        start = start_of(node)
        nodes, distinct = list(node.expressions), False
        if len(nodes) == 1 and isinstance(nodes[0], exp.Distinct):
            nodes, distinct = list(nodes[0].expressions), True
        for argument in nodes:
            if isinstance(
                argument, exp.Alias | exp.Lambda | exp.PropertyEQ | exp.Kwarg | exp.Ordered | exp.Order
            ):
                raise SqlError(f"{name}() takes plain values", self._sql, start)
        return Apply(name.lower(), tuple(self.read(argument) for argument in nodes), start, distinct)

    def _filter(self, node: Any) -> Node:
        call = self.read(node.this)
        if not isinstance(call, Apply):
            self._refuse(node)
        if call.filter is not None:
            raise SqlError("an aggregate takes one FILTER", self._sql, call.position, "Join the conditions with AND.")
        condition = self.read(node.expression.this)
        return Apply(call.function, call.arguments, call.position, call.distinct, condition)

    def _substring(self, node: Any) -> Node:
        parts = [node.this, node.args.get("start"), node.args.get("length")]
        arguments = tuple(self.read(part) for part in parts if part is not None)
        return Apply("substring", arguments, arguments[0].position)

    def _trim(self, node: Any) -> Node:
        position = str(node.args.get("position") or "BOTH").upper()
        function = {"LEADING": "trim leading", "TRAILING": "trim trailing"}.get(position, "trim")
        parts = [node.this, node.args.get("expression")]
        arguments = tuple(self.read(part) for part in parts if part is not None)
        return Apply(function, arguments, arguments[0].position)

    def _extract(self, node: Any) -> Node:
        operand = self.read(node.expression)
        if not isinstance(node.this, exp.Var | exp.Literal):
            raise SqlError("EXTRACT takes the name of a unit", self._sql, operand.position, "Write extract(HOUR FROM time).")
        return Apply("extract", (String(node.this.name, operand.position), operand), operand.position)

    def _interval(self, node: Any) -> Node:
        unit, amount = node.args.get("unit"), node.this
        if amount is None or not (unit is None or isinstance(unit, exp.Var)):
            self._refuse(node)
        text = amount.name if isinstance(amount, exp.Literal) else ""
        return Interval(text, unit.name if unit is not None else "", start_of(node))

    def _star(self, node: Any) -> Node:
        return Star(start_of(node))


def start_of(node: Any) -> int | None:
    """Where a node was written, or where the first of its parts was."""
    if not isinstance(node, exp.Expr):
        return None
    own = node.meta.get("start")
    starts = [own] if own is not None else []
    for part in node.iter_expressions():
        start = start_of(part)
        if start is not None:
            starts.append(start)
            break
    return min(starts) if starts else None


_READERS: dict[type, Callable[[ExpressionReader, Any], Node]] = {
    exp.Paren: ExpressionReader._paren,
    exp.Column: ExpressionReader._column,
    exp.Dot: ExpressionReader._dot,
    exp.Literal: ExpressionReader._literal,
    exp.Concat: ExpressionReader._strings,
    exp.RawString: ExpressionReader._raw_string,
    exp.Boolean: ExpressionReader._constant,
    exp.Null: ExpressionReader._constant,
    exp.Placeholder: ExpressionReader._placeholder,
    exp.Neg: ExpressionReader._negative,
    exp.Not: ExpressionReader._not,
    exp.Cast: ExpressionReader._cast,
    exp.TryCast: ExpressionReader._cast,
    exp.Case: ExpressionReader._case,
    exp.In: ExpressionReader._in,
    exp.Between: ExpressionReader._between,
    exp.Like: ExpressionReader._like,
    exp.Escape: ExpressionReader._like,
    exp.Is: ExpressionReader._is,
    exp.NullSafeNEQ: ExpressionReader._is_distinct,
    exp.Anonymous: ExpressionReader._call,
    exp.Filter: ExpressionReader._filter,
    exp.Substring: ExpressionReader._substring,
    exp.Trim: ExpressionReader._trim,
    exp.Extract: ExpressionReader._extract,
    exp.Interval: ExpressionReader._interval,
    exp.Star: ExpressionReader._star,
}
