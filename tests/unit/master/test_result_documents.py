"""Stored rows as documents: what is packed without its size is read, what is too large or broken is told."""

from __future__ import annotations

import msgspec
import pytest
import zstandard

from master import result_documents
from master.requests import Coverage, ResultColumn, ResultRecord
from master.result_documents import RecordError, packed_rows, record_json

ROWS = b'[["/a",3],["/b",null]]'
COVERAGE = Coverage(1, (), 3, 3, 0, 0, 0, 0, 0)


def record(packed: bytes) -> ResultRecord:
    columns = (ResultColumn("path", "STRING"), ResultColumn("hits", "BIGINT"))
    return ResultRecord(7, 0, 10, 1, "final", 1, 20, 3, COVERAGE, columns, 2, packed)


def streamed(data: bytes) -> bytes:
    """As a writer does that does not know how much will come."""
    packer = zstandard.ZstdCompressor().compressobj()
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize("packed", [streamed(ROWS), zstandard.compress(ROWS)])
def test_rows_become_objects(packed: bytes) -> None:
    document = msgspec.json.decode(record_json(record(packed)))
    assert document["rows"] == [{"path": "/a", "hits": 3}, {"path": "/b", "hits": None}]


def test_broken_rows_are_told() -> None:
    with pytest.raises(RecordError, match="result 7: "):
        packed_rows(record(b"not zstd"))


def test_rows_are_unpacked_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_documents, "UNPACKED_BYTES_MAX", 10)
    with pytest.raises(RecordError, match="over 10 bytes"):
        packed_rows(record(streamed(ROWS)))
