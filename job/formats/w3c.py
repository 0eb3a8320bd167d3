"""The W3C extended log format (IIS, CloudFront and others): a `#Fields:` line says which columns follow.

https://www.w3.org/TR/WD-logfile.html. Before a log is read, the schema has every canonical name below, so a query can
be compiled; fields that a log does not have are NULL.
"""

from __future__ import annotations

from job.errors import FormatError
from job.formats.assembly import STEPS_MAX
from job.formats.fields import (
    SIZED,
    FieldNames,
    Meaning,
    identifier,
    integer,
    request_header,
    response_header,
    seconds,
    status,
    text,
    type_of,
    uri,
    word,
)
from job.formats.program import Content, Extent, LineProgram, Step
from job.types import STRING, Type

DIRECTIVE = "#Fields:"
FIELDS_BYTES_MAX = 64 << 10

_STEM = Meaning("cs_uri_stem", Content.URI_STEM, ("uri", "path"), word=True)
_MEANINGS = {
    "c-ip": word("c_ip", "remote_addr"),
    "c-port": integer("c_port", "remote_port"),
    "cs-username": word("cs_username", "user"),
    "s-ip": word("s_ip", "server_addr"),
    "s-port": integer("s_port", "server_port"),
    "cs-method": word("cs_method", "method"),
    "cs-uri-stem": _STEM,
    "cs-uri-query": word("cs_uri_query", "query"),
    "cs-uri": uri("cs_uri"),
    "sc-status": status("sc_status", "status"),
    "sc-substatus": integer("sc_substatus"),
    "sc-win32-status": integer("sc_win32_status"),
    "sc-bytes": integer("sc_bytes", "bytes"),
    "cs-bytes": integer("cs_bytes", "bytes_received"),
    "time-taken": integer("time_taken", "duration_ms"),
    "timetakenms": integer("time_taken_ms", "duration_ms"),
    "cs-version": word("cs_version", "protocol"),
    "cs-protocol-version": word("cs_protocol_version", "protocol"),
    "cs-protocol": word("cs_protocol", "scheme"),
    "cs-host": word("cs_host", "vhost"),
    "x-forwarded-for": word("x_forwarded_for", "xff"),
    "x-host-header": word("host_header"),
    "x-edge-location": word("edge_location"),
    "x-edge-result-type": word("result_type"),
    "x-edge-response-result-type": word("response_result_type"),
    "x-edge-detailed-result-type": word("detailed_result_type"),
    "x-edge-request-id": word("request_id"),
    "ssl-protocol": word("ssl_protocol"),
    "ssl-cipher": word("ssl_cipher"),
    "sc-content-type": word("content_type"),
    "sc-content-len": integer("content_length"),
    "time-to-first-byte": seconds("time_to_first_byte"),
}
_CLOUDFRONT = {"time-taken": seconds("time_taken", "request_time")}
_CANONICAL_HEADERS = ("referer", "user-agent", "cookie", "host", "x-forwarded-for")
_DAYS = {"date": b"%Y-%m-%d", "date-local": b"%Y-%m-%d"}
_CLOCKS = {"time": b"%H:%M:%S%N", "time-local": b"%H:%M:%S%N"}


def _canonical_fields() -> dict[str, Type]:
    fields = {"time": type_of(Content.TIME)}
    headers = [request_header(header) for header in _CANONICAL_HEADERS]
    for meaning in (*_MEANINGS.values(), *_CLOUDFRONT.values(), *headers):
        for role, name in enumerate(meaning.outputs):
            if name is not None:
                fields.setdefault(name, type_of(meaning.content, role))
    return fields


CANONICAL_FIELDS = _canonical_fields()
"""What a query may ask of a log whose columns are not known yet."""


def unread() -> LineProgram:
    """The program of a log before its first #Fields line: every data line is rejected as `no_fields`."""
    return LineProgram(fields=dict(CANONICAL_FIELDS), steps=(), directives=True)


def is_directive(text: str) -> bool:
    return text.lstrip().startswith(DIRECTIVE)


def compile_format(directive: str) -> LineProgram:
    """The program of the lines behind a `#Fields:` line. Raises FormatError."""
    if len(directive) > FIELDS_BYTES_MAX:
        raise FormatError(f"the #Fields line is longer than {FIELDS_BYTES_MAX} bytes")
    columns = directive.strip().removeprefix(DIRECTIVE).split()
    if not columns:
        raise FormatError("the #Fields line names no column")
    if len(columns) > STEPS_MAX:
        raise FormatError(f"the #Fields line names more than {STEPS_MAX} columns")
    lowered = [column.lower() for column in columns]
    cloudfront = "x-edge-location" in lowered
    names = FieldNames()
    both = (_first(lowered, _DAYS), _first(lowered, _CLOCKS))
    steps: list[Step] = []
    for index, column in enumerate(lowered):
        if -1 not in both and index in both:
            names.join("time", Content.TIME)
            content = Content.DATE if index == both[0] else Content.CLOCK
            meaning = Meaning("time", content, layout=_DAYS.get(column) or _CLOCKS[column])
            outputs: tuple[str | None, ...] = ("time",)
        else:
            meaning = _meaning(column, cloudfront)
            outputs = names.claim(meaning)
        steps.append(_step(meaning, outputs, b" " if index + 1 < len(lowered) else b""))
    return LineProgram(fields=names.fields, steps=tuple(steps), blank_run=True, directives=True)


def _step(meaning: Meaning, outputs: tuple[str | None, ...], until: bytes) -> Step:
    # Some servers quote values that have blanks, some quote all of them and write "" for a missing one.
    return Step(
        Extent.MAYBE_QUOTED,
        meaning.content,
        outputs,
        until,
        nulls=(b"",) if meaning.content in SIZED else (),
        layout=meaning.layout,
        argument=meaning.argument,
    )


def _first(columns: list[str], known: dict[str, bytes]) -> int:
    return next((index for index, column in enumerate(columns) if column in known), -1)


def _meaning(column: str, cloudfront: bool) -> Meaning:
    if cloudfront and column in _CLOUDFRONT:
        return _CLOUDFRONT[column]
    if column in _MEANINGS:
        return _MEANINGS[column]
    if column.endswith(")"):
        side, _, header = column[:-1].partition("(")
        if side == "cs" and header:
            return request_header(header)
        if side == "sc" and header:
            return response_header(header)
    name = identifier(column)
    # A name of ours with another meaning would change the type that queries were compiled for.
    if CANONICAL_FIELDS.get(name, STRING) != STRING:
        name += "_text"
    return text(name)
