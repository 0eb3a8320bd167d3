"""Bytes of the messages between nodes: msgpack arrays that begin with a tag. docs/WIRE.md is the format.

Messages of the cores above are registered from there, as this package knows neither agents nor masters.
"""

from __future__ import annotations

from typing import Annotated, Any, Union

import msgspec
from msgspec import Meta

from srt.automaton import Ref
from srt.errors import VersionError, WireError
from srt.link_messages import LINK_MESSAGES
from srt.ring_messages import RING_MESSAGES
from srt.tree_messages import MASTER_MESSAGES, TREE_MESSAGES

VERSION = 1
"""Of the format that this code speaks; it grows with every change that an older node would misread."""
VERSION_LEAST = 1
"""The oldest one that it still speaks."""
MESSAGE_BYTES_MAX = 8 << 20
"""A message that is longer is neither sent nor read; large contents travel in chunks."""
GREETING_BYTES_MAX = 2048

Version = Annotated[int, Meta(ge=1, le=65535)]
SRT_MESSAGES: tuple[type, ...] = (*RING_MESSAGES, *TREE_MESSAGES, *MASTER_MESSAGES, *LINK_MESSAGES)


class Greeting(msgspec.Struct, frozen=True, array_like=True, tag="hi"):
    """What a link begins with, from both sides. It never changes its first four fields."""

    version_least: Version
    version: Version
    ref: Ref
    fleet: Annotated[str, Meta(max_length=64)]
    """Its name: nodes of different fleets do not talk."""
    features: Annotated[list[Annotated[str, Meta(max_length=32)]], Meta(max_length=32)] = []
    """What the sender can do beyond the version, by name."""


class Wire:
    """Encodes and decodes the messages of a version; one per process."""

    def __init__(self, *further: type) -> None:
        """`further`: message types of the cores above. ValueError: one has no tag, or a tag that is taken."""
        types = (*SRT_MESSAGES, *further)
        self.tags: dict[str, type] = {}
        for message in types:
            tag = _tag_of(message)
            if tag in self.tags:
                raise ValueError(f"{message.__name__} and {self.tags[tag].__name__} both have the tag {tag!r}")
            self.tags[tag] = message
        self._types = frozenset(types)
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(Union[types])  # noqa: UP007

    def encode(self, message: Any) -> bytes:
        """WireError when it is no message, or too long. It does not check the limits of the fields: their owners do."""
        if type(message) not in self._types:
            raise WireError(f"{type(message).__name__} is not registered as a message")
        data = self._encoder.encode(message)
        if len(data) > MESSAGE_BYTES_MAX:
            raise WireError(f"{type(message).__name__} of {len(data)} bytes is over {MESSAGE_BYTES_MAX}")
        return data

    def decode(self, data: bytes | bytearray | memoryview) -> Any:
        """WireError for whatever is not exactly one message within the limits."""
        if len(data) > MESSAGE_BYTES_MAX:
            raise WireError(f"a message of {len(data)} bytes is over {MESSAGE_BYTES_MAX}")
        return _decode(self._decoder, data)


_GREETING_ENCODER = msgspec.msgpack.Encoder()
_GREETING_DECODER = msgspec.msgpack.Decoder(Greeting)


def encode_greeting(greeting: Greeting) -> bytes:
    return _GREETING_ENCODER.encode(greeting)


def decode_greeting(data: bytes) -> Greeting:
    """WireError for whatever is no greeting."""
    if len(data) > GREETING_BYTES_MAX:
        raise WireError(f"a greeting of {len(data)} bytes is over {GREETING_BYTES_MAX}")
    found: Greeting = _decode(_GREETING_DECODER, data)
    return found


def agree(mine: Greeting, theirs: Greeting) -> int:
    """The version to speak: the newest that both know. VersionError names what to do; WireError for another fleet."""
    if mine.fleet != theirs.fleet:
        raise WireError(f"{theirs.ref.address} belongs to the fleet {theirs.fleet!r}, this node to {mine.fleet!r}")
    version = min(mine.version, theirs.version)
    if version < max(mine.version_least, theirs.version_least):
        older = theirs.ref.address if theirs.version < mine.version else mine.ref.address
        raise VersionError(
            f"{mine.ref.address} speaks versions {mine.version_least} to {mine.version}, {theirs.ref.address} "
            f"{theirs.version_least} to {theirs.version}: upgrade {older}"
        )
    return version


def _tag_of(message: type) -> str:
    config = getattr(message, "__struct_config__", None)
    if config is None or not config.array_like or not isinstance(config.tag, str):
        raise ValueError(f"{message.__name__} is no array_like msgspec.Struct with a text as its tag")
    tag: str = config.tag
    return tag


def _decode(decoder: msgspec.msgpack.Decoder[Any], data: bytes | bytearray | memoryview) -> Any:
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, OverflowError) as error:
        raise WireError(f"no message: {error}") from error
    except RecursionError as error:
        raise WireError("no message: nested too deep") from error
