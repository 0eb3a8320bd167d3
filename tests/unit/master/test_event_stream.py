"""Server-sent events from bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.event_stream import COMMENT, EventParser, StreamEvent
from master.result_documents import HEARTBEAT, RETRY, event, told

names = st.sampled_from(["result", "gap", "end"])
texts = st.binary(max_size=20).map(lambda data: data.replace(b"\n", b"").replace(b"\r", b""))


@given(st.lists(st.tuples(names, texts, st.none() | st.integers(0, 10**18))), st.lists(st.integers(1, 30)))
def test_events_are_the_same_however_their_bytes_are_cut(
    sent: list[tuple[str, bytes, int | None]], sizes: list[int]
) -> None:
    stream = RETRY + HEARTBEAT.join(event(name, data, id) for name, data, id in sent)
    parser, found, at = EventParser(), [], 0
    for size in [*sizes, len(stream)]:
        found += parser.feed(stream[at : at + size])
        at += size
    found += parser.feed(stream[at:])
    expected = [StreamEvent(name, "" if id is None else str(id), data) for name, data, id in sent]
    assert found == expected


def test_the_forms_of_the_standard() -> None:
    parser = EventParser()
    assert parser.feed(b"data: one\r\ndata:two\r\ndata\r\n\r\n: comment\nid: 5\n\nevent: x\n\n") == [
        StreamEvent("message", "", b"one\ntwo\n")
    ]
    assert parser.feed(told("end", reason="moved")) == [StreamEvent("end", "", b'{"reason":"moved"}')]


def test_comments_are_told_to_those_who_ask() -> None:
    stream = told("gap", after=1, upto=2) + HEARTBEAT + told("end", reason="moved")
    assert [one.name for one in EventParser(comments=True).feed(stream)] == ["gap", COMMENT, "end"]
    assert [one.name for one in EventParser().feed(stream)] == ["gap", "end"]


@pytest.mark.parametrize("sent", [b"data: 12345678901234", b"data: 12345\ndata: 67890\n"])
def test_an_event_without_end_is_refused(sent: bytes) -> None:
    parser = EventParser(bytes_max=10)
    with pytest.raises(ValueError, match="more than 10 bytes"):
        parser.feed(sent)
