"""What nodes tell each other through the directory: which jobs, nodes and sources there are. Values and their bytes.

Whatever a notice says came from another node: it is decoded within limits, and what is beyond them is no notice.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from job.plan import Schema
from job.settings import PARTITIONS_MAX
from job.types import DECIMAL_PRECISION_MAX, Kind, Type
from master.service import JobNotice, NodeNotice
from srt.automaton import Ref
from srt.directory_messages import VALUE_BYTES_MAX, Entry
from srt.options import DirectoryOptions

JOB, NODE, SOURCE = 1, 2, 3
"""Kinds of entries."""
REMOVED_S = 7 * 86_400.0
"""How long it is remembered that a job was removed. A node that was away for longer may bring it back."""
NODE_TOLD_S = 30.0
NODE_LIVES_S = 3 * NODE_TOLD_S
SOURCE_TOLD_S = 3600.0
SOURCE_LIVES_S = 3 * SOURCE_TOLD_S
SOURCES_MAX = 64
FIELDS_MAX = 1000
GREATEST = 2**62
"""Above every time in microseconds."""
DIRECTORY = DirectoryOptions(durable_kinds=frozenset({JOB}))

_Name = Annotated[str, Meta(min_length=1, max_length=255)]
_Short = Annotated[str, Meta(min_length=1, max_length=64)]
_Digits = Annotated[int, Meta(ge=0, le=DECIMAL_PRECISION_MAX)]
_Time = Annotated[int, Meta(ge=0, lt=GREATEST)]
_encode = msgspec.msgpack.Encoder(order="deterministic").encode


class SourceNotice(msgspec.Struct, frozen=True, array_like=True):
    """A source that agents have, with the fields of its format. Agents whose formats differ give several of one name."""

    name: str
    schema: Schema


class NoticeError(Exception):
    """A notice of our own that nobody would take. `str(error)` is fit to be shown."""


class _Job(msgspec.Struct, frozen=True, array_like=True):
    name: _Short
    source: _Name
    state: Annotated[str, Meta(pattern="^(running|stopped|removed)$")]
    revision: Annotated[int, Meta(ge=0, lt=GREATEST)]
    created_us: _Time
    changed_us: _Time
    trees: Annotated[int, Meta(ge=1, le=PARTITIONS_MAX)] = 1


class _Node(msgspec.Struct, frozen=True, array_like=True):
    """Without what changes each time it is told, so that telling it again is nothing new."""

    name: _Name
    ref: Ref
    kind: Annotated[str, Meta(pattern="^(agent|worker)$")]
    version: _Short
    started_us: _Time
    sources: Annotated[tuple[_Name, ...], Meta(max_length=SOURCES_MAX)]
    left: bool


class _Source(msgspec.Struct, frozen=True, array_like=True):
    name: _Name
    fields: Annotated[list[tuple[_Name, Kind, _Digits, _Digits]], Meta(max_length=FIELDS_MAX)]
    """Name and type: its kind, precision and scale."""
    open_fields: bool
    aliases: Annotated[list[tuple[_Name, _Name]], Meta(max_length=FIELDS_MAX)]


_DECODERS: dict[int, Any] = {
    JOB: msgspec.msgpack.Decoder(_Job).decode,
    NODE: msgspec.msgpack.Decoder(_Node).decode,
    SOURCE: msgspec.msgpack.Decoder(_Source).decode,
}


def job_entry(key: bytes, notice: JobNotice) -> Entry:
    """A later creation beats an earlier one; of one creation its removal beats everything, else the last change. A removed
    job's entry ends `REMOVED_S` after the removal."""
    removed = notice.state == "removed"
    serial = GREATEST if removed else notice.changed_us
    until_us = notice.changed_us + int(REMOVED_S * 1e6) if removed else 0
    body = _Job(
        notice.name, notice.source, notice.state, notice.revision, notice.created_us, notice.changed_us, notice.trees
    )
    return _entry(JOB, key, (notice.created_us, serial), body, until_us)


def node_entry(notice: NodeNotice) -> Entry:
    """A later boot beats an earlier one; of one boot what was told last. Who left is told of as long as who stays."""
    body = _Node(
        notice.name,
        notice.ref,
        notice.kind,
        notice.version,
        notice.started_us,
        notice.sources[:SOURCES_MAX],
        notice.left,
    )
    until_us = notice.told_us + int(NODE_LIVES_S * 1e6)
    return _entry(NODE, notice.ref.id, (notice.ref.boot, notice.told_us), body, until_us)


def source_entry(notice: SourceNotice, told_us: int) -> Entry:
    """One entry for each name and schema, whoever tells it."""
    schema = notice.schema
    fields = [(name, kind.kind, kind.precision, kind.scale) for name, kind in schema.fields.items()]
    body = _Source(
        notice.name, fields, schema.open_fields, sorted(schema.aliases.items())
    )
    key = sha256(_encode(body)).digest()[:16]
    return _entry(SOURCE, key, (told_us, 0), body, told_us + int(SOURCE_LIVES_S * 1e6))


def _entry(kind: int, key: bytes, version: tuple[int, int], body: Any, until_us: int) -> Entry:
    """Raises NoticeError."""
    value = _encode(body)
    if len(value) > VALUE_BYTES_MAX:
        raise NoticeError(
            f"what {body.name!r} has to tell takes {len(value)} bytes, more than {VALUE_BYTES_MAX}: "
            "give the source fewer or shorter field names"
        )
    try:
        _DECODERS[kind](value)
    except msgspec.DecodeError as problem:
        raise NoticeError(f"what {body.name!r} has to tell is beyond the limits: {problem}") from problem
    return Entry(kind, key, version, value, until_us)


def notice_of(entry: Entry) -> JobNotice | NodeNotice | SourceNotice | None:
    """None for what is no notice: of another kind, beyond the limits, or under a key that is not its own."""
    decode = _DECODERS.get(entry.kind)
    try:
        body = None if decode is None else decode(entry.value)
    except (msgspec.DecodeError, RecursionError):
        return None
    if isinstance(body, _Job):
        return JobNotice(
            body.name, body.source, body.state, body.revision, body.created_us, body.changed_us, body.trees
        )
    if isinstance(body, _Node) and body.ref.id == entry.key:
        told_us = entry.version[1]
        return NodeNotice(
            body.name, body.ref, body.kind, body.version, body.started_us, told_us, body.sources, body.left
        )
    if isinstance(body, _Source):
        fields = {name: Type(kind, precision, scale) for name, kind, precision, scale in body.fields}
        return SourceNotice(body.name, Schema(fields, body.open_fields, dict(body.aliases)))
    return None
