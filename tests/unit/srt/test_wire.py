"""The codec: limits, unknown tags, versions. What holds for every message is tests/unit/elfstream/test_fleet_wire.py."""

from __future__ import annotations

import msgspec
import pytest

from srt.automaton import Ref
from srt.errors import VersionError, WireError
from srt.ring_messages import REFS_MAX, JoinReply, Ping, RingJoin
from srt.tree_messages import CONTENT_BYTES_MAX, PongItem, TreePong
from srt.wire import (
    GREETING_BYTES_MAX,
    MESSAGE_BYTES_MAX,
    Greeting,
    Wire,
    agree,
    decode_greeting,
    encode_greeting,
)

WIRE = Wire()


REF = Ref(bytes(range(16)), "node-1:7400", 3)


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
