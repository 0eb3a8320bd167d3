"""All messages of the fleet: round trips, limits on every field, one style of tags, damaged and golden bytes, the docs."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfstream.fleet_wire import charged_to, fleet_wire
from job.plan_book import PlanBook
from master.group_messages import Append, Entry, EntryKind, Lineage, SnapshotPart
from srt.automaton import Ref
from srt.errors import WireError
from srt.frame_messages import (
    NUMBERS_MAX,
    PART_BYTES,
    REQUESTS_MAX,
    Ack,
    Down,
    ForJob,
    Frame,
    FrameBody,
    News,
    Refused,
    StreamId,
    Sync,
    SyncAnswer,
    Synced,
    SyncRequest,
    Up,
)
from srt.frames import Assemblies
from srt.ring_messages import Ping, Pong
from srt.tree_messages import Kind, TreeJoin
from srt.wire import MESSAGE_BYTES_MAX, VERSION, Greeting
from tests.wire_values import sample, values

ROOT = Path(__file__).resolve().parents[3]
WIRE = fleet_wire()
INSIDE = (*Up.__args__, *Down.__args__, FrameBody, News)
"""What travels in others."""
MESSAGES = st.one_of(*(values(msgspec.inspect.type_info(message)) for message in WIRE.tags.values()))


def tag_of(message: type) -> Any:
    return message.__struct_config__.tag  # type: ignore[attr-defined]


@given(MESSAGES)
def test_round_trip(message: Any) -> None:
    again = WIRE.decode(WIRE.encode(message))
    assert again == message
    assert type(again) is type(message)


@given(st.binary(max_size=200))
def test_random_bytes_are_refused_or_a_message(data: bytes) -> None:
    with contextlib.suppress(WireError):
        assert type(WIRE.decode(data)) in WIRE.tags.values()


@given(MESSAGES, st.data())
def test_damaged_messages_are_refused_or_a_message(message: Any, data: st.DataObject) -> None:
    damaged = bytearray(WIRE.encode(message))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(WireError):
        found = WIRE.decode(damaged[: data.draw(st.integers(0, len(damaged)))])
        assert WIRE.decode(WIRE.encode(found)) == found, "what was taken is within the limits"


@given(values(msgspec.inspect.type_info(FrameBody)), st.data())
def test_damaged_bodies_of_frames_are_refused_or_a_frame(body: FrameBody, data: st.DataObject) -> None:
    damaged = bytearray(msgspec.msgpack.encode(body))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    begun = Assemblies(1 << 20, 1 << 20, 2)
    part = Frame(1, 0, True, False, bytes(damaged[: data.draw(st.integers(0, len(damaged)))]))
    frame = begun.take(Ref(bytes(16), "a:1", 1), part)
    assert frame is None or frame.spans
    assert begun.dropped == (frame is None)


def unbounded(kind: Any, where: str) -> list[str]:
    """Fields without limits: lists, texts and bytes without a greatest length, numbers without bounds."""
    if isinstance(kind, msgspec.inspect.StructType):
        if kind.cls is PlanBook:
            return []  # within the bounds of what carries it
        return [text for field in kind.fields for text in unbounded(field.type, f"{where}.{field.name}")]
    if isinstance(kind, msgspec.inspect.ListType | msgspec.inspect.VarTupleType):
        inner = unbounded(kind.item_type, where)
        return inner if kind.max_length is not None else [where, *inner]
    if isinstance(kind, msgspec.inspect.UnionType):
        return [text for part in kind.types for text in unbounded(part, where)]
    if isinstance(kind, msgspec.inspect.TupleType):
        return [text for part in kind.item_types for text in unbounded(part, where)]
    if isinstance(kind, msgspec.inspect.IntType):
        return [] if kind.ge is not None and (kind.le is not None or kind.lt is not None) else [where]
    if isinstance(kind, msgspec.inspect.FloatType):
        return [] if kind.le is not None else [where]
    if isinstance(kind, msgspec.inspect.BytesType | msgspec.inspect.StrType):
        return [] if kind.max_length is not None else [where]
    known = msgspec.inspect.BoolType | msgspec.inspect.NoneType | msgspec.inspect.EnumType
    return [] if isinstance(kind, known) else [where]


@pytest.mark.parametrize("message", [*WIRE.tags.values(), *INSIDE, Greeting])
def test_every_field_has_a_limit(message: type) -> None:
    assert unbounded(msgspec.inspect.type_info(message), message.__name__) == []


def test_tags_are_two_letters_and_nobody_shares_one() -> None:
    tags = [*WIRE.tags, *(tag_of(message) for message in INSIDE if message is not FrameBody)]
    assert all(re.fullmatch("[rtmlfgd][a-z]", tag) for tag in tags)
    assert len(set(tags)) == len(tags)


def test_no_message_of_frames_and_groups_is_too_long_to_be_sent() -> None:
    """The longest that the limits of the senders allow."""
    key, most = bytes(16), 2**63 - 1
    stream = StreamId(most, key, 1)
    text = "\U0001f40d" * 255
    for body in (
        Frame(most, 4095, True, True, bytes(PART_BYTES)),
        Ack((most,) * NUMBERS_MAX),
        Sync((SyncRequest(stream, most, most, most, most, most, text),) * REQUESTS_MAX),
        Synced((SyncAnswer(stream, most, most, most, most, True, text),) * REQUESTS_MAX),
        Refused(most, key, "\U0001f40d" * 1000),
    ):
        assert len(WIRE.encode(ForJob(key, body))) <= MESSAGE_BYTES_MAX


def test_what_messages_are_charged_to() -> None:
    key, lineage = bytes(range(16)), Lineage(1, bytes(8))
    log = bytes(255 - byte for byte in key)
    entries = Append(key, lineage, 1, 1, 1, [Entry(1, EntryKind.DATA, b"x")], 1, 0.0)
    assert charged_to(ForJob(key, Frame(1, 0, True, False, b""))) == key
    assert charged_to(ForJob(key, Sync(()))) == key
    assert charged_to(ForJob(key, Ack((1,)))) is None
    assert charged_to(entries) == log
    assert charged_to(msgspec.structs.replace(entries, entries=[])) is None
    assert charged_to(SnapshotPart(key, lineage, 1, 1, 1, [], 0, 1, b"", 0.0)) == log
    assert charged_to(Ping()) is None


def golden() -> str:
    lines = []
    for message in (*WIRE.tags.values(), *INSIDE, Greeting):
        one = sample(msgspec.inspect.type_info(message))
        data = msgspec.msgpack.encode(one)
        assert msgspec.msgpack.decode(data, type=message) == one
        lines.append(f"{tag_of(message) or '--'} {message.__name__} {data.hex()}\n")
    return "".join(sorted(lines))


def test_the_bytes_of_messages_do_not_change_by_accident() -> None:
    kept = ROOT / "tests" / "golden" / "wire_messages.txt"
    assert golden() == kept.read_text(), (
        "older nodes cannot read this: raise VERSION in srt/wire.py (fields added at the end excepted), and replace "
        f"{kept.name} by what golden() returns"
    )


DOCS = (ROOT / "docs" / "WIRE.md").read_text()


def test_the_examples_in_the_docs_are_what_the_code_writes() -> None:
    blocks = re.findall(r"^```hex\n(.*?)^```$", DOCS, re.MULTILINE | re.DOTALL)
    messages = [
        TreeJoin(bytes(range(16)), Kind.WORKER, 300, 0, True),
        Pong([Ref(bytes(range(16)), "node-1:7400", 3)]),
        ForJob(bytes(range(16)), Ack((7, 300))),
    ]
    texts = [re.sub(r"#.*", "", block) for block in blocks]
    assert [bytes.fromhex("".join(text.split())) for text in texts] == [WIRE.encode(m) for m in messages]
    assert [WIRE.decode(bytes.fromhex("".join(text.split()))) for text in texts] == messages


def test_the_tables_in_the_docs_have_every_message() -> None:
    rows = dict(re.findall(r"^\| `(\w\w)` \| (\w+) \|", DOCS, re.MULTILINE))
    inside = {tag_of(message): message.__name__ for message in INSIDE if message is not FrameBody}
    assert rows == {**{tag: message.__name__ for tag, message in WIRE.tags.items()}, **inside}


SAID_OTHERWISE = {
    "BeatsHeard": {"strange": "those of the groups"},
    "Holdings": {"held": "held entries"},
    "Rumours": {"until_us": "until_us"},
    "TreeJoin": {"agents": "agents below"},
    "TreePing": {"items": "at most 256 of"},
    "TreePong": {"items": "at most 256 of"},
    "Grant": {"jobs": "at most 256 of"},
    "Beats": {"beats": "at most 1,024 ("},
    "ForJob": {"body": "message"},
    "Nack": {"numbers": "numbers"},
}
"""Fields that the tables call by another name than the code."""


def test_the_tables_in_the_docs_have_every_field_in_its_order() -> None:
    rows = dict(re.findall(r"^\| `\w\w` \| (\w+) \| ([^|]*) \|", DOCS, re.MULTILINE))
    for message in (*WIRE.tags.values(), *INSIDE):
        at, row = 0, rows.get(message.__name__)
        if row is None:  # FrameBody is in the text
            continue
        for field in message.__struct_fields__:
            name = SAID_OTHERWISE.get(message.__name__, {}).get(field, re.sub(r"_(us|s)$", "", field))
            at = row.find(name, at)
            assert at >= 0, f"{message.__name__}: {field} is not where it stands in {row!r}"
            at += len(name)


def test_the_docs_say_which_version_it_is() -> None:
    assert f"The version is {VERSION}:" in " ".join(DOCS.split())
