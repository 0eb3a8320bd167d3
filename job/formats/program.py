"""What a log format compiles to, and what `cython_ext.scan` runs: a list of steps from left to right.

The kernel knows bytes, this module knows the alphabet between the two. A line is good only if every step matches and
nothing is left over, whatever columns the query wants: what is rejected never depends on the question. docs/SCAN.md
has the whole story with a worked example.

A line program runs like this: `prefix` must stand at the start; then each step finds where its field ends (`Extent`),
reads what the field means (`Content`) and requires the literal `until` right behind it. An empty `until` on the last
step asks for the end of the line.
"""

from __future__ import annotations

from enum import IntEnum

import msgspec

from job.types import Type


class Extent(IntEnum):
    """How the end of a field is found. Numbers are shared with the kernel."""

    TEXT = 1
    """Up to the first place where the whole literal `until` stands (the end of the line where it is empty); may be empty."""
    WORD = 2
    """As TEXT, but not empty and without a blank or tab inside."""
    QUOTED = 3
    """Up to the first quote that no odd run of backslashes precedes; `until` starts with that quote."""
    SELF = 4
    """The content knows its own length (numbers, times); a lone `-` is NULL where `dash_null`."""
    BRACES = 5
    """Optional `{...}`: the text between the braces when the field starts with `{`, else NULL and zero bytes wide.
    `until` belongs to the braces and is only required when they are there. A second opening brace inside is a mismatch:
    HAProxy encodes those of a client, so it belongs to another line glued to this one."""
    SYSLOG = 6
    """Optional syslog header: everything up to and with the first `]: ` when there is one, else zero bytes wide."""
    MAYBE_QUOTED = 7
    """A field that starts with a quote ends as QUOTED does, and the quotes are no part of the value; any other as WORD.
    `until` starts behind the quote."""
    LIST = 8
    """As TEXT, but a blank that joins two elements does not end the field: one after a comma, or one of a ` : `."""
    NAME = 9
    """As TEXT, but it does not start with a dash and a blank: that is a dash column and the one behind it, so the line has
    more columns than the format and its fields would shift. Nor does it hold a quote without a backslash: no server writes
    one into a name, so it belongs to another line glued to this one. For users, whose names may have blanks."""
    REQUEST = 10
    """As TEXT, but where places of `until` have ` HTTP/d` or ` HTTP/d.d` in front of them the first of those: a request
    line that is not in quotes. Not for one that starts with a dash."""


class Content(IntEnum):
    """What a field means, with the roles of its outputs in order. Numbers are shared with the kernel."""

    TEXT = 1
    """(value): STRING."""
    REQUEST = 2
    """(request, method, uri, path, query, protocol): STRINGs by the rules of docs/FORMATS.md; never a reject."""
    URI = 3
    """(uri, path, query): STRINGs, cut at the first `?`."""
    ADDRESS_PORT = 4
    """(address STRING, port BIGINT): the last colon separates; without one the port is NULL."""
    INTEGER = 5
    """(value): BIGINT, digits only; beyond 2**63-1 is the reject `overflow`, anything else `bad_number`."""
    TIMER = 6
    """(value): BIGINT, an optional sign and digits; a negative value is NULL."""
    DECIMAL = 7
    """(value): DECIMAL(18,6) in seconds; `argument` is the power of ten from the logged unit to microseconds (6 for
    seconds, 3 for milliseconds, 0 for microseconds); further digits are cut off; a negative value is NULL."""
    STATUS = 8
    """(value): BIGINT of exactly three digits, else the reject `bad_status`; with an `argument` that is not 0 anything
    may follow the third one."""
    TIME = 9
    """(value): TIMESTAMP by the strptime-like `layout`: %d %m %b %Y %y %H %M %S %f (fraction, 1 to 9 digits, cut to
    microseconds) %N (a point and a fraction, or nothing) %z (+hhmm, +hh:mm or Z) %s (epoch seconds, fraction allowed)
    %L (epoch milliseconds) %U (epoch microseconds) %a %A %B %T %p %I %e %j %%, or %+ alone: any usual way (RFC 3339 with
    optional fraction and offset, the common log format's, an epoch number whose length tells its unit). Without an
    offset it is in the zone of `zone_offset_s`. A wrong time is the reject `bad_time`."""
    DATE = 10
    """(value): adds the days of `layout` to the line's TIMESTAMP of that name."""
    CLOCK = 11
    """(value): adds the time of day of `layout` to the line's TIMESTAMP of that name."""
    FLAG = 12
    """(value): BOOLEAN; true/false, JSON only."""
    FLOAT = 13
    """(value): DOUBLE; JSON and declared fields only; else `bad_number`."""
    URI_STEM = 14
    """(uri, path): STRINGs, both the whole text: w3c's cs-uri-stem, whose query is a column of its own."""
    LOCATION = 15
    """(host STRING, port BIGINT, uri, path, query): a host and a request target without anything between them. The target
    starts at the first `/` or `?`, else it is a final `*`, else NULL (written `-`, or not at all). With an `argument` that
    is not 0 the host is read as ADDRESS_PORT; otherwise the port is NULL."""


class Step(msgspec.Struct, frozen=True):
    """One field of a line. `outputs` are field names by role; None or a missing tail: the role has no field."""

    extent: Extent
    content: Content
    outputs: tuple[str | None, ...]
    until: bytes = b""
    dash_null: bool = True
    """A field that is just `-` is NULL."""
    nulls: tuple[bytes, ...] = ()
    """Further texts that are NULL, such as <NOSRV>."""
    layout: bytes = b""
    """TIME, DATE, CLOCK: how it is written."""
    argument: int = 0
    """DECIMAL: see there."""
    json_escaped: bool = False
    """A text field in which JSON escapes are decoded (nginx escape=json in a line that is no JSON document)."""


class LineProgram(msgspec.Struct, frozen=True, tag="line"):
    """A format of columns. `fields` is the whole schema in order; every output names one of them."""

    fields: dict[str, Type]
    steps: tuple[Step, ...]
    prefix: bytes = b""
    blank_run: bool = False
    """Each blank in `prefix` and `until` stands for one or more blanks or tabs (w3c, squid)."""
    required: int = 0
    """The line may end after this many steps (0: all of them); the fields of the rest are then NULL."""
    open_end: bool = False
    """Further columns behind the last step are no reason to reject."""
    directives: bool = False
    """Lines that start with `#` are directives; the scan stops behind one that starts with `#Fields:`. Such a program may
    have no steps: then its columns are not known yet and every other line is the reject `no_fields`."""
    zone_offset_s: int = 0
    """Of times that log no offset: how far their clock is ahead of UTC, before the first of `zone_changes`."""
    zone_changes: tuple[tuple[int, int], ...] = ()
    """(microseconds since 1970 in UTC, offset in seconds from then on), in order. A time that the clock showed twice is
    its first occurrence; one that it left out is read with the offset before the change."""


class JsonPath(msgspec.Struct, frozen=True):
    """A value of a JSON document. `path` are the keys from the root, first match among `paths` wins; an array on the
    way stands for its first element."""

    paths: tuple[tuple[str, ...], ...]
    content: Content
    outputs: tuple[str | None, ...]
    layout: bytes = b""
    argument: int = 0
    dash_null: bool = True
    nulls: tuple[bytes, ...] = ()
    required: bool = False
    """A document without this value is of another kind: the reject `mismatch`."""
    lenient: bool = False
    """A value that cannot be read as `content` is NULL instead of a reject: for keys whose meaning is only guessed."""
    overrides: bool = False
    """Its outputs are written by an earlier value too, which stays where the document has no value here. Not for DATE
    and CLOCK."""


class JsonProgram(msgspec.Struct, frozen=True, tag="json"):
    """An object per line. A missing key and a null are NULL; a STRING field takes a string decoded, anything else as its
    JSON text. `open_fields`: any other name is a dotted path to a STRING."""

    fields: dict[str, Type]
    values: tuple[JsonPath, ...]
    open_fields: bool = False
    zone_offset_s: int = 0
    zone_changes: tuple[tuple[int, int], ...] = ()


Program = LineProgram | JsonProgram

REJECT_REASONS = (
    "blank",
    "truncated",
    "mismatch",
    "trailing",
    "bad_time",
    "bad_status",
    "bad_number",
    "overflow",
    "bad_json",
    "not_object",
    "too_deep",
    "too_long",
    "no_fields",
)
"""Why a line is rejected; the kernel counts by index into this tuple. truncated: the line ended before the format did.
mismatch: a literal of the format was not found. trailing: text left over behind the last field. no_fields: a w3c line
before any #Fields directive."""
