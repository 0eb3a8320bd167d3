"""A log format: its program, and what people need to know about it."""

from __future__ import annotations

import msgspec

from job.formats.aliases import aliases_of
from job.formats.program import JsonProgram, Program
from job.types import Type


class Format(msgspec.Struct, frozen=True):
    """A log format that lines can be read with. Plain data: it travels to agents as it is."""

    name: str
    program: Program
    text: str = ""
    """The format string as given; empty for formats that are known by name alone."""
    sample: str = ""
    """A line of this format."""
    title: str = ""
    twins: dict[str, str] = {}
    """Fields that are another field under a second name: `duration_s` is `request_time`."""

    @property
    def fields(self) -> dict[str, Type]:
        """The schema in the order of the line, twins last."""
        fields = self.program.fields
        return {**fields, **{twin: fields[name] for twin, name in self.twins.items()}}

    @property
    def aliases(self) -> dict[str, str]:
        """Further names of fields, for queries. None where any name is a key of the document."""
        return {} if self.open_fields else aliases_of(self.fields)

    @property
    def open_fields(self) -> bool:
        """Whether any other name is a field too: a dotted path into a JSON document, as STRING."""
        return isinstance(self.program, JsonProgram) and self.program.open_fields

    @property
    def directives(self) -> bool:
        """Whether lines of the log say which columns follow."""
        return not isinstance(self.program, JsonProgram) and self.program.directives
