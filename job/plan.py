"""The compiled job: plain data that travels to agents, with no SQL text left to interpret.

A plan has two phases. The *row phase* runs beside the logs: `where`, the keys and the inputs of the aggregates are
expressions over the fields of a line. The *result phase* runs at the master: `outputs`, `having` and `order` are
expressions over the finished columns of one group, which are named by `key_name(i)`, `aggregate_name(i)` and, with a
window, WINDOW_START and WINDOW_END.

Expressions are typed and normalised: every conversion is an explicit `cast`, so a function sees exactly the argument
kinds that docs/EXPRESSIONS.md lists for it. All structures are frozen msgspec structs: equal text compiles to equal,
hashable plans, and `msgspec.msgpack` carries them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from job.types import Type

PLAN_VERSION = 1
WINDOW_START = "window_start"
WINDOW_END = "window_end"


def key_name(index: int) -> str:
    """The name by which result-phase expressions call key `index`."""
    return f"key{index}"


def aggregate_name(index: int) -> str:
    """The name by which result-phase expressions call aggregate `index`."""
    return f"agg{index}"


class ColumnRef(msgspec.Struct, frozen=True, tag_field="node", tag="column"):
    """A field of the line (row phase) or a finished column of the group (result phase)."""

    name: str
    type: Type


class Literal(msgspec.Struct, frozen=True, tag_field="node", tag="literal"):
    """A constant. `value` is None for NULL, int for BIGINT and TIMESTAMP (microseconds), text such as "-1.50" for
    DECIMAL (so that 38 digits survive every codec). `parameter` names the `:name` it was bound from."""

    value: bool | int | float | str | None
    type: Type
    parameter: str = ""


class Call(msgspec.Struct, frozen=True, tag_field="node", tag="call"):
    """A function of docs/EXPRESSIONS.md over its arguments."""

    function: str
    arguments: tuple[Expr, ...]
    type: Type


Expr = ColumnRef | Literal | Call


def columns_of(expression: Expr) -> Iterator[ColumnRef]:
    """The columns an expression reads, left to right."""
    if isinstance(expression, ColumnRef):
        yield expression
    elif isinstance(expression, Call):
        for argument in expression.arguments:
            yield from columns_of(argument)


class Field(msgspec.Struct, frozen=True):
    """A column that the scan must deliver."""

    name: str
    type: Type


class Schema(msgspec.Struct, frozen=True):
    """The fields that a query may name, in the order of the log.

    `aliases` are further names of fields (nginx variables, Apache letters). With `open_fields` any other name, also a
    dotted one such as `user.id`, is a STRING field. Names match without regard to case.
    """

    fields: dict[str, Type]
    open_fields: bool = False
    aliases: Mapping[str, str] = {}


class Window(msgspec.Struct, frozen=True):
    """Event-time windows of `size_us`, one starting every `slide_us` (equal: tumbling), aligned to 1970-01-01 UTC.

    Rows whose `time` is NULL belong to no window.
    """

    time: Expr
    size_us: int
    slide_us: int


class Aggregate(msgspec.Struct, frozen=True):
    """One aggregate as written: `function` over `arguments` of the rows for which `filter` is true.

    Functions: count (no argument: rows; one or more: rows where none is NULL), count_distinct, sum, avg, min, max,
    approx_count_distinct, hll_sketch_agg, approx_percentile (`parameter` is p, 0 <= p <= 1). `count_if(c)` compiles to
    count with filter c; `approx_percentile(x, array(p, ...))` to one aggregate per p under an `array` call.
    """

    function: str
    arguments: tuple[Expr, ...]
    type: Type
    filter: Expr | None = None
    parameter: float = 0.0


class Output(msgspec.Struct, frozen=True):
    """A column of the result. An `array` call may stand only at the top of `expr`, and a WINDOW is `ColumnRef
    ("window", WINDOW)`."""

    name: str
    expr: Expr


class Order(msgspec.Struct, frozen=True):
    """One ORDER BY term."""

    expr: Expr
    descending: bool = False
    nulls_first: bool = True


class Plan(msgspec.Struct, frozen=True):
    """A compiled job.

    `fields` are the columns the scan must deliver, in the order the row phase numbers them. With `inner`, the rows come
    not from the log but from the finished rows of that plan, and `fields` name its outputs. Rows of a result are
    ordered by window, then `order`, then keys ascending; `limit` counts per window.
    """

    source: str
    fields: tuple[Field, ...]
    keys: tuple[Expr, ...]
    aggregates: tuple[Aggregate, ...]
    outputs: tuple[Output, ...]
    where: Expr | None = None
    window: Window | None = None
    having: Expr | None = None
    order: tuple[Order, ...] = ()
    limit: int | None = None
    inner: Plan | None = None
    sql: str = ""
    version: int = PLAN_VERSION

    def to_spark_sql(self) -> str:
        """The same query as Spark SQL over a table named `source` that has `fields`; the oracle of the semantics."""
        from job.spark_sql import render

        return render(self)
