"""Arithmetic on BIGINT, DECIMAL and DOUBLE with Spark's rules; a row that overflows or divides by zero is
NULL and counted.

DECIMAL columns hold scaled 128-bit integers; scales are arguments of the kernels. Results are rounded half
up into the result's precision and scale.
"""

from libc.math cimport ceil, fabs, floor, fmod
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint8_t, uint64_t

from cython_ext.column cimport K_BIGINT, K_DECIMAL, K_DOUBLE, Column, i128, i128_compare, i128_from_i64, i128_subtract
from cython_ext.exprs_result cimport Failures, expect, result1, result2

cdef extern from "int128.h" nogil:
    bint i64_multiply(int64_t a, int64_t b, int64_t* out)
    i128 i128_negate(i128 v)
    bint decimal_add(i128 a, int sa, i128 b, int sb, bint minus, int scale, int precision, i128* out)
    bint decimal_multiply(i128 a, int sa, i128 b, int sb, int scale, int precision, i128* out)
    bint decimal_divide(i128 a, int sa, i128 b, int sb, int scale, int precision, i128* out)
    bint decimal_quotient(i128 a, int sa, i128 b, int sb, int64_t* out)
    bint decimal_remainder(i128 a, int sa, i128 b, int sb, int scale, int precision, i128* out)
    bint decimal_rescale(i128 v, int source, int to, int precision, i128* out)
    bint decimal_to_whole(i128 v, int scale, bint up, int precision, i128* out)

ADD = 0
SUBTRACT = 1
MULTIPLY = 2
DIVIDE = 3
REMAINDER = 4

cdef enum:
    OP_ADD = 0
    OP_SUBTRACT = 1
    OP_MULTIPLY = 2
    OP_DIVIDE = 3
    OP_REMAINDER = 4
    SCALE_MAX = 38


cdef int _check_scales(int a, int b, int scale, int precision) except -1:
    if not (0 <= a <= SCALE_MAX and 0 <= b <= SCALE_MAX and 0 <= scale <= precision and 1 <= precision <= SCALE_MAX):
        raise ValueError(f"decimals of scales {a} and {b} into precision {precision} and scale {scale}")
    return 0


cdef int _mark_failed(Column out, Py_ssize_t row) except -1 with gil:
    out.need_valid()
    out.valid[row] = 0
    return 0


# --- BIGINT ---


def bigint(int operator, Column a not None, Column b not None, Failures failures not None):
    """a `operator` b of BIGINTs: ADD, SUBTRACT, MULTIPLY, DIVIDE (towards zero) or REMAINDER (sign of a).
    Overflow and division by zero fail. O(rows)."""
    expect(a, K_BIGINT)
    expect(b, K_BIGINT)
    cdef Column out = result2(K_BIGINT, a, b)
    cdef bint failed
    if operator == OP_ADD or operator == OP_SUBTRACT:
        failed = _bigint_sums(operator == OP_SUBTRACT, a, b, out)
    elif operator == OP_MULTIPLY:
        failed = _bigint_products(a, b, out)
    elif operator == OP_DIVIDE or operator == OP_REMAINDER:
        failed = _bigint_quotients(operator == OP_REMAINDER, a, b, out)
    else:
        raise ValueError(f"no arithmetic {operator}")
    if failed:
        failures.add(out, [a, b])
    return out


cdef bint _bigint_sums(bint minus, Column a, Column b, Column out) except -1:
    # Overflow shows in the sign bit; it is gathered over all rows so that the loop has no branch, and
    # looked up per row only when some row (possibly a NULL one, whose data means nothing) has it.
    cdef Py_ssize_t i, n = out.stored(), sa = a.step(), sb = b.step()
    cdef int64_t* x = a.longs()
    cdef int64_t* y = b.longs()
    cdef int64_t* to = out.longs()
    cdef int64_t left, right, bad = 0
    with nogil:
        if sa and sb and not minus:
            for i in range(n):
                left, right = x[i], y[i]
                to[i] = <int64_t>(<uint64_t>left + <uint64_t>right)
                bad |= (left ^ to[i]) & (right ^ to[i])
        elif sa and sb:
            for i in range(n):
                left, right = x[i], y[i]
                to[i] = <int64_t>(<uint64_t>left - <uint64_t>right)
                bad |= (left ^ right) & (left ^ to[i])
        elif sa and n and not minus:
            right = y[0]
            for i in range(n):
                left = x[i]
                to[i] = <int64_t>(<uint64_t>left + <uint64_t>right)
                bad |= (left ^ to[i]) & (right ^ to[i])
        else:
            for i in range(n):
                left, right = x[i * sa], y[i * sb]
                if minus:
                    to[i] = <int64_t>(<uint64_t>left - <uint64_t>right)
                    bad |= (left ^ right) & (left ^ to[i])
                else:
                    to[i] = <int64_t>(<uint64_t>left + <uint64_t>right)
                    bad |= (left ^ to[i]) & (right ^ to[i])
    if bad >= 0:
        return False
    for i in range(n):
        left, right = x[i * sa], y[i * sb]
        bad = (left ^ right) & (left ^ to[i]) if minus else (left ^ to[i]) & (right ^ to[i])
        if bad < 0:
            _mark_failed(out, i)
    return True


cdef bint _bigint_products(Column a, Column b, Column out) except -1:
    cdef Py_ssize_t i, n = out.stored(), sa = a.step(), sb = b.step()
    cdef int64_t* x = a.longs()
    cdef int64_t* y = b.longs()
    cdef bint failed = False, over
    with nogil:
        for i in range(n):
            over = i64_multiply(x[i * sa], y[i * sb], &out.longs()[i])
            failed |= over
    if failed:
        for i in range(n):
            if i64_multiply(x[i * sa], y[i * sb], &out.longs()[i]):
                _mark_failed(out, i)
    return failed


cdef bint _bigint_quotients(bint remainder, Column a, Column b, Column out) except -1:
    cdef Py_ssize_t i, n = out.stored(), sa = a.step(), sb = b.step()
    cdef int64_t x, y
    cdef bint failed = False
    with nogil:
        for i in range(n):
            x, y = a.longs()[i * sa], b.longs()[i * sb]
            if y == 0:
                failed = True
                out.longs()[i] = 0
                _mark_failed(out, i)
            elif y == -1:  # the one divisor whose quotient can overflow
                out.longs()[i] = 0 if remainder else <int64_t>(0 - <uint64_t>x)
                if x == INT64_MIN and not remainder:
                    failed = True
                    _mark_failed(out, i)
            elif remainder:
                out.longs()[i] = x % y
            else:
                out.longs()[i] = x / y
    return failed


def negate_bigint(Column a not None, Failures failures not None):
    """-a; -2**63 fails. O(rows)."""
    return _signed_bigint(a, False, failures)


def absolute_bigint(Column a not None, Failures failures not None):
    """|a|; -2**63 fails. O(rows)."""
    return _signed_bigint(a, True, failures)


cdef Column _signed_bigint(Column a, bint absolute, Failures failures):
    expect(a, K_BIGINT)
    cdef Column out = result1(K_BIGINT, a)
    cdef Py_ssize_t i
    cdef int64_t x
    cdef bint failed = False
    for i in range(out.stored()):
        x = a.longs()[i]
        out.longs()[i] = x if absolute and x >= 0 else <int64_t>(0 - <uint64_t>x)
        if x == INT64_MIN:
            failed = True
            _mark_failed(out, i)
    if failed:
        failures.add(out, [a])
    return out


def round_bigint(Column a not None, int digits, Failures failures not None):
    """a rounded half up to 10**`digits`, 1 <= digits: what `round(a, -digits)` means. Overflow fails.
    O(rows)."""
    expect(a, K_BIGINT)
    cdef Column out = result1(K_BIGINT, a)
    cdef Py_ssize_t i
    cdef uint64_t power = 1, size, rest, limit
    cdef int64_t x
    cdef bint failed = False
    if digits < 1:
        raise ValueError("rounding a BIGINT behind the point changes nothing")
    for i in range(min(digits, 19)):
        power *= 10
    for i in range(out.stored()):
        x = a.longs()[i]
        size = 0 - <uint64_t>x if x < 0 else <uint64_t>x
        limit = <uint64_t>INT64_MAX + 1 if x < 0 else <uint64_t>INT64_MAX
        rest = size % power
        size = 0 if digits > 19 else size - rest
        if digits <= 19 and rest >= power - rest:
            size += power
        if size > limit:
            failed = True
            _mark_failed(out, i)
        out.longs()[i] = <int64_t>(0 - size) if x < 0 else <int64_t>size
    if failed:
        failures.add(out, [a])
    return out


# --- DOUBLE ---


def double(int operator, Column a not None, Column b not None, Failures failures not None):
    """a `operator` b of DOUBLEs by IEEE 754; DIVIDE and REMAINDER by zero fail. O(rows)."""
    expect(a, K_DOUBLE)
    expect(b, K_DOUBLE)
    cdef Column out = result2(K_DOUBLE, a, b)
    cdef Py_ssize_t i, n = out.stored(), sa = a.step(), sb = b.step()
    cdef double* x = a.doubles()
    cdef double* y = b.doubles()
    cdef double* to = out.doubles()
    cdef int op = operator
    with nogil:
        if op == OP_ADD:
            for i in range(n):
                to[i] = x[i * sa] + y[i * sb]
        elif op == OP_SUBTRACT:
            for i in range(n):
                to[i] = x[i * sa] - y[i * sb]
        elif op == OP_MULTIPLY:
            for i in range(n):
                to[i] = x[i * sa] * y[i * sb]
        elif op == OP_DIVIDE:
            for i in range(n):
                to[i] = x[i * sa] / y[i * sb]
        else:
            for i in range(n):
                to[i] = fmod(x[i * sa], y[i * sb])
    if operator >= OP_DIVIDE and _null_zero_divisors(b, out):
        failures.add(out, [a, b])
    return out


cdef bint _null_zero_divisors(Column b, Column out) except -1:
    cdef Py_ssize_t i, n = out.stored(), step = b.step()
    cdef uint8_t zero = 0
    for i in range(b.stored()):
        zero |= b.doubles()[i] == 0.0
    if not zero:
        return False
    out.need_valid()
    for i in range(n):
        out.valid[i] &= b.doubles()[i * step] != 0.0
    return True


def negate_double(Column a not None):
    """-a. O(rows)."""
    expect(a, K_DOUBLE)
    cdef Column out = result1(K_DOUBLE, a)
    cdef Py_ssize_t i
    for i in range(out.stored()):
        out.doubles()[i] = -a.doubles()[i]
    return out


def absolute_double(Column a not None):
    """|a|. O(rows)."""
    expect(a, K_DOUBLE)
    cdef Column out = result1(K_DOUBLE, a)
    cdef Py_ssize_t i
    for i in range(out.stored()):
        out.doubles()[i] = fabs(a.doubles()[i])
    return out


def whole_double(Column a not None, bint up, Failures failures not None):
    """floor (or ceil where `up`) of a DOUBLE as BIGINT; NaN gives 0, as in Spark; beyond BIGINT fails.
    O(rows)."""
    expect(a, K_DOUBLE)
    cdef Column out = result1(K_BIGINT, a)
    cdef Py_ssize_t i
    cdef double value
    cdef bint failed = False
    for i in range(out.stored()):
        value = ceil(a.doubles()[i]) if up else floor(a.doubles()[i])
        if value != value:
            out.longs()[i] = 0
        elif value >= -9223372036854775808.0 and value < 9223372036854775808.0:
            out.longs()[i] = <int64_t>value
        else:
            failed = True
            out.longs()[i] = 0
            _mark_failed(out, i)
    if failed:
        failures.add(out, [a])
    return out


# --- DECIMAL ---


def decimal(
    int operator, Column a not None, int a_scale, Column b not None, int b_scale, int precision, int scale,
    Failures failures not None,
):
    """a `operator` b of DECIMALs, rounded half up into DECIMAL(precision, scale). More digits than
    `precision` and division by zero fail. Intermediates have 256 bits. O(rows)."""
    expect(a, K_DECIMAL)
    expect(b, K_DECIMAL)
    _check_scales(a_scale, b_scale, scale, precision)
    cdef Column out = result2(K_DECIMAL, a, b)
    cdef Py_ssize_t i, sa = a.step(), sb = b.step()
    cdef bint failed = False, bad
    cdef i128 x, y
    cdef i128* to
    cdef int op = operator
    if not OP_ADD <= op <= OP_REMAINDER:
        raise ValueError(f"no arithmetic {op}")
    with nogil:
        for i in range(out.stored()):
            if out.valid != NULL and not out.valid[i]:
                out.decimals()[i] = i128_from_i64(0)
                continue
            x, y, to = a.decimals()[i * sa], b.decimals()[i * sb], &out.decimals()[i]
            if op <= OP_SUBTRACT:
                bad = decimal_add(x, a_scale, y, b_scale, op == OP_SUBTRACT, scale, precision, to)
            elif op == OP_MULTIPLY:
                bad = decimal_multiply(x, a_scale, y, b_scale, scale, precision, to)
            elif op == OP_DIVIDE:
                bad = decimal_divide(x, a_scale, y, b_scale, scale, precision, to)
            else:
                bad = decimal_remainder(x, a_scale, y, b_scale, scale, precision, to)
            if bad:
                failed = True
                _mark_failed(out, i)
    if failed:
        failures.add(out, [a, b])
    return out


def decimal_int_div(Column a not None, int a_scale, Column b not None, int b_scale, Failures failures not None):
    """The quotient of DECIMALs towards zero as BIGINT; by zero and beyond BIGINT it fails. O(rows)."""
    expect(a, K_DECIMAL)
    expect(b, K_DECIMAL)
    _check_scales(a_scale, b_scale, 0, 1)
    cdef Column out = result2(K_BIGINT, a, b)
    cdef Py_ssize_t i, sa = a.step(), sb = b.step()
    cdef bint failed = False
    for i in range(out.stored()):
        if out.valid != NULL and not out.valid[i]:
            continue
        if decimal_quotient(a.decimals()[i * sa], a_scale, b.decimals()[i * sb], b_scale, &out.longs()[i]):
            failed = True
            _mark_failed(out, i)
    if failed:
        failures.add(out, [a, b])
    return out


def negate_decimal(Column a not None):
    """-a. O(rows)."""
    expect(a, K_DECIMAL)
    cdef Column out = result1(K_DECIMAL, a)
    cdef Py_ssize_t i
    for i in range(out.stored()):
        out.decimals()[i] = i128_negate(a.decimals()[i])
    return out


def absolute_decimal(Column a not None):
    """|a|. O(rows)."""
    expect(a, K_DECIMAL)
    cdef Column out = result1(K_DECIMAL, a)
    cdef Py_ssize_t i
    cdef i128 zero = i128_from_i64(0)
    for i in range(out.stored()):
        if i128_compare(a.decimals()[i], zero) < 0:
            out.decimals()[i] = i128_negate(a.decimals()[i])
        else:
            out.decimals()[i] = a.decimals()[i]
    return out


def rescale(
    Column a not None, int a_scale, int precision, int scale, Failures failures not None, int places=SCALE_MAX
):
    """DECIMAL of another precision and scale, rounded half up; too many digits fail. O(rows).

    With `places` < scale it is rounded to that many decimals first (negative: before the point)."""
    expect(a, K_DECIMAL)
    _check_scales(a_scale, 0, scale, precision)
    if not -SCALE_MAX <= places <= SCALE_MAX:
        raise ValueError(f"rounding to {places} places")
    cdef Column out = result1(K_DECIMAL, a)
    cdef Py_ssize_t i
    cdef i128 value
    cdef bint failed = False, bad
    cdef bint first = places < a_scale and places < scale
    with nogil:
        for i in range(out.stored()):
            if out.valid != NULL and not out.valid[i]:
                out.decimals()[i] = i128_from_i64(0)
                continue
            value = a.decimals()[i]
            bad = False
            if first:
                bad = decimal_rescale(value, a_scale, places, SCALE_MAX, &value)
            if bad or decimal_rescale(value, places if first else a_scale, scale, precision, &out.decimals()[i]):
                failed = True
                _mark_failed(out, i)
    if failed:
        failures.add(out, [a])
    return out


def whole_decimal(Column a not None, int a_scale, int precision, bint up, Failures failures not None):
    """floor (or ceil where `up`) of a DECIMAL as DECIMAL(precision, 0); too many digits fail. O(rows)."""
    expect(a, K_DECIMAL)
    _check_scales(a_scale, 0, 0, precision)
    cdef Column out = result1(K_DECIMAL, a)
    cdef Py_ssize_t i
    cdef bint failed = False
    for i in range(out.stored()):
        if out.valid != NULL and not out.valid[i]:
            out.decimals()[i] = i128_from_i64(0)
            continue
        if decimal_to_whole(a.decimals()[i], a_scale, up, precision, &out.decimals()[i]):
            failed = True
            _mark_failed(out, i)
    if failed:
        failures.add(out, [a])
    return out
