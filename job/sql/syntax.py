"""The syntax tree of a query: what was written and where, before any name or type is known.

Operators are calls too: `a + b` is Apply("+", (a, b)), `a IS NULL` is Apply("is null", (a,)). `position` is
the offset of a node's first character in the text.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Name:
    """A column, alias or `w.start`: the parts between the dots."""

    parts: tuple[str, ...]
    position: int | None = None

    def __str__(self) -> str:
        return ".".join(self.parts)


@dataclass(frozen=True, slots=True)
class Number:
    """A number as written, and the type its suffix asks for ("" without suffix)."""

    text: str
    suffix: str
    position: int | None = None


@dataclass(frozen=True, slots=True)
class String:
    """A string literal, escapes resolved."""

    value: str
    position: int | None = None


@dataclass(frozen=True, slots=True)
class Constant:
    """TRUE, FALSE or NULL (None)."""

    value: bool | None
    position: int | None = None


@dataclass(frozen=True, slots=True)
class Parameter:
    """`:name`."""

    name: str
    position: int | None = None


@dataclass(frozen=True, slots=True)
class Interval:
    """INTERVAL amount unit; the unit is "" where the amount's text holds it."""

    amount: str
    unit: str
    position: int | None = None


@dataclass(frozen=True, slots=True)
class TypeName:
    """The target of a cast, in upper case, with its numbers."""

    name: str
    numbers: tuple[int, ...]
    position: int | None = None


@dataclass(frozen=True, slots=True)
class Star:
    """`*`, as the argument of count."""

    position: int | None = None


@dataclass(frozen=True, slots=True)
class Apply:
    """A function or operator over its arguments, with an aggregate's DISTINCT and FILTER."""

    function: str
    arguments: tuple[Node, ...]
    position: int | None = None
    distinct: bool = False
    filter: Node | None = None


Node = Name | Number | String | Constant | Parameter | Interval | TypeName | Star | Apply


@dataclass(frozen=True, slots=True)
class Item:
    """One column of SELECT: `text` is how it was written, without the alias."""

    expression: Node
    alias: str | None
    text: str
    position: int | None = None


@dataclass(frozen=True, slots=True)
class OrderTerm:
    """One term of ORDER BY with the order of NULLs settled."""

    expression: Node
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class Select:
    """One SELECT. `source` is a table's name or the subquery; `alias` its name in the query."""

    items: tuple[Item, ...]
    source: str | Select
    alias: str | None
    where: Node | None = None
    group: tuple[Node, ...] = ()
    group_all: bool = False
    distinct: bool = False
    having: Node | None = None
    order: tuple[OrderTerm, ...] = ()
    limit: Node | None = None
    position: int | None = None
    source_position: int | None = None
