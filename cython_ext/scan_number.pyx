"""Numbers of log lines, digit by digit, every bound checked."""

from cython_ext.scan_code cimport R_BAD_NUMBER, R_BAD_STATUS, R_OK, R_OVERFLOW
from libc.math cimport HUGE_VAL
from libc.stdint cimport uint64_t

cdef extern from *:
    """
    static const double scan_tens[23] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                         1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    static const uint64_t scan_int64_max = INT64_MAX, scan_double_exact_max = 1ULL << 53;
    static const uint64_t scan_decimal_limit = 1000000000000000000ULL; /* the first that DECIMAL(18, 6) cannot hold */
    """
    const double* TENS "scan_tens"
    const uint64_t INT64_LIMIT "scan_int64_max"
    const uint64_t EXACT_MAX "scan_double_exact_max"
    const uint64_t DECIMAL_LIMIT "scan_decimal_limit"

cdef enum:
    EXPONENT_MAX = 9999  # larger ones mean the same as this: overflow, or nothing
    EXACT_POWER_MAX = 22


cdef inline bint is_digit(uint8_t c) noexcept nogil:
    return <uint8_t>(c - 48) <= 9


cdef inline const uint8_t* skip_digits(const uint8_t* p, const uint8_t* end) noexcept nogil:
    while p < end and is_digit(p[0]):
        p += 1
    return p


cdef int parse_integer(const uint8_t* p, const uint8_t* end, const uint8_t** stop, int64_t* value) noexcept nogil:
    cdef uint64_t total = 0
    cdef const uint8_t* start = p
    cdef bint overflow = False
    while p < end and is_digit(p[0]):
        # Beyond a tenth of the range one more digit could wrap around.
        if total > INT64_LIMIT // 10:
            overflow = True
        total = total * 10 + <uint64_t>(p[0] - 48)
        if total > INT64_LIMIT:
            overflow = True
        p += 1
    stop[0] = p
    if p == start:
        return R_BAD_NUMBER
    value[0] = <int64_t>total
    return R_OVERFLOW if overflow else R_OK


cdef int parse_status(const uint8_t* p, const uint8_t* end, bint prefix, const uint8_t** stop,
                      int64_t* value) noexcept nogil:
    cdef const uint8_t* start = p
    cdef int total = 0
    while p < end and p - start < 3 and is_digit(p[0]):
        total = total * 10 + (p[0] - 48)
        p += 1
    stop[0] = p
    value[0] = total
    if p - start < 3:
        return R_BAD_STATUS
    if p < end and is_digit(p[0]) and not prefix:
        return R_BAD_STATUS
    return R_OK


cdef inline const uint8_t* skip_sign(const uint8_t* p, const uint8_t* end, bint* negative) noexcept nogil:
    negative[0] = False
    if p < end:
        if p[0] == c"-":
            negative[0] = True
            return p + 1
        if p[0] == c"+":
            return p + 1
    return p


cdef int parse_timer(const uint8_t* p, const uint8_t* end, const uint8_t** stop, int64_t* value,
                     bint* negative) noexcept nogil:
    cdef int reason = parse_integer(skip_sign(p, end, negative), end, stop, value)
    if reason == R_OVERFLOW and negative[0]:
        return R_OK
    return reason


cdef const uint8_t* read_exponent(const uint8_t* p, const uint8_t* end, int* exponent) noexcept nogil:
    # p unless an e, an optional sign and at least one digit stand there.
    cdef const uint8_t* digits
    cdef bint negative
    cdef int value = 0
    exponent[0] = 0
    if p == end or (p[0] != c"e" and p[0] != c"E"):
        return p
    digits = skip_sign(p + 1, end, &negative)
    if digits == end or not is_digit(digits[0]):
        return p
    while digits < end and is_digit(digits[0]):
        if value < EXPONENT_MAX:
            value = value * 10 + (digits[0] - 48)
        digits += 1
    if value > EXPONENT_MAX:
        value = EXPONENT_MAX
    exponent[0] = -value if negative else value
    return digits


cdef int parse_decimal(const uint8_t* p, const uint8_t* end, int power, const uint8_t** stop, int64_t* value,
                       bint* negative) noexcept nogil:
    cdef const uint8_t* whole = skip_sign(p, end, negative)
    cdef const uint8_t* point = skip_digits(whole, end)
    cdef const uint8_t* tail = point
    cdef uint64_t total = 0  # ten times the limit still fits
    cdef Py_ssize_t kept
    cdef int exponent
    if point == whole:
        stop[0] = point
        return R_BAD_NUMBER
    if point < end and point[0] == c".":
        tail = skip_digits(point + 1, end)
        if tail == point + 1:
            stop[0] = tail
            return R_BAD_NUMBER
    stop[0] = read_exponent(tail, end, &exponent)
    if negative[0]:
        return R_OK
    # How many digits, from the first one, make the value; those that are not written are zeros.
    kept = (point - whole) + power + exponent
    while kept > 0:
        if whole == point and whole < tail:
            whole += 1
        total *= 10
        if whole < tail:
            total += <uint64_t>(whole[0] - 48)
            whole += 1
        if total >= DECIMAL_LIMIT:
            return R_OVERFLOW
        kept -= 1
    value[0] = <int64_t>total
    return R_OK


cdef const uint8_t* skip_json_number(const uint8_t* p, const uint8_t* end, bint* good) noexcept nogil:
    cdef const uint8_t* start
    good[0] = False
    if p < end and p[0] == c"-":
        p += 1
    start = p
    p = skip_digits(p, end)
    if p == start:
        return p
    if start[0] == c"0" and p - start > 1:
        return start + 1
    if p < end and p[0] == c".":
        start = p + 1
        p = skip_digits(start, end)
        if p == start:
            return p
    if p < end and (p[0] == c"e" or p[0] == c"E"):
        p += 1
        if p < end and (p[0] == c"+" or p[0] == c"-"):
            p += 1
        start = p
        p = skip_digits(start, end)
        if p == start:
            return p
    good[0] = True
    return p


cdef int float_slowly(const uint8_t* p, const uint8_t* end, double* value) except -1 with gil:
    value[0] = float((<const char*>p)[: end - p])
    return 0


cdef int parse_float(const uint8_t* p, const uint8_t* end, const uint8_t** stop, double* value) except -1 nogil:
    cdef bint negative
    cdef const uint8_t* digit = skip_sign(p, end, &negative)
    cdef const uint8_t* whole = digit
    cdef const uint8_t* point = skip_digits(whole, end)
    cdef const uint8_t* tail = point
    cdef uint64_t mantissa = 0
    cdef int exponent = 0
    cdef Py_ssize_t digits = point - whole, power
    if point < end and point[0] == c".":
        tail = skip_digits(point + 1, end)
        digits += tail - point - 1
    if digits == 0:
        stop[0] = tail
        return R_BAD_NUMBER
    stop[0] = read_exponent(tail, end, &exponent)
    power = exponent - (tail - point - 1 if tail > point else 0)
    # Up to 2**53 and 10**22 both factors are exact, so one rounding gives the nearest double (W. Clinger, 1990).
    if digits <= 18 and -EXACT_POWER_MAX <= power <= EXACT_POWER_MAX:
        while digit < tail:
            if digit != point:
                mantissa = mantissa * 10 + <uint64_t>(digit[0] - 48)
            digit += 1
        if mantissa <= EXACT_MAX:
            value[0] = <double>mantissa * TENS[power] if power >= 0 else <double>mantissa / TENS[-power]
            if negative:
                value[0] = -value[0]
            return R_OK
    float_slowly(p, stop[0], value)
    return R_OVERFLOW if value[0] == HUGE_VAL or value[0] == -HUGE_VAL else R_OK


def parse_double(bytes text):
    """The nearest double to the number that the whole of `text` is, or None; an infinite one is None too."""
    cdef const uint8_t* p = <const uint8_t*><const char*>text
    cdef const uint8_t* stop = p
    cdef double value = 0
    if parse_float(p, p + len(text), &stop, &value) != R_OK:
        return None
    return value if stop == p + len(text) else None
