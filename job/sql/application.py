"""One call being typed: what the rules need to look at arguments, convert them and refuse them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from job.errors import SqlError
from job.functions import SqlFunction
from job.plan import Call, Expr, Literal
from job.sql import coercion
from job.sql.coercion import can_cast, cast
from job.sql.literals import BIGINT_MAX, BIGINT_MIN, timestamp_micros
from job.sql.scope import status_class_advice
from job.sql.syntax import Apply
from job.types import BIGINT, DOUBLE, NULL, STRING, TIMESTAMP, Kind, Type

_ORDERED = (Kind.BOOLEAN, Kind.BIGINT, Kind.DECIMAL, Kind.DOUBLE, Kind.STRING, Kind.TIMESTAMP, Kind.NULL)


_TIME_ADVICE = "Write TIMESTAMP '2024-05-01 10:00:00', or timestamp_seconds(n) for seconds since 1970."


def _literal_advice(text: str, target: Type) -> str:
    """What to write instead of a text that is no `target`."""
    if target == TIMESTAMP:
        return "A time is written '2024-05-01 10:00:00', with a zone '2024-05-01 10:00:00+02:00'."
    return status_class_advice(text) or f"Write a {target}, or CAST the other side."


_COMPARING = ("comparison", "between", "in")


class Application:
    """One call being typed: the function, the call as written and its typed arguments."""

    def __init__(self, sql: str, function: SqlFunction, node: Apply, arguments: Sequence[Expr]) -> None:
        self.sql, self.function, self.node, self.arguments = sql, function, node, tuple(arguments)

    def fail(self, message: str, advice: str = "", argument: int | None = None) -> NoReturn:
        """Raises SqlError at the call, or at its argument of that index."""
        position = self.node.position
        if argument is not None and argument < len(self.node.arguments):
            position = self.node.arguments[argument].position
            position = self.node.position if position is None else position
        raise SqlError(message, self.sql, position, advice)

    def count(self, least: int, most: int) -> None:
        """Checks how many arguments there are."""
        if not least <= len(self.arguments) <= most:
            given = len(self.arguments)
            self.fail(
                f"{self.function.names[0]} does not take {given} argument{'s' * (given != 1)}",
                f"Write {self.function.usage}.",
            )

    def converted(self, index: int, target: Type) -> Expr:
        """Argument `index` as `target`, where that is an implicit conversion; else an error."""
        argument = self.arguments[index]
        source = argument.type
        implicit = (
            source in (target, NULL)
            or (target == STRING and can_cast(source, STRING))
            or (target == TIMESTAMP and source == STRING)
            or (target == DOUBLE and source.is_numeric)
        )
        if not implicit:
            advice = (
                f"Write CAST(... AS {target})."
                if can_cast(source, target)
                else f"Write {self.function.usage}."
            )
            self.fail(f"{self.function.names[0]} takes a {target} here, not a {source}", advice, index)
        return self.cast(argument, target, index)

    def cast(self, argument: Expr, target: Type, index: int) -> Expr:
        """`argument` as `target`; a text literal that cannot be converted is an error now, not a NULL in
        every row.
        """
        if isinstance(argument, Literal) and isinstance(argument.value, str) and argument.type == STRING:
            folded = fold_text(argument, target)
            if folded is None:
                self.fail(f"{argument.value!r} is no {target}", _literal_advice(argument.value, target), index)
            return folded if isinstance(folded, Literal) else cast(argument, target)
        return cast(argument, target)

    def literal(self, index: int, kind: Type, what: str) -> Literal:
        """Argument `index`, which must be a constant of that type and not NULL."""
        argument = self.arguments[index]
        if not isinstance(argument, Literal) or argument.type != kind or argument.value is None:
            self.fail(
                f"{what} of {self.function.names[0]} must be a constant {kind}",
                f"Write {self.function.usage}.",
                index,
            )
        return argument

    def part(self, indices: Sequence[int]) -> Application:
        """The same call with only these of its arguments."""
        nodes = tuple(self.node.arguments[index] for index in indices)
        node = Apply(self.node.function, nodes, self.node.position)
        return Application(self.sql, self.function, node, [self.arguments[index] for index in indices])

    def call(self, arguments: Sequence[Expr], result: Type) -> Call:
        """A call of the function's plan function."""
        return Call(self.function.plan, tuple(arguments), result)

    def common(self, indices: Sequence[int], strings_mix: bool = True) -> Type:
        """The type that these arguments share, or an error."""
        types = [self.arguments[index].type for index in indices]
        found = coercion.common_type(types)
        mixed = not strings_mix and STRING in types and found not in (STRING, None)
        if found is None or mixed:
            listed = " and ".join(dict.fromkeys(str(one) for one in types if one != NULL))
            self.fail(
                f"{self.function.names[0]} cannot mix {listed}",
                _TIME_ADVICE
                if TIMESTAMP in types and self.function.rule in _COMPARING
                else "CAST one to the type of the other.",
                indices[-1],
            )
        if found.kind not in _ORDERED:
            self.fail(
                f"{self.function.names[0]} does not take a {found}",
                "For windows, use w.start and w.end.",
                indices[0],
            )
        return found

    def number(self, index: int = 0) -> Expr:
        """Argument `index`, which must be a number; NULL is a DOUBLE."""
        argument = self.arguments[index]
        if argument.type == NULL:
            return cast(argument, DOUBLE)
        if not argument.type.is_numeric:
            advice = (
                "Write CAST(... AS BIGINT), AS DOUBLE or AS DECIMAL(p, s)." if argument.type == STRING else ""
            )
            self.fail(f"{self.function.names[0]} takes a number, not a {argument.type}", advice, index)
        return argument


def fold_text(literal: Literal, target: Type) -> Literal | bool | None:
    """The text as a literal of `target`; True where only the engine can tell, None where it is none."""
    text = str(literal.value)
    if target == TIMESTAMP:
        try:
            return Literal(timestamp_micros(text), TIMESTAMP, literal.parameter)
        except ValueError:
            return None
    if target == BIGINT:
        plain = text.strip()
        digits = plain[1:] if plain[:1] in ("+", "-") else plain
        if not (digits.isascii() and digits.isdigit() and len(digits) < 40):
            return True if "." in digits else None
        value = int(plain)
        return Literal(value, BIGINT, literal.parameter) if BIGINT_MIN <= value <= BIGINT_MAX else None
    return True
