# Days and civil dates in the proleptic Gregorian calendar, after Howard Hinnant's "chrono-Compatible Low-Level Date
# Algorithms" (public domain). Days count from 1970-01-01; years may be zero or negative; valid for all of int32's days
# and far beyond what a TIMESTAMP can hold.
from libc.stdint cimport int64_t

cdef enum:
    US_PER_SECOND = 1000000
    SECONDS_PER_DAY = 86400

cdef struct Civil:
    int64_t year
    int month  # 1 to 12
    int day    # 1 to 31


cdef inline int64_t floor_div(int64_t a, int64_t b) noexcept nogil:  # b > 0
    cdef int64_t q = a / b
    return q - 1 if a % b < 0 else q


cdef inline int64_t floor_mod(int64_t a, int64_t b) noexcept nogil:  # b > 0
    cdef int64_t r = a % b
    return r + b if r < 0 else r


cdef inline int64_t us_per_day() noexcept nogil:
    return <int64_t>86400 * 1000000


cdef inline Civil civil_from_days(int64_t days) noexcept nogil:
    cdef int64_t z = days + 719468                      # from 0000-03-01
    cdef int64_t era = floor_div(z, 146097)             # of 400 years
    cdef int64_t doe = z - era * 146097                 # day of era
    cdef int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365
    cdef int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100)  # from March 1
    cdef int64_t mp = (5 * doy + 2) / 153
    cdef Civil out
    out.day = <int>(doy - (153 * mp + 2) / 5 + 1)
    out.month = <int>(mp + 3 if mp < 10 else mp - 9)
    out.year = yoe + era * 400 + (1 if out.month <= 2 else 0)
    return out


cdef inline int64_t days_from_civil(int64_t year, int month, int day) noexcept nogil:
    cdef int64_t y = year - (1 if month <= 2 else 0)
    cdef int64_t era = floor_div(y, 400)
    cdef int64_t yoe = y - era * 400
    cdef int64_t doy = (153 * (month + (-3 if month > 2 else 9)) + 2) / 5 + day - 1
    cdef int64_t doe = yoe * 365 + yoe / 4 - yoe / 100 + doy
    return era * 146097 + doe - 719468


cdef inline bint is_leap(int64_t year) noexcept nogil:
    if year % 4 != 0:
        return False
    return year % 100 != 0 or year % 400 == 0


cdef inline int days_in_month(int64_t year, int month) noexcept nogil:
    if month == 2:
        return 29 if is_leap(year) else 28
    if month == 4 or month == 6 or month == 9 or month == 11:
        return 30
    return 31
