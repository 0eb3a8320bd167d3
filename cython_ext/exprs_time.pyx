"""TIMESTAMPs: microseconds since 1970-01-01 UTC, in the proleptic Gregorian calendar."""

from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t

from cython_ext.civil cimport (
    US_PER_SECOND, Civil, civil_from_days, days_from_civil, floor_div, floor_mod, us_per_day,
)
from cython_ext.column cimport K_BIGINT, K_BOOLEAN, K_DECIMAL, K_DOUBLE, K_TIMESTAMP, Column, i128, new_column
from cython_ext.exprs_result cimport Failures, expect, result1

cdef extern from "int128.h" nogil:
    bint decimal_micros(i128 seconds, int scale, bint exact, int64_t* out)

PARTS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DAYOFWEEK", "DAYOFYEAR", "HOUR", "MINUTE", "SECOND")
"""What `part` can take; its argument is an index into this tuple."""
UNITS = ("MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR")
"""What `truncate` can truncate to; its argument is an index into this tuple."""

cdef enum:
    P_YEAR = 0
    P_QUARTER = 1
    P_MONTH = 2
    P_WEEK = 3
    P_DAY = 4
    P_DAYOFWEEK = 5
    P_DAYOFYEAR = 6
    P_HOUR = 7
    P_MINUTE = 8
    P_SECOND = 9
    U_DAY = 5
    U_WEEK = 6
    U_MONTH = 7
    U_QUARTER = 8
    U_YEAR = 9


cdef int _mark_failed(Column out, Py_ssize_t row) except -1 with gil:
    out.need_valid()
    out.valid[row] = 0
    return 0


def pane_start(Column time not None, int64_t pane_us):
    """The start of the pane of `pane_us` that each row lies in, panes aligned to 1970-01-01; NULL stays NULL.

    A pane that would start before the least TIMESTAMP gives NULL. O(rows); rows in time order need no
    division.
    """
    expect(time, K_TIMESTAMP)
    if pane_us <= 0:
        raise ValueError(f"panes of {pane_us} microseconds")
    cdef Column out = result1(K_TIMESTAMP, time)
    _floor_to(time, out, pane_us)
    return out


def latest(Column time not None):
    """The greatest TIMESTAMP in microseconds, or None when there is none. O(rows)."""
    expect(time, K_TIMESTAMP)
    cdef int64_t* values = time.longs()
    cdef int64_t greatest = INT64_MIN
    cdef Py_ssize_t row
    cdef bint found = False
    with nogil:
        for row in range(time.stored()):
            if time.valid == NULL or time.valid[row]:
                found = True
                if values[row] > greatest:
                    greatest = values[row]
    return greatest if found else None


def not_after(Column time not None, int64_t limit_us):
    """A BOOLEAN column: false where the time is later than `limit_us`, true elsewhere and for NULL. O(rows)."""
    expect(time, K_TIMESTAMP)
    cdef Column out = new_column(K_BOOLEAN, time.length, time.constant, False)
    cdef int64_t* values = time.longs()
    cdef Py_ssize_t row
    with nogil:
        for row in range(time.stored()):
            out.booleans()[row] = values[row] <= limit_us
            if time.valid != NULL:
                out.booleans()[row] |= not time.valid[row]
    return out


cdef bint _floor_to(Column time, Column out, int64_t unit) except -1:
    cdef Py_ssize_t row
    cdef int64_t value, rest, start = 0
    cdef bint failed = False
    with nogil:
        for row in range(out.stored()):
            value = time.longs()[row]
            if value < start or <int64_t>(value - start) >= unit or value - start < 0:
                rest = floor_mod(value, unit)
                if value < INT64_MIN + rest:
                    if out.valid == NULL or out.valid[row]:
                        failed = True
                        _mark_failed(out, row)
                    out.longs()[row] = INT64_MIN
                    continue
                start = value - rest
            out.longs()[row] = start
    return failed


def truncate(Column time not None, int unit, Failures failures not None):
    """date_trunc: the start of the unit `UNITS[unit]` each row lies in; weeks start on Monday. A start
    before the least TIMESTAMP fails. O(rows)."""
    expect(time, K_TIMESTAMP)
    cdef Column out = result1(K_TIMESTAMP, time)
    cdef int64_t[6] steps = [1, 1000, 1000000, 60000000, <int64_t>3600 * 1000000, us_per_day()]
    cdef bint failed
    if 0 <= unit <= U_DAY:
        failed = _floor_to(time, out, steps[unit])
    elif U_DAY < unit <= U_YEAR:
        failed = _floor_to_calendar(time, out, unit)
    else:
        raise ValueError(f"no unit {unit}")
    if failed:
        failures.add(out, [time])
    return out


cdef int64_t _calendar_start(int64_t days, int unit) noexcept nogil:
    cdef Civil date
    if unit == U_WEEK:
        return days - floor_mod(days + 3, 7)
    date = civil_from_days(days)
    if unit == U_YEAR:
        return days_from_civil(date.year, 1, 1)
    if unit == U_QUARTER:
        return days_from_civil(date.year, date.month - (date.month - 1) % 3, 1)
    return days - date.day + 1


cdef bint _floor_to_calendar(Column time, Column out, int unit) except -1:
    cdef Py_ssize_t row
    cdef int64_t days, known = INT64_MIN, start = 0, least = floor_div(INT64_MIN, us_per_day()) + 1
    cdef bint failed = False
    with nogil:
        for row in range(out.stored()):
            days = floor_div(time.longs()[row], us_per_day())
            if days != known:
                known = days
                start = _calendar_start(days, unit)
            if start >= least:
                out.longs()[row] = start * us_per_day()
            else:
                out.longs()[row] = INT64_MIN
                if out.valid == NULL or out.valid[row]:
                    failed = True
                    _mark_failed(out, row)
    return failed


cdef int64_t _iso_week(int64_t days) noexcept nogil:
    # The week's Thursday decides which year the week belongs to.
    cdef int64_t thursday = days - floor_mod(days + 3, 7) + 3
    cdef Civil date = civil_from_days(thursday)
    return (thursday - days_from_civil(date.year, 1, 1)) / 7 + 1


cdef int64_t _day_part(int64_t days, int part) noexcept nogil:
    cdef Civil date
    if part == P_WEEK:
        return _iso_week(days)
    if part == P_DAYOFWEEK:
        return floor_mod(days + 4, 7) + 1
    date = civil_from_days(days)
    if part == P_YEAR:
        return date.year
    if part == P_QUARTER:
        return (date.month + 2) / 3
    if part == P_MONTH:
        return date.month
    if part == P_DAY:
        return date.day
    return days - days_from_civil(date.year, 1, 1) + 1


def part(Column time not None, int part):
    """The part `PARTS[part]` of each TIMESTAMP, as BIGINT: ISO weeks; DAYOFWEEK counts from Sunday, 1.
    O(rows)."""
    expect(time, K_TIMESTAMP)
    if not 0 <= part <= P_SECOND:
        raise ValueError(f"no part {part}")
    cdef Column out = result1(K_BIGINT, time)
    cdef Py_ssize_t row
    cdef int64_t days, known = INT64_MIN, value = 0, second
    with nogil:
        for row in range(out.stored()):
            if part >= P_HOUR:
                second = floor_mod(floor_div(time.longs()[row], US_PER_SECOND), 86400)
                if part == P_HOUR:
                    out.longs()[row] = second / 3600
                else:
                    out.longs()[row] = second / 60 % 60 if part == P_MINUTE else second % 60
                continue
            days = floor_div(time.longs()[row], us_per_day())
            if days != known:
                known = days
                value = _day_part(days, part)
            out.longs()[row] = value
    return out


def unix_micros(Column time not None):
    """Microseconds since 1970 as BIGINT. O(rows)."""
    expect(time, K_TIMESTAMP)
    cdef Column out = result1(K_BIGINT, time)
    cdef Py_ssize_t row
    for row in range(out.stored()):
        out.longs()[row] = time.longs()[row]
    return out


def unix_seconds(Column time not None):
    """Whole seconds since 1970, towards the past, as BIGINT: also what cast(time AS BIGINT) means.
    O(rows)."""
    expect(time, K_TIMESTAMP)
    cdef Column out = result1(K_BIGINT, time)
    cdef Py_ssize_t row
    for row in range(out.stored()):
        out.longs()[row] = floor_div(time.longs()[row], US_PER_SECOND)
    return out


def seconds_of_bigint(Column a not None, bint saturating, Failures failures not None):
    """BIGINT seconds as TIMESTAMP. Beyond its range the value fails, or where `saturating` (as Spark's
    cast) becomes the least or greatest TIMESTAMP. O(rows)."""
    expect(a, K_BIGINT)
    cdef Column out = result1(K_TIMESTAMP, a)
    cdef Py_ssize_t row
    cdef int64_t value, limit = INT64_MAX / US_PER_SECOND
    cdef bint failed = False
    for row in range(out.stored()):
        value = a.longs()[row]
        if -limit <= value <= limit:
            out.longs()[row] = value * US_PER_SECOND
        else:
            out.longs()[row] = INT64_MAX if value > 0 else INT64_MIN
            if not saturating:
                failed = True
                _mark_failed(out, row)
    if failed:
        failures.add(out, [a])
    return out


def seconds_of_double(Column a not None, bint saturating, Failures failures not None):
    """DOUBLE seconds as TIMESTAMP, cut to microseconds. NaN fails, infinities too; a value beyond the range
    fails unless `saturating` (as Spark's timestamp_seconds). O(rows)."""
    expect(a, K_DOUBLE)
    cdef Column out = result1(K_TIMESTAMP, a)
    cdef Py_ssize_t row
    cdef double value, given
    cdef bint failed = False, bad
    for row in range(out.stored()):
        given = a.doubles()[row]
        value = given * 1000000.0
        bad = given - given != 0.0  # NaN, infinite
        if -9223372036854775808.0 <= value < 9223372036854775808.0:
            out.longs()[row] = <int64_t>value
        else:
            out.longs()[row] = INT64_MAX if value > 0 else INT64_MIN
            bad |= not saturating and value != 9223372036854775808.0
        if bad:
            failed = True
            _mark_failed(out, row)
    if failed:
        failures.add(out, [a])
    return out


def seconds_of_decimal(Column a not None, int scale, bint exact, Failures failures not None):
    """DECIMAL seconds as TIMESTAMP, cut to microseconds, or failing where that loses digits and `exact` (as
    Spark's timestamp_seconds). Beyond the range it fails. O(rows)."""
    expect(a, K_DECIMAL)
    cdef Column out = result1(K_TIMESTAMP, a)
    cdef Py_ssize_t row
    cdef bint failed = False
    if not 0 <= scale <= 38:
        raise ValueError(f"a scale of {scale}")
    for row in range(out.stored()):
        if out.valid != NULL and not out.valid[row]:
            continue
        if decimal_micros(a.decimals()[row], scale, exact, &out.longs()[row]):
            failed = True
            _mark_failed(out, row)
    if failed:
        failures.add(out, [a])
    return out
