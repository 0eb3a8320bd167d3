"""The wire format: round trips, limits, unknown tags, random bytes, and the example in the docs."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srt.automaton import Ref
from srt.errors import VersionError, WireError
from srt.ring_messages import REFS_MAX, JoinReply, Ping, Pong, RingJoin
from srt.tree_messages import CONTENT_BYTES_MAX, Kind, PongItem, TreeJoin, TreePong
from srt.wire import (
    GREETING_BYTES_MAX,
    MESSAGE_BYTES_MAX,
    SRT_MESSAGES,
    Greeting,
    Wire,
    agree,
    decode_greeting,
    encode_greeting,
)

DOCS = Path(__file__).resolve().parents[3] / "docs" / "WIRE.md"
WIRE = Wire()


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a message's field, within its limits."""
    info = kind
    if isinstance(info, msgspec.inspect.BytesType):
        return st.binary(min_size=info.min_length or 0, max_size=min(info.max_length or 64, 64))
    if isinstance(info, msgspec.inspect.StrType):
        return st.text(min_size=info.min_length or 0, max_size=min(info.max_length or 20, 20))
    if isinstance(info, msgspec.inspect.IntType):
        top = info.le
        return st.integers(info.ge or 0, top)
    if isinstance(info, msgspec.inspect.BoolType):
        return st.booleans()
    if isinstance(info, msgspec.inspect.NoneType):
        return st.none()
    if isinstance(info, msgspec.inspect.EnumType):
        return st.sampled_from(list(info.cls))
    if isinstance(info, msgspec.inspect.ListType):
        return st.lists(values(info.item_type), max_size=min(info.max_length or 3, 3))
    if isinstance(info, msgspec.inspect.UnionType):
        return st.one_of(*(values(part) for part in info.types))
    assert isinstance(info, msgspec.inspect.StructType), info
    return st.builds(info.cls, **{field.name: values(field.type) for field in info.fields})


MESSAGES = st.one_of(*(values(msgspec.inspect.type_info(message)) for message in SRT_MESSAGES))
REF = Ref(bytes(range(16)), "node-1:7400", 3)


@given(MESSAGES)
def test_round_trip(message: Any) -> None:
    again = WIRE.decode(WIRE.encode(message))
    assert again == message
    assert type(again) is type(message)


@given(st.binary(max_size=200))
def test_random_bytes_are_refused_or_a_message(data: bytes) -> None:
    try:
        message = WIRE.decode(data)
    except WireError:
        return
    assert type(message) in SRT_MESSAGES


@given(MESSAGES, st.data())
def test_damaged_messages_are_refused_or_a_message(message: Any, data: st.DataObject) -> None:
    damaged = bytearray(WIRE.encode(message))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(WireError):
        assert type(WIRE.decode(damaged[: data.draw(st.integers(0, len(damaged)))])) in SRT_MESSAGES


def test_every_field_has_a_limit() -> None:
    """Of messages, and of what they hold: no list, text or bytes without a greatest length, no number without bounds."""

    def unbounded(kind: Any, where: str) -> list[str]:
        if isinstance(kind, msgspec.inspect.StructType):
            return [text for field in kind.fields for text in unbounded(field.type, f"{where}.{field.name}")]
        if isinstance(kind, msgspec.inspect.ListType):
            inner = unbounded(kind.item_type, where)
            return inner if kind.max_length is not None else [where, *inner]
        if isinstance(kind, msgspec.inspect.UnionType):
            return [text for part in kind.types for text in unbounded(part, where)]
        if isinstance(kind, msgspec.inspect.IntType):
            return [] if kind.ge is not None and kind.le is not None else [where]
        if isinstance(kind, msgspec.inspect.BytesType | msgspec.inspect.StrType):
            return [] if kind.max_length is not None else [where]
        return []

    for message in (*SRT_MESSAGES, Greeting):
        assert unbounded(msgspec.inspect.type_info(message), message.__name__) == []


def test_limits_are_enforced() -> None:
    with pytest.raises(WireError, match="length <= 64"):
        WIRE.decode(WIRE.encode(JoinReply([REF] * (REFS_MAX + 1), 0)))
    with pytest.raises(WireError, match="length >= 16"):
        WIRE.decode(WIRE.encode(RingJoin(Ref(b"short", "a:1", 1), 0, 0)))
    data = WIRE.encode(TreePong([PongItem(bytes(16), [], True, 1, bytes(CONTENT_BYTES_MAX + 1))]))
    with pytest.raises(WireError, match="length <="):
        WIRE.decode(data)
    item = PongItem(bytes(16), [], True, 1, bytes(MESSAGE_BYTES_MAX))
    with pytest.raises(WireError, match=r"TreePong of 8388\d* bytes is over 8388608"):
        WIRE.encode(TreePong([item]))
    with pytest.raises(WireError, match="is over 8388608"):
        WIRE.decode(bytes(MESSAGE_BYTES_MAX + 1))


def test_unknown_tags_and_nesting_are_errors_that_say_so() -> None:
    with pytest.raises(WireError, match="Invalid value 'zz'"):
        WIRE.decode(msgspec.msgpack.encode(["zz", 1]))
    with pytest.raises(WireError):
        WIRE.decode(b"\x91" * 100_000)
    with pytest.raises(WireError):
        WIRE.decode(msgspec.msgpack.encode(["ri"])[:-1])
    deep = b"\x92\xa2ri" + b"\x91" * 100_000 + b"\xc0"
    with pytest.raises(WireError):
        WIRE.decode(deep)
    with pytest.raises(WireError, match="Greeting is not registered"):
        WIRE.encode(Greeting(1, 1, REF, "shop"))


def test_fields_added_at_the_end_are_skipped_by_older_nodes() -> None:
    assert WIRE.decode(msgspec.msgpack.encode(["ri", "new", {"a": 1}])) == Ping()


def test_messages_from_above_are_registered() -> None:
    class Mine(msgspec.Struct, frozen=True, array_like=True, tag="x1"):
        text: str

    class Taken(msgspec.Struct, frozen=True, array_like=True, tag="ri"):
        pass

    class Untagged(msgspec.Struct, frozen=True, array_like=True):
        pass

    wire = Wire(Mine)
    assert wire.decode(wire.encode(Mine("hello"))) == Mine("hello")
    with pytest.raises(WireError):
        WIRE.decode(wire.encode(Mine("hello")))
    with pytest.raises(ValueError, match="Taken and Ping both have the tag 'ri'"):
        Wire(Taken)
    with pytest.raises(ValueError, match="Untagged is no array_like"):
        Wire(Untagged)


def greeting(least: int, version: int, fleet: str = "shop") -> Greeting:
    return Greeting(least, version, Ref(bytes(16), f"v{version}:1", 1), fleet, ["zstd"])


def test_greetings_agree_on_the_newest_common_version() -> None:
    assert decode_greeting(encode_greeting(greeting(1, 3))) == greeting(1, 3)
    assert agree(greeting(1, 3), greeting(2, 5)) == 3
    with pytest.raises(VersionError, match="upgrade v1:1"):
        agree(greeting(2, 3), greeting(1, 1))
    with pytest.raises(VersionError, match="upgrade v1:1"):
        agree(greeting(1, 1), greeting(2, 3))
    with pytest.raises(WireError, match="fleet 'bank'"):
        agree(greeting(1, 1), greeting(1, 1, "bank"))
    with pytest.raises(WireError, match="is over 2048"):
        decode_greeting(bytes(GREETING_BYTES_MAX + 1))
    with pytest.raises(WireError):
        decode_greeting(WIRE.encode(Ping()))


def test_the_example_in_the_docs_is_what_the_code_writes() -> None:
    blocks = re.findall(r"^```hex\n(.*?)^```$", DOCS.read_text(), re.MULTILINE | re.DOTALL)
    messages = [
        TreeJoin(bytes(range(16)), Kind.WORKER, 300, 0, True),
        Pong([Ref(bytes(range(16)), "node-1:7400", 3)]),
    ]
    texts = [re.sub(r"#.*", "", block) for block in blocks]
    assert [bytes.fromhex("".join(text.split())) for text in texts] == [WIRE.encode(m) for m in messages]
    assert [WIRE.decode(bytes.fromhex("".join(text.split()))) for text in texts] == messages


def test_the_table_in_the_docs_has_every_message() -> None:
    rows = dict(re.findall(r"^\| `(\w\w)` \| (\w+) \|", DOCS.read_text(), re.MULTILINE))
    assert rows == {tag: message.__name__ for tag, message in WIRE.tags.items()}
