"""Which names a query may use: fields of a log, or the columns of a subquery."""

from __future__ import annotations

import re
from collections.abc import Iterable

from job.functions import AGGREGATES, SQL_FUNCTIONS
from job.plan import ColumnRef, Plan, Schema
from job.sql.near_names import did_you_mean
from job.types import STRING, TIMESTAMP, Kind, Type

_NUMBER_ADVICE = "A number has no unit, and a time is a text: write 5000, or TIMESTAMP '2024-05-01 10:00:00'."
_STATUS_CLASS = re.compile(r"([1-5])(?:xx|\*|%|\?\?)", re.IGNORECASE)


class Scope:
    """The columns of FROM. Names match without regard to case; `qualifiers` may stand before them."""

    def __init__(
        self, columns: dict[str, Type], qualifiers: Iterable[str], schema: Schema | None = None
    ) -> None:
        self.columns = columns
        self.open_fields = schema is not None and schema.open_fields
        self._qualifiers = {name.lower() for name in qualifiers}
        self._folded: dict[str, str] = {}
        aliases = schema.aliases if schema is not None else {}
        for alias, field in aliases.items():
            self._folded[alias.lower()] = field
        for name in columns:
            self._folded[name.lower()] = name

    @staticmethod
    def of_schema(schema: Schema, source: str, alias: str | None) -> Scope:
        """The fields of a log."""
        return Scope(schema.fields, [alias or source], schema)

    @staticmethod
    def of_plan(inner: Plan, alias: str | None) -> Scope:
        """The columns of a subquery; a window `w` gives the two columns w.start and w.end."""
        columns: dict[str, Type] = {}
        for output in inner.outputs:
            if output.expr.type.kind is Kind.WINDOW:
                columns[f"{output.name}.start"] = TIMESTAMP
                columns[f"{output.name}.end"] = TIMESTAMP
            else:
                columns[output.name] = output.expr.type
        return Scope(columns, [alias] if alias else [])

    def find(self, parts: tuple[str, ...]) -> ColumnRef | None:
        """The declared column of that name, None where there is none."""
        name = self._folded.get(".".join(parts).lower())
        if name is None and len(parts) > 1 and parts[0].lower() in self._qualifiers:
            name = self._folded.get(".".join(parts[1:]).lower())
        return ColumnRef(name, self.columns[name]) if name is not None else None

    def find_open(self, parts: tuple[str, ...]) -> ColumnRef | None:
        """With open fields: any name, a STRING, in the case it was written."""
        if not self.open_fields:
            return None
        if len(parts) > 1 and parts[0].lower() in self._qualifiers:
            parts = parts[1:]
        return ColumnRef(".".join(parts), STRING)

    def advice(self, name: str, more: Iterable[str] = ()) -> str:
        """What may have been meant by an unknown name."""
        if f"{name}.start" in self.columns:
            return f"It is a window of the subquery; write {name}.start or {name}.end."
        if name[:1].isdigit():
            return status_class_advice(name) or _NUMBER_ADVICE
        if name.lower() in AGGREGATES or name.lower() in SQL_FUNCTIONS:
            return f"{name} is a function: write {name}(...)."
        if name.lower().endswith((".start", ".end")):
            return f"Name the window: window(time, '1 minute') AS {name.partition('.')[0]}."
        return did_you_mean(name, [*self.columns, *self._folded, *more]) or (
            "The source has: "
            + ", ".join(list(self.columns)[:20])
            + ("." if len(self.columns) <= 20 else ", ...")
            + f" If it is a text, write '{name}'."
        )


def status_class_advice(text: str) -> str:
    """What to write for 5xx; "" for another text."""
    status = _STATUS_CLASS.fullmatch(text)
    return f"Write BETWEEN {status[1]}00 AND {status[1]}99." if status else ""
