"""A log format: its program, and what people need to know about it."""

from __future__ import annotations

import msgspec

from job.formats.aliases import aliases_of
from job.formats.program import Content, JsonProgram, LineProgram, Program
from job.formats.timezones import UNZONED, Zone
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
    zone: Zone = UNZONED
    """The clock of times that say no offset."""

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

    @property
    def needs_zone(self) -> bool:
        """Whether some time of its lines may say no offset."""
        parts = self.program.steps if isinstance(self.program, LineProgram) else self.program.values
        moments = (Content.TIME, Content.DATE, Content.CLOCK)
        return self.directives or any(part.content in moments and not _names_offset(part.layout) for part in parts)


def zoned(program: Program, zone: Zone) -> Program:
    """`program` for logs whose clock shows `zone`."""
    if zone == UNZONED:
        return program
    return msgspec.structs.replace(program, zone_offset_s=zone.offset_s, zone_changes=zone.changes)


def _names_offset(layout: bytes) -> bool:
    directives = layout.replace(b"%%", b"")
    return any(directive in directives for directive in (b"%z", b"%s", b"%L", b"%U"))
