"""Casts between all kinds, with the rules of Spark's ANSI mode: what does not convert is NULL and counted.

Texts that need care (odd spellings of times, exponents, digits of other scripts) are not read here: such
kernels return (column, rows left), the second None or a BOOLEAN column of the rows that the caller must ask
`cython_ext.reference` for.
"""

from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from cython_ext.civil cimport (
    US_PER_SECOND, Civil, civil_from_days, days_from_civil, days_in_month, floor_div, floor_mod, us_per_day,
)
from cython_ext.column cimport (
    K_BIGINT, K_BOOLEAN, K_DECIMAL, K_DOUBLE, K_STRING, K_TIMESTAMP, Column, StringRef, i128, i128_fits_i64,
    i128_from_i64, i128_high, i128_low, new_column,
)
from cython_ext.exprs_result cimport Failures, expect, new_bytes, result1

cdef extern from "int128.h" nogil:
    bint decimal_rescale(i128 v, int source, int to, int precision, i128* out)
    bint decimal_quotient(i128 a, int sa, i128 b, int sb, int64_t* out)
    bint c_decimal_to_double "decimal_to_double"(i128 v, int scale, double* out)
    bint double_from_digits(uint64_t mantissa, int exponent, double* out)
    i128 i128_push_digit(i128 v, int digit)
    i128 i128_negate(i128 v)
    int decimal_text(i128 v, int scale, char* to)

cdef enum:
    SCALE_MAX = 38
    WHOLE_TEXT_BYTES = 20      # -9223372036854775808
    DECIMAL_TEXT_BYTES = 41    # sign, 38 digits, a point and the zero before it
    TIMESTAMP_TEXT_BYTES = 32  # -290308-12-21 19:59:05.224192


cdef inline bint _present(Column column, Py_ssize_t row) noexcept nogil:
    return column.valid == NULL or column.valid[row] != 0


cdef int _mark_failed(Column out, Py_ssize_t row) except -1 with gil:
    out.need_valid()
    out.valid[row] = 0
    return 0


cdef int _check_decimal(int precision, int scale) except -1:
    if not (1 <= precision <= SCALE_MAX and 0 <= scale <= SCALE_MAX):
        raise ValueError(f"DECIMAL({precision},{scale})")
    return 0


def typed_null(int kind, Py_ssize_t length):
    """A constant column of `kind` that is NULL in every row: NULL casts to anything. O(1)."""
    return Column.from_list(kind, [None], True, length)


# --- Between numbers ---


def to_boolean(Column a not None):
    """True where a number is not zero (NaN is not). O(rows)."""
    cdef Column out = result1(K_BOOLEAN, a)
    cdef Py_ssize_t row
    if a.kind == K_BIGINT:
        for row in range(out.stored()):
            out.booleans()[row] = a.longs()[row] != 0
    elif a.kind == K_DOUBLE:
        for row in range(out.stored()):
            out.booleans()[row] = a.doubles()[row] != 0.0
    elif a.kind == K_DECIMAL:
        for row in range(out.stored()):
            out.booleans()[row] = (i128_low(a.decimals()[row]) | <uint64_t>i128_high(a.decimals()[row])) != 0
    else:
        raise TypeError(f"kind {a.kind} does not become BOOLEAN here")
    return out


def boolean_to_bigint(Column a not None):
    """1 for true, 0 for false. O(rows)."""
    expect(a, K_BOOLEAN)
    cdef Column out = result1(K_BIGINT, a)
    cdef Py_ssize_t row
    for row in range(out.stored()):
        out.longs()[row] = a.booleans()[row] != 0
    return out


def bigint_to_double(Column a not None):
    """The nearest DOUBLE. O(rows)."""
    expect(a, K_BIGINT)
    cdef Column out = result1(K_DOUBLE, a)
    cdef Py_ssize_t row
    for row in range(out.stored()):
        out.doubles()[row] = <double>a.longs()[row]
    return out


def bigint_to_decimal(Column a not None, int precision, int scale, Failures failures not None):
    """DECIMAL(precision, scale); too many digits fail. O(rows)."""
    expect(a, K_BIGINT)
    return _whole_to_decimal(a, 0, precision, scale, failures)


def timestamp_to_decimal(Column a not None, int precision, int scale, Failures failures not None):
    """Seconds since 1970 as DECIMAL(precision, scale), rounded half up; too many digits fail. O(rows)."""
    expect(a, K_TIMESTAMP)
    return _whole_to_decimal(a, 6, precision, scale, failures)


cdef Column _whole_to_decimal(Column a, int a_scale, int precision, int scale, Failures failures):
    _check_decimal(precision, scale)
    cdef Column out = result1(K_DECIMAL, a)
    cdef Py_ssize_t row
    cdef bint failed = False
    with nogil:
        for row in range(out.stored()):
            if decimal_rescale(i128_from_i64(a.longs()[row]), a_scale, scale, precision, &out.decimals()[row]):
                failed = True
                _mark_failed(out, row)
    if failed:
        failures.add(out, [a])
    return out


def double_to_bigint(Column a not None, Failures failures not None):
    """Cut towards zero; NaN and values beyond BIGINT fail. O(rows)."""
    expect(a, K_DOUBLE)
    cdef Column out = result1(K_BIGINT, a)
    cdef Py_ssize_t row
    cdef double value
    cdef bint failed = False
    for row in range(out.stored()):
        value = a.doubles()[row]
        out.longs()[row] = 0
        if -9223372036854775808.0 <= value < 9223372036854775808.0:
            out.longs()[row] = <int64_t>value
        elif value == 9223372036854775808.0:  # Spark compares with (double) Long.MaxValue, which is 2**63
            out.longs()[row] = INT64_MAX
        else:
            failed = True
            _mark_failed(out, row)
    if failed:
        failures.add(out, [a])
    return out


def decimal_to_bigint(Column a not None, int scale, Failures failures not None):
    """Cut towards zero; values beyond BIGINT fail. O(rows)."""
    expect(a, K_DECIMAL)
    _check_decimal(SCALE_MAX, scale)
    cdef Column out = result1(K_BIGINT, a)
    cdef Py_ssize_t row
    cdef bint failed = False
    cdef i128 one = i128_from_i64(1)
    with nogil:
        for row in range(out.stored()):
            out.longs()[row] = 0
            if _present(out, row) and decimal_quotient(a.decimals()[row], scale, one, 0, &out.longs()[row]):
                failed = True
                _mark_failed(out, row)
    if failed:
        failures.add(out, [a])
    return out


def decimal_to_double(Column a not None, int scale):
    """(DOUBLE, rows left): the nearest DOUBLE where 53 bits hold the digits. O(rows)."""
    expect(a, K_DECIMAL)
    _check_decimal(SCALE_MAX, scale)
    cdef Column out = result1(K_DOUBLE, a)
    cdef Column left = new_column(K_BOOLEAN, out.length, out.constant, False)
    cdef Py_ssize_t row
    cdef uint8_t hard, any_hard = 0
    with nogil:
        for row in range(out.stored()):
            out.doubles()[row] = 0.0
            hard = 0
            if _present(out, row):
                hard = c_decimal_to_double(a.decimals()[row], scale, &out.doubles()[row])
            left.booleans()[row] = hard
            any_hard |= hard
    return out, left if any_hard else None


def timestamp_to_double(Column a not None):
    """Seconds since 1970. O(rows)."""
    expect(a, K_TIMESTAMP)
    cdef Column out = result1(K_DOUBLE, a)
    cdef Py_ssize_t row
    for row in range(out.stored()):
        out.doubles()[row] = <double>a.longs()[row] / 1000000.0
    return out


# --- To STRING ---


cdef StringRef TRUE_TEXT
cdef StringRef FALSE_TEXT
cdef StringRef EMPTY
TRUE_TEXT.data, TRUE_TEXT.size = "true", 4
FALSE_TEXT.data, FALSE_TEXT.size = "false", 5
EMPTY.data, EMPTY.size = "", 0


def boolean_to_string(Column a not None):
    """true or false. O(rows)."""
    expect(a, K_BOOLEAN)
    cdef Column out = result1(K_STRING, a)
    cdef Py_ssize_t row
    for row in range(out.stored()):
        out.strings()[row] = TRUE_TEXT if a.booleans()[row] else FALSE_TEXT
    return out


def number_to_string(Column a not None, int scale):
    """A BIGINT, or a DECIMAL with all its decimals and never an exponent. O(rows x digits)."""
    if a.kind != K_DECIMAL:
        expect(a, K_BIGINT)
        scale = 0
    _check_decimal(SCALE_MAX, scale)
    cdef Column out = result1(K_STRING, a)
    cdef Py_ssize_t row, n = out.stored()
    cdef size_t width = DECIMAL_TEXT_BYTES if a.kind == K_DECIMAL else WHOLE_TEXT_BYTES
    cdef bytes memory = new_bytes(n * width)
    cdef char* at = PyBytes_AS_STRING(memory)
    cdef i128 value
    out.owners = [memory]
    with nogil:
        for row in range(n):
            out.strings()[row] = EMPTY
            if _present(out, row):
                value = a.decimals()[row] if a.kind == K_DECIMAL else i128_from_i64(a.longs()[row])
                out.strings()[row].data = at
                out.strings()[row].size = decimal_text(value, scale, at)
                at += out.strings()[row].size
    return out


def timestamp_to_string(Column a not None):
    """yyyy-MM-dd HH:mm:ss[.ffffff] in UTC without trailing zeros; years beyond four digits have a sign.
    O(rows)."""
    expect(a, K_TIMESTAMP)
    cdef Column out = result1(K_STRING, a)
    cdef Py_ssize_t row, n = out.stored()
    cdef bytes memory = new_bytes(n * TIMESTAMP_TEXT_BYTES)
    cdef char* at = PyBytes_AS_STRING(memory)
    out.owners = [memory]
    with nogil:
        for row in range(n):
            out.strings()[row] = EMPTY
            if _present(out, row):
                out.strings()[row].data = at
                out.strings()[row].size = _timestamp_text(a.longs()[row], at)
                at += out.strings()[row].size
    return out


cdef inline char* _digits(char* at, int64_t value, int width) noexcept nogil:
    cdef int i
    for i in range(width - 1, -1, -1):
        at[i] = <char>(48 + value % 10)
        value /= 10
    return at + width


cdef uint32_t _timestamp_text(int64_t micros, char* to) noexcept nogil:
    cdef int64_t days = floor_div(micros, us_per_day())
    cdef int64_t rest = micros - days * us_per_day(), second = rest / US_PER_SECOND, fraction = rest % US_PER_SECOND
    cdef Civil date = civil_from_days(days)
    cdef char* at = to
    cdef int64_t year = date.year if date.year >= 0 else -date.year
    if date.year < 0 or date.year > 9999:
        at[0] = 45 if date.year < 0 else 43
        at += 1
    at = _digits(at, year, 4 if year < 10000 else 5 if year < 100000 else 6)
    at[0] = 45
    at = _digits(at + 1, date.month, 2)
    at[0] = 45
    at = _digits(at + 1, date.day, 2)
    at[0] = 32
    at = _digits(at + 1, second / 3600, 2)
    at[0] = 58
    at = _digits(at + 1, second / 60 % 60, 2)
    at[0] = 58
    at = _digits(at + 1, second % 60, 2)
    if fraction:
        at[0] = 46
        at = _digits(at + 1, fraction, 6)
        while (at - 1)[0] == 48:
            at -= 1
    return <uint32_t>(at - to)


# --- From STRING ---

cdef enum:
    READ_OK = 0
    READ_FAILED = 1
    READ_HARD = 2


cdef inline StringRef _trimmed(const StringRef* text, bint with_delete) noexcept nogil:
    """Without control characters and blanks at both ends; Spark counts U+007F among them for all but
    decimals and doubles, which Java trims."""
    cdef StringRef out = text[0]
    cdef uint8_t byte
    while out.size:
        byte = <uint8_t>out.data[0]
        if byte > 32 and not (with_delete and byte == 127):
            break
        out.data += 1
        out.size -= 1
    while out.size:
        byte = <uint8_t>out.data[out.size - 1]
        if byte > 32 and not (with_delete and byte == 127):
            break
        out.size -= 1
    return out


cdef int _read_bigint(const StringRef* text, int64_t* out) noexcept nogil:
    cdef StringRef t = _trimmed(text, True)
    cdef uint32_t i = 0
    cdef uint64_t value = 0, limit = INT64_MAX
    cdef uint8_t digit, bad = 0
    cdef bint negative = False
    if t.size and (t.data[0] == 45 or t.data[0] == 43):
        negative = t.data[0] == 45
        i = 1
    if i == t.size:
        return READ_FAILED
    limit += negative
    if t.size <= 18:  # cannot overflow
        while i < t.size:
            digit = <uint8_t>(t.data[i] - 48)
            bad |= digit > 9
            value = value * 10 + digit
            i += 1
        out[0] = <int64_t>(0 - value) if negative else <int64_t>value
        return READ_FAILED if bad else READ_OK
    while i < t.size:
        digit = <uint8_t>(t.data[i] - 48)
        if digit > 9 or value > (limit - digit) / 10:
            return READ_FAILED
        value = value * 10 + digit
        i += 1
    out[0] = <int64_t>(0 - value) if negative else <int64_t>value
    return READ_OK


cdef bint _is_word(const StringRef* text, const char* word, uint32_t size) noexcept nogil:
    cdef uint32_t i
    if text.size != size:
        return False
    for i in range(size):
        if (text.data[i] | 32) != word[i]:
            return False
    return True


cdef int _read_boolean(const StringRef* text, uint8_t* out) noexcept nogil:
    cdef StringRef t = _trimmed(text, True)
    if _is_word(&t, "t", 1) or _is_word(&t, "true", 4) or _is_word(&t, "y", 1) or _is_word(&t, "yes", 3):
        out[0] = 1
        return READ_OK
    if _is_word(&t, "f", 1) or _is_word(&t, "false", 5) or _is_word(&t, "n", 1) or _is_word(&t, "no", 2):
        out[0] = 0
        return READ_OK
    if t.size == 1 and (t.data[0] == 48 or t.data[0] == 49):
        out[0] = t.data[0] == 49
        return READ_OK
    return READ_FAILED


cdef int _refuse_early(const StringRef* t, bint words) noexcept nogil:
    """What a text that the fast reader did not understand is: surely no number, or hard to say."""
    cdef uint8_t first
    if t.size == 0:
        return READ_FAILED
    first = <uint8_t>t.data[0]
    if first >= 128 or 48 <= first <= 57 or first == 43 or first == 45 or first == 46:
        return READ_HARD
    if words and ((first | 32) == 105 or (first | 32) == 110):  # infinity, NaN
        return READ_HARD
    return READ_FAILED


cdef int _read_double(const StringRef* text, double* out) noexcept nogil:
    cdef StringRef t = _trimmed(text, False)
    cdef const char* at = t.data
    cdef const char* end = at + t.size
    cdef bint negative = False, down = False
    cdef uint64_t mantissa = 0
    cdef int digits = 0, behind = 0, exponent = 0
    if at < end and (at[0] == 45 or at[0] == 43):
        negative = at[0] == 45
        at += 1
    while at < end and 48 <= at[0] <= 57 and digits < 18:
        mantissa = mantissa * 10 + <uint64_t>(at[0] - 48)
        digits += 1
        at += 1
    if at < end and at[0] == 46:
        at += 1
        while at < end and 48 <= at[0] <= 57 and digits < 18:
            mantissa = mantissa * 10 + <uint64_t>(at[0] - 48)
            digits += 1
            behind += 1
            at += 1
    if digits and at + 1 < end and (at[0] | 32) == 101:
        at += 1
        if at[0] == 45 or at[0] == 43:
            down = at[0] == 45
            at += 1
        if at == end:
            return READ_FAILED
        while at < end and 48 <= at[0] <= 57 and exponent < 1000:
            exponent = exponent * 10 + (at[0] - 48)
            at += 1
    if digits == 0 or at < end:
        return _refuse_early(&t, True)
    if double_from_digits(mantissa, (-exponent if down else exponent) - behind, out):
        return READ_HARD
    if negative:
        out[0] = -out[0]
    return READ_OK


cdef int _read_decimal(const StringRef* text, int precision, int scale, i128* out) noexcept nogil:
    cdef StringRef t = _trimmed(text, False)
    cdef const char* at = t.data
    cdef const char* end = at + t.size
    cdef bint negative = False, point = False
    cdef i128 value = i128_from_i64(0)
    cdef int digits = 0, behind = 0
    if at < end and (at[0] == 45 or at[0] == 43):
        negative = at[0] == 45
        at += 1
    while at < end and digits < SCALE_MAX:
        if at[0] == 46 and not point:
            point = True
        elif 48 <= at[0] <= 57:
            value = i128_push_digit(value, at[0] - 48)
            digits += 1
            behind += point
        else:
            break
        at += 1
    if at < end and at[0] == 46 and at + 1 == end and not point:
        at += 1
    if digits == 0 or at < end:
        return _refuse_early(&t, False)
    return decimal_rescale(i128_negate(value) if negative else value, behind, scale, precision, out)


cdef inline int _two(const char* at) noexcept nogil:
    """The number of two digits, or -1."""
    cdef uint8_t high = <uint8_t>(at[0] - 48), low = <uint8_t>(at[1] - 48)
    return -1 if high > 9 or low > 9 else high * 10 + low


cdef int _read_timestamp(const StringRef* text, int64_t* out) noexcept nogil:
    """yyyy-MM-dd, optionally with [ T]HH:mm:ss[.f...], optionally with Z or +hh:mm; all else is hard."""
    cdef StringRef t = _trimmed(text, True)
    cdef const char* at = t.data
    cdef int century, year, month, day, hour, minute, second, offset = 0, used = 0
    cdef int64_t fraction = 0
    if t.size < 10 or at[4] != 45 or at[7] != 45:
        return _refuse_early(&t, False)
    century, year, month, day = _two(at), _two(at + 2), _two(at + 5), _two(at + 8)
    if century < 0 or year < 0 or month < 0 or day < 0:
        return _refuse_early(&t, False)
    year += century * 100
    if not 1 <= month <= 12 or not 1 <= day <= days_in_month(year, month):
        return READ_HARD
    out[0] = days_from_civil(year, month, day) * us_per_day()
    if t.size == 10:
        return READ_OK
    if t.size < 19 or (at[10] != 32 and at[10] != 84) or at[13] != 58 or at[16] != 58:
        return READ_HARD
    hour, minute, second = _two(at + 11), _two(at + 14), _two(at + 17)
    if not 0 <= hour < 24 or not 0 <= minute < 60 or not 0 <= second < 60:
        return READ_HARD
    at += 19
    t.size -= 19
    if t.size and at[0] == 46:
        at += 1
        t.size -= 1
        while t.size and 48 <= at[0] <= 57:
            if used < 6:
                fraction = fraction * 10 + (at[0] - 48)
                used += 1
            at += 1
            t.size -= 1
        while used < 6:
            fraction *= 10
            used += 1
    if t.size == 6 and (at[0] == 43 or at[0] == 45) and at[3] == 58:
        if not 0 <= _two(at + 1) < 18 or not 0 <= _two(at + 4) < 60:
            return READ_HARD
        offset = (_two(at + 1) * 60 + _two(at + 4)) * (60 if at[0] == 43 else -60)
    elif t.size and not (t.size == 1 and at[0] == 90):
        return READ_HARD
    out[0] += <int64_t>(hour * 3600 + minute * 60 + second - offset) * US_PER_SECOND + fraction
    return READ_OK


def read_string(Column text not None, int kind, int precision, int scale, Failures failures not None):
    """(column of `kind`, rows left) from STRINGs. What is surely no such value fails. `precision` and
    `scale` are those of a DECIMAL. O(bytes)."""
    expect(text, K_STRING)
    if kind == K_DECIMAL:
        _check_decimal(precision, scale)
    elif kind != K_BOOLEAN and kind != K_BIGINT and kind != K_DOUBLE and kind != K_TIMESTAMP:
        raise TypeError(f"a STRING does not become kind {kind}")
    cdef Column out = result1(kind, text)
    cdef Column left = new_column(K_BOOLEAN, out.length, out.constant, False)
    cdef Py_ssize_t row
    cdef int outcome
    cdef bint failed = False, hard = False
    with nogil:
        for row in range(out.stored()):
            left.booleans()[row] = 0
            outcome = _read_row(text, out, row, precision, scale) if _present(out, row) else READ_OK
            if outcome == READ_FAILED:
                failed = True
                _mark_failed(out, row)
            elif outcome == READ_HARD:
                hard = True
                left.booleans()[row] = 1
    if failed:
        failures.add(out, [text])
    return out, left if hard else None


cdef int _read_row(Column text, Column out, Py_ssize_t row, int precision, int scale) noexcept nogil:
    cdef StringRef* of = &text.strings()[row]
    if out.kind == K_BIGINT:
        return _read_bigint(of, &out.longs()[row])
    if out.kind == K_BOOLEAN:
        return _read_boolean(of, &out.booleans()[row])
    if out.kind == K_DOUBLE:
        return _read_double(of, &out.doubles()[row])
    if out.kind == K_DECIMAL:
        return _read_decimal(of, precision, scale, &out.decimals()[row])
    return _read_timestamp(of, &out.longs()[row])
