"""Time layouts, directive by directive, and that Python's datetime agrees."""

from __future__ import annotations

import calendar
from datetime import UTC, datetime, timedelta

import pytest

from cython_ext.scan import Scanner
from cython_ext.scan_code import REASONS, KernelContent, KernelExtent
from cython_ext.scan_number import parse_double
from cython_ext.scan_time import parse_time
from cython_ext.scan_value import escape_bytes
from job.formats.program import REJECT_REASONS, Content, Extent, Step
from tests.scan_cases import CLF_TIME, line_program


def micros(*parts: int) -> int:
    return (datetime(*parts, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)  # type: ignore[arg-type, misc]


def test_the_kernel_counts_as_the_contract_does() -> None:
    assert REASONS == REJECT_REASONS
    assert {e.name: e.value for e in KernelExtent} == {e.name: e.value for e in Extent}
    assert {c.name: c.value for c in KernelContent} == {c.name: c.value for c in Content}


@pytest.mark.parametrize(
    ("layout", "text", "expected"),
    [
        (CLF_TIME, b"10/Oct/2000:13:55:36 -0700", micros(2000, 10, 10, 20, 55, 36)),
        (CLF_TIME, b"09/Oct/2021:03:18:27 +0545", micros(2021, 10, 8, 21, 33, 27)),
        (CLF_TIME, b"29/Feb/2016:23:59:60 +0000", micros(2016, 3, 1)),
        (CLF_TIME, b"10/Oct/2000:13:55:36 Z", micros(2000, 10, 10, 13, 55, 36)),
        (CLF_TIME, b"29/Feb/2015:00:00:00 +0000", None),
        (CLF_TIME, b"29/Feb/1900:00:00:00 +0000", None),
        (CLF_TIME, b"31/Apr/2015:00:00:00 +0000", None),
        (CLF_TIME, b"00/Oct/2000:13:55:36 +0000", None),
        (CLF_TIME, b"10/oct/2000:13:55:36 +0000", None),
        (CLF_TIME, b"10/Oct/0000:13:55:36 +0000", None),
        (CLF_TIME, b"10/Oct/20a0:13:55:36 +0000", None),
        (CLF_TIME, b"10/Oct/2000:24:00:00 +0000", None),
        (CLF_TIME, b"10/Oct/2000:23:60:00 +0000", None),
        (CLF_TIME, b"10/Oct/2000:23:00:61 +0000", None),
        (CLF_TIME, b"10/Oct/2000:23:00:00 +2400", None),
        (CLF_TIME, b"10/Oct/2000:23:00:00 +0060", None),
        (CLF_TIME, b"10/Oct/2000:23:00:00 00000", None),
        (CLF_TIME, b"10-Oct-2000:23:00:00 +0000", None),
        (CLF_TIME, b"01/Jan/0001:00:00:00 +0000", micros(1, 1, 1)),
        (CLF_TIME, b"01/Jan/0001:00:00:00 +0001", None),
        (CLF_TIME, b"31/Dec/9999:23:59:59 +0000", micros(9999, 12, 31, 23, 59, 59)),
        (CLF_TIME, b"31/Dec/9999:23:59:60 +0000", None),
        (b"%Y-%m-%dT%H:%M:%S.%f%z", b"2024-01-31T22:10:40.055Z", micros(2024, 1, 31, 22, 10, 40, 55000)),
        (b"%Y-%m-%dT%T.%f%z", b"2024-01-31T22:10:40.1234569+01:30", micros(2024, 1, 31, 20, 40, 40, 123456)),
        (b"%Y-%m-%dT%T.%f", b"2024-01-31T22:10:40.", None),
        (b"%s", b"1711884605.5", micros(2024, 3, 31, 11, 30, 5, 500000)),
        (b"%s", b"253402300799.999999", micros(9999, 12, 31, 23, 59, 59, 999999)),
        (b"%s", b"253402300800", None),
        (b"%s", b"9" * 40, None),
        (b"%s", b"-1", None),
        (b"%s", b"1.", None),
        (b"%L", b"1711884605500", micros(2024, 3, 31, 11, 30, 5, 500000)),
        (b"%U", b"1711884605500001", micros(2024, 3, 31, 11, 30, 5, 500001)),
        (b"%a, %d %b %Y %I:%M %p", b"Tue, 05 Nov 2024 12:30 AM", micros(2024, 11, 5, 0, 30)),
        (b"%A %d %B %y %I %p", b"Sunday 05 May 68 01 PM", micros(2068, 5, 5, 13)),
        (b"%d.%m.%y", b"05.05.69", micros(1969, 5, 5)),
        (b"%j %Y", b"366 2016", micros(2016, 12, 31)),
        (b"%j %Y", b"366 2015", None),
        (b"%b %e %H", b"Nov  5 07", micros(1970, 11, 5, 7)),
        (b"%b %e %H", b"Nov 15 07", micros(1970, 11, 15, 7)),
        (b"%b %e %H", b"Nov 5 07", micros(1970, 11, 5, 7)),
        (b"%H%%%M", b"07%30", micros(1970, 1, 1, 7, 30)),
        (b"%H:%M", b"07:3", None),
        (b"%H:%M", b"07:30 ", None),
    ],
)
def test_layouts(layout: bytes, text: bytes, expected: int | None) -> None:
    assert parse_time(layout, text) == expected


def test_every_day_of_four_centuries() -> None:
    day = datetime(1899, 12, 31, tzinfo=UTC)
    while day.year < 2301:
        day += timedelta(1)
        text = day.strftime("%d/%b/%Y:06:07:08 +0000").encode()
        assert parse_time(CLF_TIME, text) == (calendar.timegm(day.timetuple()) + 22028) * 1_000_000
        assert parse_time(b"%j.%Y", day.strftime("%j.%Y").encode()) == calendar.timegm(day.timetuple()) * 1_000_000


def test_the_remembered_time_is_only_used_for_the_same_text() -> None:
    program = line_program(
        Step(Extent.SELF, Content.TIME, ("time",), b"|", layout=b"%H:%M"), Step(Extent.TEXT, Content.TEXT, ())
    )
    batch = Scanner(program, ["time"]).scan(b"07:30|\n07:30|\n07:31|\n07:30\n07:3|\n07:30|\n25:00|\n07:30|")
    minutes = [value // 60_000_000 for value in batch.columns[0].to_list()]
    assert minutes == [450, 450, 451, 450, 450]
    assert batch.rejected == {"truncated": 1, "bad_time": 2}


def test_epochs_of_growing_length_are_not_mixed_up() -> None:
    program = line_program(Step(Extent.SELF, Content.TIME, ("time",), layout=b"%s"))
    batch = Scanner(program, ["time"]).scan(b"17\n171\n17\n17.5\n")
    assert batch.columns[0].to_list() == [17_000_000, 171_000_000, 17_000_000, 17_500_000]


def test_times_without_a_zone_take_the_program_s() -> None:
    step = Step(Extent.SELF, Content.TIME, ("time",), layout=b"%Y-%m-%d %H")
    for offset in (0, 3600, -45000):
        batch = Scanner(line_program(step, zone_offset_s=offset), ["time"]).scan(b"2024-01-31 22\n2024-01-31 22\n")
        assert batch.columns[0].to_list() == [micros(2024, 1, 31, 22) - offset * 1_000_000] * 2


@pytest.mark.parametrize(
    "text",
    [b"1", b"0.1", b"123456.789e-3", b"9007199254740993", b"1e22", b"1e23", b"5e-324", b"2.2250738585072014e-308"],
)
def test_doubles_are_the_nearest(text: bytes) -> None:
    assert parse_double(text) == float(text)
    assert parse_double(b"-" + text) == -float(text)


def test_escapes() -> None:
    every = bytes(range(256)) + "é€😀".encode() + b"\xe2\x82\xf4\x90\x80\x80"
    assert escape_bytes(every) == every.decode("utf-8", "backslashreplace").encode()
