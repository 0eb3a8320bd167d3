"""Times of log lines: strptime-like layouts, compiled once and read digit by digit.

Every part is checked (docs/SCAN.md lists the directives and their ranges). The second 60 is a leap second and means the
next second. A text that names no time between the years 1 and 9999 is no time.
"""

from libc.stdint cimport uint32_t

cdef extern from *:
    """
    static const char *const scan_months[12] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct",
                                                "Nov", "Dec"};
    static const char *const scan_month_names[12] = {"January", "February", "March", "April", "May", "June", "July",
                                                     "August", "September", "October", "November", "December"};
    static const char *const scan_days[7] = {"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"};
    static const char *const scan_day_names[7] = {"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday",
                                                  "Sunday"};
    static const int scan_month_days[12] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    """
    const char* const* MONTHS "scan_months"
    const char* const* MONTH_NAMES "scan_month_names"
    const char* const* DAYS "scan_days"
    const char* const* DAY_NAMES "scan_day_names"
    const int* MONTH_DAYS "scan_month_days"

CLF = b"%d/%b/%Y:%H:%M:%S %z"

DIRECTIVES = frozenset(b"dmbBYyHMSfzsLUaApIejN+%")

cdef enum:
    NO_PAIR = 100000  # beyond the range of every part of a time

cdef struct Reader:
    const uint8_t* p
    const uint8_t* end
    int year
    int month
    int day
    int day_of_year  # 0: not given
    int hour
    int hour_12      # -1: not given
    int minute
    int second
    int micro
    int afternoon    # -1: not given
    int zone_s
    int64_t epoch_us
    bint has_epoch
    bint zoned       # names an instant


cdef int compile_layout(bytes layout, TimeLayout* out) except -1:
    cdef bytes spread = layout.replace(b"%T", b"%H:%M:%S")
    cdef Py_ssize_t i = 0, size = len(spread)
    cdef int letter
    out.count = 0
    out.fixed = True
    out.has_zone = False
    out.clf = spread == CLF
    while i < size:
        if out.count == TIME_OPS_MAX:
            raise ValueError(f"the time layout {layout!r} has more than {TIME_OPS_MAX} parts")
        letter = spread[i]
        out.ops[out.count] = 0
        out.literals[out.count] = <uint8_t>letter
        i += 1
        if letter == c"%":
            letter = spread[i] if i < size else 0
            i += 1
            if letter not in DIRECTIVES:
                raise ValueError(f"the time layout {layout!r} has an unknown directive %{chr(letter) if letter else ''}")
            if letter != c"%":
                out.ops[out.count] = <uint8_t>letter
            if letter in b"fsLUeBN+":
                out.fixed = False
            if letter in b"zsLU+":
                out.has_zone = True
        out.count += 1
    if out.count == 0:
        raise ValueError("a time needs a layout")
    return 0


cdef int64_t days_from_civil(int64_t year, int month, int day) noexcept nogil:
    # Days since 1970-01-01 in the proleptic Gregorian calendar; H. Hinnant, "chrono-Compatible Low-Level Date
    # Algorithms". Years here are 0 and up, so divisions need no care.
    cdef int64_t y = year - 1 if month <= 2 else year
    cdef int64_t era = y // 400
    cdef int64_t year_of_era = y - era * 400
    cdef int64_t shifted = month - 3 if month > 2 else month + 9
    cdef int64_t day_of_year = (153 * shifted + 2) // 5 + day - 1
    return era * 146097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719468


cdef inline bint is_leap(int year) noexcept nogil:
    if year % 4 != 0:
        return False
    if year % 100 != 0:
        return True
    return year % 400 == 0


cdef inline int month_days(int year, int month) noexcept nogil:
    return 29 if month == 2 and is_leap(year) else MONTH_DAYS[month - 1]


cdef inline int digit_at(const uint8_t* p) noexcept nogil:  # 0-9, more when it is no digit
    return <int><uint8_t>(p[0] - 48)


cdef TimeResult digits(Reader* r, int count, int low, int high, int* out) noexcept nogil:
    # Exactly `count` digits that make a number in [low, high].
    cdef int i, value = 0
    for i in range(count):
        if r.p == r.end:
            return TIME_SHORT
        if digit_at(r.p) > 9:
            return TIME_BAD
        value = value * 10 + digit_at(r.p)
        r.p += 1
    out[0] = value
    return TIME_OK if low <= value <= high else TIME_BAD


cdef TimeResult name(Reader* r, const char* const* names, int count, int* out) noexcept nogil:
    # One of `names`, exactly as written there; the longest that fits.
    cdef int i, best = -1
    cdef Py_ssize_t n, best_size = 0, left = r.end - r.p
    cdef bint cut = False
    for i in range(count):
        n = 0
        while n < left and names[i][n] != 0 and <uint8_t>names[i][n] == r.p[n]:
            n += 1
        if names[i][n] == 0:
            if n > best_size:
                best = i
                best_size = n
        elif n == left:
            cut = True
    if best < 0:
        return TIME_SHORT if cut else TIME_BAD
    r.p += best_size
    out[0] = best
    return TIME_OK


cdef TimeResult fraction(Reader* r) noexcept nogil:
    # 1 to 9 digits behind the second; what is finer than a microsecond is cut off.
    cdef int count = 0, value = 0
    while count < 9 and r.p < r.end and digit_at(r.p) <= 9:
        if count < 6:
            value = value * 10 + digit_at(r.p)
        r.p += 1
        count += 1
    if count == 0:
        return TIME_SHORT if r.p == r.end else TIME_BAD
    while count < 6:
        value *= 10
        count += 1
    r.micro = value
    return TIME_OK


cdef TimeResult zone(Reader* r) noexcept nogil:
    cdef int sign, hours = 0, minutes = 0
    cdef TimeResult result
    if r.p == r.end:
        return TIME_SHORT
    if r.p[0] == c"Z":
        r.p += 1
        r.zone_s = 0
        r.zoned = True
        return TIME_OK
    if r.p[0] == c"+":
        sign = 1
    elif r.p[0] == c"-":
        sign = -1
    else:
        return TIME_BAD
    r.p += 1
    r.zoned = True
    result = digits(r, 2, 0, 23, &hours)
    if result != TIME_OK:
        return result
    if r.p < r.end and r.p[0] == c":":
        r.p += 1
    result = digits(r, 2, 0, 59, &minutes)
    r.zone_s = sign * (hours * 3600 + minutes * 60)
    return result


cdef TimeResult epoch(Reader* r, int64_t unit_us) noexcept nogil:
    # Whole units since 1970, at most up to the year 9999; seconds may have a fraction.
    cdef int64_t value = 0, limit = MICROS_MAX // unit_us
    cdef int count = 0
    cdef TimeResult result
    while r.p < r.end and digit_at(r.p) <= 9:
        value = value * 10 + digit_at(r.p)
        if value > limit:
            return TIME_BAD
        r.p += 1
        count += 1
    if count == 0:
        return TIME_SHORT if r.p == r.end else TIME_BAD
    r.has_epoch = r.zoned = True
    r.epoch_us = value * unit_us
    if unit_us == MICROS and r.p < r.end and r.p[0] == c".":
        r.p += 1
        result = fraction(r)
        if result != TIME_OK:
            return result
        while r.p < r.end and digit_at(r.p) <= 9:
            r.p += 1
        r.epoch_us += r.micro
        r.micro = 0
    return TIME_OK


cdef TimeResult optional_fraction(Reader* r) noexcept nogil:
    if r.p == r.end or r.p[0] != c".":
        return TIME_OK
    r.p += 1
    return fraction(r)


cdef TimeResult sequence(Reader* r, const char* script) noexcept nogil:
    # Letters are directives, all else must stand there.
    cdef int i = 0
    cdef TimeResult result
    while script[i] != 0:
        if c"A" <= (script[i] & 0xDF) <= c"Z":
            result = directive(r, script[i])
            if result != TIME_OK:
                return result
        elif r.p == r.end:
            return TIME_SHORT
        elif r.p[0] != <uint8_t>script[i]:
            return TIME_BAD
        else:
            r.p += 1
        i += 1
    return TIME_OK


cdef TimeResult usual_epoch(Reader* r) noexcept nogil:
    # The number of digits tells the unit: seconds have at most 11 until the year 5138.
    cdef int count = 0
    cdef const uint8_t* end = r.end
    cdef TimeResult result
    while r.p + count < end and count < 21 and digit_at(r.p + count) <= 9:
        count += 1
    if count <= 11:
        return epoch(r, MICROS)
    if count <= 14:
        result = epoch(r, 1000)
    elif count <= 17:
        result = epoch(r, 1)
    else:  # nanoseconds: the last three digits are cut off
        r.end = r.p + count - 3
        result = epoch(r, 1)
        r.end = end
        r.p += 3 if result == TIME_OK else 0
    if result == TIME_OK and r.p < end and r.p[0] == c".":
        r.p += 1
        while r.p < end and digit_at(r.p) <= 9:
            r.p += 1
    return result


cdef TimeResult usual_time(Reader* r) noexcept nogil:
    cdef TimeResult result
    if r.end - r.p > 2 and r.p[2] == c"/":
        return sequence(r, "d/b/Y:H:M:S z")
    if r.end - r.p <= 4 or (r.p[4] != c"-" and r.p[4] != c"/"):
        return usual_epoch(r)
    result = sequence(r, "Y-m-d" if r.p[4] == c"-" else "Y/m/d")
    if result != TIME_OK or r.p == r.end or (r.p[0] != c"T" and r.p[0] != c" "):
        return result
    r.p += 1
    result = sequence(r, "H:M:SN")
    if result != TIME_OK or r.p == r.end:
        return result
    if r.p[0] == c"Z" or r.p[0] == c"+" or r.p[0] == c"-":
        return zone(r)
    return TIME_OK


cdef TimeResult directive(Reader* r, int letter) noexcept nogil:
    cdef int index = 0
    cdef TimeResult result = TIME_OK
    if letter == c"d":
        return digits(r, 2, 1, 31, &r.day)
    elif letter == c"e":
        if r.p < r.end and r.p[0] == c" ":
            r.p += 1
            return digits(r, 1, 1, 9, &r.day)
        if r.end - r.p >= 2 and digit_at(r.p + 1) <= 9:
            return digits(r, 2, 1, 31, &r.day)
        return digits(r, 1, 1, 9, &r.day)
    elif letter == c"m":
        return digits(r, 2, 1, 12, &r.month)
    elif letter == c"b" or letter == c"B":
        result = name(r, MONTHS if letter == c"b" else MONTH_NAMES, 12, &index)
        r.month = index + 1
    elif letter == c"Y":
        return digits(r, 4, 1, 9999, &r.year)
    elif letter == c"y":
        result = digits(r, 2, 0, 99, &index)
        r.year = index + (1900 if index >= 69 else 2000)
    elif letter == c"H":
        return digits(r, 2, 0, 23, &r.hour)
    elif letter == c"I":
        return digits(r, 2, 1, 12, &r.hour_12)
    elif letter == c"M":
        return digits(r, 2, 0, 59, &r.minute)
    elif letter == c"S":
        return digits(r, 2, 0, 60, &r.second)
    elif letter == c"f":
        return fraction(r)
    elif letter == c"N":
        return optional_fraction(r)
    elif letter == c"+":
        return usual_time(r)
    elif letter == c"z":
        return zone(r)
    elif letter == c"s":
        return epoch(r, MICROS)
    elif letter == c"L":
        return epoch(r, 1000)
    elif letter == c"U":
        return epoch(r, 1)
    elif letter == c"j":
        return digits(r, 3, 1, 366, &r.day_of_year)
    elif letter == c"p":
        if r.p == r.end:
            return TIME_SHORT
        if r.p[0] != c"A" and r.p[0] != c"P":
            return TIME_BAD
        r.afternoon = r.p[0] == c"P"
        r.p += 1
        if r.p == r.end:
            return TIME_SHORT
        if r.p[0] != c"M":
            return TIME_BAD
        r.p += 1
    else:
        result = name(r, DAYS if letter == c"a" else DAY_NAMES, 7, &index)
    return result


cdef TimeResult assemble(Reader* r, int64_t* micros) noexcept nogil:
    cdef int64_t days, value
    cdef int hour = r.hour
    if r.has_epoch:
        value = r.epoch_us + r.micro
    else:
        if r.day_of_year > 0:
            if r.day_of_year == 366 and not is_leap(r.year):
                return TIME_BAD
            days = days_from_civil(r.year, 1, 1) + r.day_of_year - 1
        else:
            if r.day > month_days(r.year, r.month):
                return TIME_BAD
            days = days_from_civil(r.year, r.month, r.day)
        if r.hour_12 >= 0:
            hour = r.hour_12 % 12 + (12 if r.afternoon == 1 else 0)
        value = days * DAY_US + (hour * 3600 + r.minute * 60 + r.second) * MICROS + r.micro
    value -= r.zone_s * MICROS
    micros[0] = value
    return TIME_OK if MICROS_MIN <= value <= MICROS_MAX else TIME_BAD


cdef inline int pair(const uint8_t* p) noexcept nogil:  # two digits as a number; NO_PAIR when they are none
    cdef int tens = digit_at(p), ones = digit_at(p + 1)
    return tens * 10 + ones if tens <= 9 and ones <= 9 else NO_PAIR


cdef inline int month_at(const uint8_t* p) noexcept nogil:
    # 1 to 12, 0: none. The three letters as one number, so that each candidate is one comparison.
    cdef uint32_t letters = (<uint32_t>p[0] << 16) | (<uint32_t>p[1] << 8) | p[2]
    cdef int i
    for i in range(12):
        if letters == ((<uint32_t>MONTHS[i][0] << 16) | (<uint32_t>MONTHS[i][1] << 8) | <uint32_t>MONTHS[i][2]):
            return i + 1
    return 0


cdef bint read_clf(const uint8_t* p, int64_t* micros) noexcept nogil:
    # 26 readable bytes in the layout of the common log format; False: let the slow way say what is wrong.
    cdef int day = pair(p), month = month_at(p + 3), year = pair(p + 7) * 100 + pair(p + 9)
    cdef int hour = pair(p + 12), minute = pair(p + 15), second = pair(p + 18)
    cdef int zone_hours = pair(p + 22), zone_minutes = pair(p + 24)
    cdef int64_t seconds, zone_s
    if p[2] != c"/" or p[6] != c"/" or p[11] != c":" or p[14] != c":" or p[17] != c":" or p[20] != c" ":
        return False
    if month == 0 or year > 9999 or year < 1 or hour > 23 or minute > 59 or second > 60:
        return False
    if day < 1 or day > month_days(year, month) or zone_hours > 23 or zone_minutes > 59:
        return False
    zone_s = zone_hours * 3600 + zone_minutes * 60
    if p[21] == c"-":
        zone_s = -zone_s
    elif p[21] != c"+":
        return False
    seconds = days_from_civil(year, month, day) * 86400 + hour * 3600 + minute * 60 + second - zone_s
    micros[0] = seconds * MICROS
    return MICROS_MIN <= micros[0] <= MICROS_MAX


cdef int64_t to_utc(const Zone* zone, int64_t micros) noexcept nogil:
    # The last change whose start is not later than `micros`, by bisection.
    cdef int low = 0, high = zone.count, middle
    while low < high:
        middle = (low + high) // 2
        if zone.starts[middle] <= micros:
            low = middle + 1
        else:
            high = middle
    return micros - (zone.first_us if low == 0 else zone.offsets_us[low - 1])


cdef TimeResult read_layout(const TimeLayout* layout, const uint8_t* p, const uint8_t* end, const uint8_t** stop,
                            int64_t* micros, bint* zoned) noexcept nogil:
    cdef Reader r
    cdef TimeResult result
    cdef int i
    if layout.clf and end - p >= CLF_BYTES:
        if read_clf(p, micros):
            stop[0] = p + CLF_BYTES
            zoned[0] = True
            return TIME_OK
    r.p = p
    r.end = end
    r.year, r.month, r.day, r.day_of_year = 1970, 1, 1, 0
    r.hour, r.hour_12, r.minute, r.second, r.micro, r.afternoon = 0, -1, 0, 0, 0, -1
    r.zone_s, r.epoch_us, r.has_epoch, r.zoned = 0, 0, False, False
    for i in range(layout.count):
        if layout.ops[i] != 0:
            result = directive(&r, layout.ops[i])
        elif r.p == end:
            result = TIME_SHORT
        else:
            result = TIME_OK if r.p[0] == layout.literals[i] else TIME_BAD
            r.p += result == TIME_OK
        if result != TIME_OK:
            stop[0] = r.p
            return result
    stop[0] = r.p
    zoned[0] = r.zoned
    return assemble(&r, micros)


def parse_time(bytes layout, bytes text):
    """The microseconds since 1970 (UTC where the text names an instant) that the whole of `text` says, or None."""
    cdef TimeLayout compiled
    cdef const uint8_t* p = <const uint8_t*><const char*>text
    cdef const uint8_t* stop = p
    cdef int64_t micros = 0
    cdef bint zoned = False
    compile_layout(layout, &compiled)
    if read_layout(&compiled, p, p + len(text), &stop, &micros, &zoned) != TIME_OK:
        return None
    return micros if stop == p + len(text) else None
