"""Windows that are sent to a job: how they are cut into requests, and what the answer about a backfill means."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import UTC, datetime

import msgspec
import pytest

from elfstream.backfilled import REQUEST_BYTES, REQUEST_WINDOWS, bodies, scope_of
from elfstream.result import ResultColumn
from job.types import BIGINT
from tests.plans import plan

PLAN = plan("window(time, '4 seconds')")
DOCUMENT = {
    "job": "hot", "revision": 2, "boundary": "2026-11-21T19:00:00Z", "from": None, "to": "2026-11-21T18:00:00Z",
    "size_us": 4_000_000, "slide_us": 4_000_000, "sql": "SELECT", "parameters": {"x": 1},
    "plan": base64.b64encode(msgspec.msgpack.encode(PLAN)).decode(),
    "columns": [{"name": "n", "type": "BIGINT"}], "sources": [{"name": "access"}],
}  # fmt: skip


def test_requests_are_bounded_by_windows_and_by_bytes() -> None:
    many = list(bodies({"lines": number} for number in range(REQUEST_WINDOWS + 1)))
    assert [body.count(b"\n") + 1 for body in many] == [REQUEST_WINDOWS, 1]
    assert many[1] == b'{"lines":%d}' % REQUEST_WINDOWS
    large = b"x" * (REQUEST_BYTES // 2)
    assert [len(body.split(b"\n")) for body in bodies([large, large, large * 3, b"y"])] == [1, 1, 1, 1]
    assert list(bodies([])) == []


def test_windows_are_asked_for_as_they_are_sent() -> None:
    made: list[int] = []

    def windows() -> Iterator[bytes]:
        for number in range(10 * REQUEST_WINDOWS):
            made.append(number)
            yield b"{}"

    next(bodies(windows()))
    assert len(made) == REQUEST_WINDOWS + 1


def test_the_scope_of_a_backfill_has_the_compiled_plan() -> None:
    scope = scope_of(DOCUMENT)
    assert (scope.plan, scope.revision, scope.columns) == (PLAN, 2, (ResultColumn("n", BIGINT),))
    assert (scope.start, scope.end) == (None, datetime(2026, 11, 21, 18, tzinfo=UTC))
    with pytest.raises(ValueError, match="base64"):
        scope_of({**DOCUMENT, "plan": "#"})
