"""Times without an offset, in the time zone of their source."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import elfstream as elf
from cython_ext import reference_scan
from cython_ext.scan import Scanner
from job.errors import FormatError
from job.formats import Format, SourceScanner, detect, explain, find, in_zone
from job.formats.format import zoned
from job.formats.program import LineProgram
from job.formats.timezones import UNZONED, Zone, find_zone

PLAIN = "%{%Y-%m-%d %H:%M:%S}t %>s"
ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "Pacific/Apia", "Asia/Kathmandu")


def times(format: Format, lines: bytes) -> list[str]:
    values: list[Any] = []
    for batch in SourceScanner(format, ["time"]).feed(lines):
        values += batch.columns[0].to_list()
    return [f"{datetime.fromtimestamp(value / 1e6, UTC):%m-%d %H:%M:%S}" for value in values]


@pytest.mark.parametrize(
    ("local", "utc"),
    [
        ("2024-01-15 12:00:00", "01-15 11:00:00"),
        ("2024-07-15 12:00:00", "07-15 10:00:00"),
        ("2024-03-31 01:59:59", "03-31 00:59:59"),
        ("2024-03-31 03:00:00", "03-31 01:00:00"),
        ("2024-03-31 02:30:00", "03-31 01:30:00"),  # left out by the clock: as if it had not changed
        ("2024-10-27 01:59:59", "10-26 23:59:59"),
        ("2024-10-27 02:30:00", "10-27 00:30:00"),  # shown twice: the first time
        ("2024-10-27 02:59:59", "10-27 00:59:59"),
        ("2024-10-27 03:00:00", "10-27 02:00:00"),
    ],
)
def test_across_changes_of_the_clock(local: str, utc: str) -> None:
    format = in_zone(find(PLAIN), "Europe/Berlin")
    assert times(format, f"{local} 200\n".encode()) == [utc]
    oracle = reference_scan.scan(zoned(format.program, format.zone), ["time"], f"{local} 200\n".encode())
    assert f"{datetime.fromtimestamp(oracle.columns[0][0] / 1e6, UTC):%m-%d %H:%M:%S}" == utc


def test_lines_next_to_each_other() -> None:
    """The same minute on the clock on both sides of a change: what one line says must not be remembered for another."""
    lines = b"2024-10-27 02:59:59 200\n2024-10-27 03:00:00 200\n2024-10-27 02:59:59 200\n"
    assert times(in_zone(find(PLAIN), "Europe/Berlin"), lines) == ["10-27 00:59:59", "10-27 02:00:00", "10-27 00:59:59"]


@settings(max_examples=300, deadline=None)
@given(name=st.sampled_from(ZONES), at=st.datetimes(datetime(1970, 1, 3), datetime(2099, 12, 30)))
def test_as_python_reads_the_zone(name: str, at: datetime) -> None:
    program = zoned(find("%{%Y-%m-%d %H:%M:%S.}t%{usec_frac}t %>s").program, find_zone(name))
    line = f"{at:%Y-%m-%d %H:%M:%S.%f} 200\n".encode()
    want = at.replace(tzinfo=ZoneInfo(name), fold=0).astimezone(UTC)
    micros = (want - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    assert Scanner(program, ["time"]).scan(line).columns[0].to_list() == [micros]
    assert reference_scan.scan(program, ["time"], line).columns == [[micros]]


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_around_each_change(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(ZONES))
    zone = find_zone(name)
    at_us = data.draw(st.sampled_from([change[0] for change in zone.changes] or [0]))
    near = datetime.fromtimestamp(at_us / 1e6, UTC) + timedelta(seconds=data.draw(st.integers(-100_000, 100_000)))
    want = near.replace(tzinfo=ZoneInfo(name), fold=0).astimezone(UTC)
    line = f"{near:%Y-%m-%d %H:%M:%S} 200\n".encode()
    micros = int(want.timestamp()) * 1_000_000
    program = zoned(find(PLAIN).program, zone)
    assert Scanner(program, ["time"]).scan(line).columns[0].to_list() == [micros]


def test_a_fixed_offset() -> None:
    assert find_zone("+02:00").offset_s == find_zone("+0200").offset_s == find_zone("+02").offset_s == 7200
    assert find_zone("-05:30").offset_s == -19_800
    assert find_zone("utc") == find_zone("Z") == UNZONED
    assert times(in_zone(find(PLAIN), "+05:30"), b"2024-01-01 05:30:00 200\n") == ["01-01 00:00:00"]


def test_date_and_time_columns_also_below_a_second_fields_line() -> None:
    lines = (
        b"#Fields: date time cs-method sc-status\n2024-07-01 12:00:00 GET 200\n"
        b"#Fields: sc-status time date\n200 12:00:00 2024-01-01\n"
    )
    assert times(in_zone(detect(lines).format, "Europe/Berlin"), lines) == ["07-01 10:00:00", "01-01 11:00:00"]
    assert times(in_zone(find("w3c"), "Europe/Berlin"), lines) == ["07-01 10:00:00", "01-01 11:00:00"]


def test_documents_say_an_offset_or_not() -> None:
    lines = b'{"time":"2024-07-01 12:00:00"}\n{"time":"2024-07-01T12:00:00Z"}\n{"time":1719835200}\n'
    assert times(in_zone(find("json"), "Europe/Berlin"), lines) == ["07-01 10:00:00", "07-01 12:00:00", "07-01 12:00:00"]


def test_haproxy_in_local_time() -> None:
    line = find("haproxy_http").sample.encode() + b"\n"
    assert times(find("haproxy_http"), line) == ["03-14 09:26:53"]
    assert times(in_zone(find("haproxy_http"), "America/New_York"), line) == ["03-14 13:26:53"]


def test_an_explained_line_has_the_same_time() -> None:
    explained = explain(in_zone(find(PLAIN), "+02:00"), b"2024-01-01 02:00:00 200")
    assert explained.steps[0].values == {"time": 1704067200 * 1_000_000}


@pytest.mark.parametrize(
    ("format", "zone", "says"),
    [
        (PLAIN, "Europe/Belrin", "no time zone called 'Europe/Belrin'. Did you mean Europe/Berlin?"),
        (PLAIN, "Berlin", "Did you mean Europe/Berlin?"),
        (PLAIN, "../etc/passwd", "no time zone called"),
        (PLAIN, "+2", "is no offset from UTC; write +02:00"),
        (PLAIN, "+24:00", "up to 23 hours"),
        (PLAIN, "", "no time zone called ''"),
        ("combined", "Europe/Berlin", "every time of the format combined says its offset"),
    ],
)
def test_errors_say_what_to_do(format: str, zone: str, says: str) -> None:
    with pytest.raises(FormatError) as caught:
        in_zone(find(format), zone)
    assert says in str(caught.value)


def test_names_in_any_case() -> None:
    assert find_zone("europe/berlin") == find_zone("Europe/Berlin")
    assert find_zone("america/new york").name == "America/New_York"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (((10, 3600), (0, 3600)), "must follow each other"),
        (((10**18, 3600),), "out of the years"),
        (((0, 100_000),), "is more than"),
        (tuple((i * 86_400_000_000, 0) for i in range(5000)), "5000 changes"),
    ],
)
def test_the_kernel_refuses_what_is_no_zone(changes: tuple[tuple[int, int], ...], says: str) -> None:
    program = find(PLAIN).program
    assert isinstance(program, LineProgram)
    with pytest.raises(ValueError, match=says):
        Scanner(zoned(program, Zone("odd", 0, changes)), ["time"])


def test_a_query_in_a_zone(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    log.write_text("".join(f"2024-10-27 0{hour}:30:00 200\n" for hour in (1, 2, 3)))
    sql = "SELECT window(time, '1 hour') AS w, count(*) AS n FROM access GROUP BY window(time, '1 hour')"
    rows = elf.query(sql, log, format=PLAIN, timezone="Europe/Berlin")
    assert [(row.w.start.isoformat(), row.n) for row in rows] == [
        *(("2024-10-26T23:00:00+00:00", 1), ("2024-10-27T00:00:00+00:00", 1), ("2024-10-27T02:00:00+00:00", 1)),
    ]
