"""Logs to records: what `elfstream parse` reads."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from agent.files import Inputs
from elfstream import records
from elfstream.embedded import Progress
from elfstream.records import RecordReader, chosen_fields
from job.formats import find


def test_progress_tells_the_bytes_on_disk_of_all_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "PROGRESS_INTERVAL_S", 0)
    line = find("combined").sample.encode() + b"\n"
    plain, packed = tmp_path / "a.log", tmp_path / "b.log.gz"
    plain.write_bytes(line * 3)
    packed.write_bytes(gzip.compress(line * 20_000))
    inputs = Inputs([str(plain), str(packed)])
    heard: list[Progress] = []
    fields = chosen_fields(find("combined"), ["status"], inputs)
    reader = RecordReader(inputs, find("combined"), fields, False, None, heard.append)
    assert sum(1 for _ in reader.rows()) == 20_003
    assert {now.bytes_total for now in heard} == {plain.stat().st_size + packed.stat().st_size}
    assert (heard[0].bytes_done, heard[0].lines, heard[0].path) == (plain.stat().st_size, 3, str(plain))
    assert heard[-1].lines == 20_003
    assert heard[-1].bytes_done <= heard[-1].bytes_total  # type: ignore[operator]
    done = [now.bytes_done for now in heard]
    assert done == sorted(done)
    assert len(done) > 3


def test_nobody_is_told_more_often_than_eyes_can_follow(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(find("combined").sample.encode() + b"\n")
    heard: list[Progress] = []
    inputs = Inputs([str(log)])
    reader = RecordReader(inputs, find("combined"), chosen_fields(find("combined"), [], inputs), False, None, heard.append)
    assert len(list(reader.rows())) == 1
    assert heard == []
