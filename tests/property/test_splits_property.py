"""A log cut into splits anywhere is the log in one piece: the same rows, rejects and directives, however it is cut."""

from __future__ import annotations

import gzip
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from agent import files
from agent.errors import InputError
from agent.line_counts import LineCounts
from cython_ext import reference_scan
from job.errors import FormatError
from job.formats import Format, find, in_zone, w3c
from master.spark import splits as splits_module
from master.spark.split_scan import SplitScan
from master.spark.splits import Split, TimeRange, cut, local_files, look_at, plan_splits, tasks

LINE = b'192.0.2.%d - - [14/Mar/2024:09:%02d:%02d +0000] "GET /p%d?q=1 HTTP/1.1" 200 %d "-" "curl"'
COMBINED = st.builds(lambda a, b, c: LINE % (a, b, c, a, c), st.integers(0, 255), st.integers(0, 59), st.integers(0, 59))
DIRECTIVES = st.sampled_from(
    [
        b"#Fields: date time c-ip cs-uri-stem sc-status",
        b"#Fields: sc-status date time cs-uri-stem",
        b"#Fields:",
        b"#Fields: date time sc-status\r",
        b"#Version: 1.0",
        b"# Fields: none",
        b" #Fields: c-ip",
        b"x#Fields: c-ip",
        b"#Fields: " + b"c-ip " * 4000,
    ]
)
W3C = st.sampled_from(
    [b"2024-05-01 10:00:00 192.0.2.1 /a 200", b"404 2024-05-01 10:00:01 /b", b"2024-05-01 10:00:02 301", b"nonsense"]
)
JUNK = st.binary(max_size=30).map(lambda line: line.replace(b"\n", b" ")) | st.just(b"y" * 300)
LOGS = {
    "combined": (find("combined"), COMBINED | JUNK),
    "w3c": (find("w3c"), W3C | W3C | DIRECTIVES | JUNK),
    "w3c, columns given": (find("#Fields: date time c-ip cs-uri-stem sc-status"), W3C | W3C | DIRECTIVES),
    "w3c in a zone": (in_zone(find("w3c"), "Europe/Berlin"), W3C | DIRECTIVES),
    "json": (find("json"), st.sampled_from([b'{"a": {"b": 1}}', b'{"a": 2, "time": "x"}', b"{", b"[]"]) | JUNK),
}
WANTED = {"json": ["a.b", "a", "time"], "combined": ["path", "time", "bytes"]}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "BLOCK_BYTES", 128)
    monkeypatch.setattr(files, "LINE_BYTES_MAX", 1 << 15)


def _scanned(splits: Sequence[Split], format: Format, wanted: list[str]) -> tuple[list[Any], LineCounts, list[Any]]:
    rows: list[Any] = []
    counts, samples = LineCounts(), []
    for split in splits:
        scan = SplitScan(split, format, wanted, samples_max=1 << 20)
        for block in scan:
            rows += zip(*(block.columns[name].to_list() for name in wanted), strict=True)
        counts.merge(scan.counts)
        samples += scan.samples
    return rows, counts, samples


def _model(data: bytes, format: Format, wanted: list[str]) -> tuple[list[Any], Counter[str], int]:
    """The plain scanner over the whole text, line after line: (rows, rejects, directives)."""
    program: Any = format.program
    rows, rejected, directives = [], Counter[str](), 0
    for line in data.split(b"\n")[: -1 if data.endswith(b"\n") or not data else None]:
        batch = reference_scan.scan(program, wanted, line)
        if line == b"":
            batch.rejected = {"blank": 1}
        rows += zip(*batch.columns, strict=True)
        rejected.update(batch.rejected)
        directives += batch.directives
        if batch.directive is not None:
            try:
                program = w3c.compile_format(batch.directive.decode("utf-8", "backslashreplace"))
            except FormatError:
                program = w3c.unread()
            fields = {**program.fields, **format.program.fields}
            program = replace(program, fields=fields, zone_offset_s=format.zone.offset_s)
            program = replace(program, zone_changes=format.zone.changes)
    return rows, rejected, directives


@pytest.mark.parametrize("name", LOGS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_cut_anywhere_it_is_the_same_log(tmp_path: Path, name: str, data: st.DataObject) -> None:
    format, line = LOGS[name]
    wanted = WANTED.get(name, ["time", "remote_addr", "path", "status"])
    text = b"." * (name == "combined") + b"\n".join(data.draw(st.lists(line, max_size=25)))
    text += data.draw(st.sampled_from([b"", b"\n", b"\r\n"]))
    path = tmp_path / "access.log"
    path.write_bytes(text)
    whole = look_at(str(path))
    if whole.packed:
        return
    offsets = sorted(data.draw(st.lists(st.integers(1, max(1, len(text) - 1)), max_size=8, unique=True)))
    parts = cut(whole, offsets if len(text) > 1 else [], format)
    rows, counts, samples = _scanned(parts, format, wanted)
    assert (rows, counts, samples) == _scanned([whole], format, wanted)
    model_rows, rejected, directives = _model(text, format, wanted)
    assert rows == model_rows
    assert (counts.rejected, counts.directives) == (rejected, directives)
    assert counts.lines == counts.parsed + counts.rejected.total() + counts.directives


def test_splits_are_as_large_as_asked_and_packed_files_whole(tmp_path: Path) -> None:
    log = (LINE % (1, 2, 3, 4, 5) + b"\n") * 100
    (tmp_path / "access.log").write_bytes(log)
    (tmp_path / "access.log.1.gz").write_bytes(gzip.compress(log))
    (tmp_path / "access.log.2").write_bytes(b"")
    format = find("combined")
    paths = local_files([f"file:{tmp_path}/access.log*", tmp_path / "access.log"])
    found = plan_splits(paths, format, split_bytes=4096)
    plain = [split for split in found if not split.packed]
    assert [(split.start, split.stop) for split in plain][:2] == [(0, 4096), (4096, 8192)]
    assert plain[-1].stop == len(log)
    assert [Path(split.path).name for split in found if split.packed] == ["access.log.1.gz"]
    rows, counts, _ = _scanned(found, format, ["path"])
    assert len(rows) == counts.parsed == 200
    assert all(sum(each.weight for each in task) <= 8192 or len(task) == 1 for task in tasks(found, 8192))
    assert [split for task in tasks(found, 8192) for split in task] == found


def test_what_cannot_be_split_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="no regular file"):
        look_at(str(tmp_path / "pipe"))
    refused = {"-": "standard input", "hdfs://host/x": "hdfs: is not read", f"{tmp_path}/none": "no such file"}
    for path, message in refused.items():
        with pytest.raises(InputError, match=message):
            local_files([path])
    with pytest.raises(ValueError, match="smallest"):
        plan_splits([], find("combined"), split_bytes=10)


@pytest.mark.parametrize("packed", [False, True])
def test_a_file_that_is_another_one_is_not_read(tmp_path: Path, packed: bool) -> None:
    path = tmp_path / "access.log"
    pack = gzip.compress if packed else bytes
    path.write_bytes(pack(LINE % (1, 2, 3, 4, 5) + b"\n"))
    split = look_at(str(path))
    path.write_bytes(pack(LINE % (9, 2, 3, 4, 5) + b"\n") + (b"more" if packed else b""))
    with pytest.raises(InputError, match="another file"):
        list(SplitScan(split, find("combined"), ["path"]))


MINUTE_US = 60_000_000
START_US = 1_710_406_800_000_000  # 2024-03-14 09:00:00


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_bytes_left_out_by_time_have_no_line_of_the_range(tmp_path: Path, data: st.DataObject) -> None:
    """Lines out of order by up to the promise, junk between: what is asked for is all there."""
    disorder = data.draw(st.integers(0, 10))
    rng = Random(data.draw(st.integers(0, 1 << 30)))
    minutes = sorted(rng.randrange(60) for _ in range(400))
    lines = [LINE % (1, max(0, minute - rng.randint(0, disorder)), 0, 1, 1) for minute in minutes]
    junk = data.draw(st.sampled_from([0, 0.2, 0.9]))
    text = b"\n".join(b"junk" if rng.random() < junk else line for line in lines)
    path = tmp_path / "access.log"
    path.write_bytes(text)
    first, last = sorted(data.draw(st.tuples(st.integers(0, 60), st.integers(0, 60))))
    times = TimeRange(START_US + first * MINUTE_US, START_US + last * MINUTE_US, disorder * MINUTE_US)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(splits_module, "SEARCH_BYTES", 512)
        found = plan_splits([str(path)], find("combined"), split_bytes=4096, times=times)

    def inside(splits: Sequence[Split]) -> list[int]:
        rows = _scanned(splits, find("combined"), ["time"])[0]
        return [time for (time,) in rows if (times.start_us or 0) <= time < (times.end_us or 0)]

    assert inside(found) == inside([look_at(str(path))])
    if junk == 0 and disorder == 0 and last - first < 10:
        assert sum(split.stop - split.start for split in found) < len(text) / 2


def test_without_a_promise_nothing_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_bytes(LINE % (1, 30, 0, 1, 1) + b"\n" + LINE % (1, 5, 0, 1, 1) + b"\n" + LINE % (1, 30, 0, 1, 1))
    times = TimeRange(START_US, START_US + 6 * MINUTE_US)
    assert plan_splits([str(path)], find("combined"), times=times) == [look_at(str(path))]
    packed = tmp_path / "access.log.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert plan_splits([str(packed)], find("combined"), times=times) == [look_at(str(packed))]
    for one in (path, packed):
        assert plan_splits([str(one)], find("combined"), times=times._replace(disorder_us=0)) == []
