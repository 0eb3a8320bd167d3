"""DOUBLE to STRING: the shortest digits that read back as the value, at least two, laid out as Java's
`Double.toString` does since version 19.

Most values of a log have few decimals: m / 10^k with m < 10^15. Such a decimal is found by division, which rounds
correctly; it is the shortest, since no two decimals of 15 digits are the same DOUBLE. CPython's correctly rounded
`PyOS_double_to_string` (David Gay's dtoa) finds the digits of the others.
"""

from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport uint64_t
from libc.stdlib cimport strtol
from libc.string cimport memcpy, memset

from cython_ext.column cimport K_DOUBLE, K_STRING, Column
from cython_ext.exprs_result cimport expect, new_bytes, result1

cdef extern from "Python.h":
    char* PyOS_double_to_string(double value, char code, int precision, int flags, int* kind) except NULL
    void PyMem_Free(void* memory)

cdef enum:
    TEXT_BYTES = 26     # -1.2345678901234567E-300 and its like, with room to spare
    DIGITS_MAX = 20
    DECIMALS_MAX = 6    # the most decimals that are tried by division

cdef double* POWERS = [1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6]


def to_string(Column a not None):
    """Each value as Java writes it: 1.0, 1.0E10, NaN, -Infinity. O(rows)."""
    expect(a, K_DOUBLE)
    cdef Column out = result1(K_STRING, a)
    cdef Py_ssize_t row, n = out.stored()
    cdef bytes memory = new_bytes(n * TEXT_BYTES)
    cdef char* at = PyBytes_AS_STRING(memory)
    out.owners = [memory]
    for row in range(n):
        out.strings()[row].data = at
        out.strings()[row].size = 0
        if out.valid == NULL or out.valid[row]:
            out.strings()[row].size = _text(a.doubles()[row], at)
            at += out.strings()[row].size
    return out


cdef int _text(double value, char* to) except -1:
    """Writes the text of `value` and returns its size."""
    cdef char[DIGITS_MAX] digits
    cdef int count = 0, point = 0, sign
    if value != value:
        memcpy(to, b"NaN", 3)
        return 3
    sign = 1 if value < 0 or (value == 0 and 1.0 / value < 0) else 0
    if sign:
        to[0] = c"-"
        value = -value
    if value > 1.7976931348623157e308:
        memcpy(to + sign, b"Infinity", 8)
        return sign + 8
    if value == 0:
        memcpy(to + sign, b"0.0", 3)
        return sign + 3
    if not _few_decimals(value, digits, &count, &point):
        _shortest(value, digits, &count, &point)
    return sign + _lay_out(digits, count, point, to + sign)


cdef bint _few_decimals(double value, char* digits, int* count, int* point) noexcept nogil:
    """value = m / 10^k, 0.001 <= value and m < 10^15: the digits of m, and where the point stands in them."""
    cdef uint64_t whole, bound = <uint64_t>1000000 * 1000000 * 1000
    cdef int decimals, size = 0, at
    if not 1e-3 <= value < 1e15:
        return False
    for decimals in range(DECIMALS_MAX + 1):
        if value * POWERS[decimals] >= 1e15:
            return False
        whole = <uint64_t>(value * POWERS[decimals] + 0.5)
        if whole < bound and <double>whole / POWERS[decimals] == value:
            break
    else:
        return False
    cdef uint64_t rest = whole
    while rest:
        size += 1
        rest //= 10
    for at in range(size - 1, -1, -1):
        digits[at] = c"0" + <char>(whole % 10)
        whole //= 10
    point[0] = size - decimals
    while size > 1 and digits[size - 1] == c"0":
        size -= 1
    count[0] = size
    return True


cdef int _shortest(double value, char* digits, int* count, int* point) except -1:
    """The digits by which `value` reads back; where one would do, Java takes the nearest two."""
    _read_digits(PyOS_double_to_string(value, c"r", 0, 0, NULL), digits, count, point)
    if count[0] == 1:
        _read_digits(PyOS_double_to_string(value, c"e", 1, 0, NULL), digits, count, point)
    return 0


cdef int _read_digits(char* text, char* digits, int* count, int* point) except -1:
    """The digits of 123.45, 0.00012 or 1.2e-05 without zeros at either end, and where the point stands in them.
    Frees `text`."""
    cdef char* at = text
    cdef int size = 0, before = -1, skipped = 0
    while at[0] == c"." or c"0" <= at[0] <= b"9":
        if at[0] == c".":
            before = size + skipped
        elif at[0] == c"0" and size == 0:
            skipped += 1
        else:
            digits[size] = at[0]
            size += 1
        at += 1
    if before < 0:
        before = size + skipped
    point[0] = before - skipped
    if at[0] == c"e":
        point[0] += <int>strtol(at + 1, NULL, 10)
    PyMem_Free(text)
    while size > 1 and digits[size - 1] == c"0":
        size -= 1
    count[0] = size
    return 0


cdef int _lay_out(const char* digits, int count, int point, char* to) noexcept nogil:
    """Digits with a point from 0.001 up to 10^7, else one digit before the point and an exponent."""
    cdef char* at = to
    cdef int exponent = point - 1, whole = 1 if not -2 <= point <= 7 else point
    if -2 <= point <= 0:
        memcpy(at, b"0.00", 2 - point)
        memcpy(at + 2 - point, digits, count)
        return 2 - point + count
    if count <= whole:
        memcpy(at, digits, count)
        memset(at + count, c"0", whole - count)
        at[whole] = c"."
        at[whole + 1] = c"0"
        at += whole + 2
    else:
        memcpy(at, digits, whole)
        at[whole] = c"."
        memcpy(at + whole + 1, digits + whole, count - whole)
        at += count + 1
    if whole == point and point <= 7 and point >= 1:
        return <int>(at - to)
    at[0] = c"E"
    at += 1
    if exponent < 0:
        at[0] = c"-"
        at += 1
        exponent = -exponent
    if exponent >= 100:
        at[0] = c"0" + <char>(exponent // 100)
        at += 1
    if exponent >= 10:
        at[0] = c"0" + <char>(exponent // 10 % 10)
        at += 1
    at[0] = c"0" + <char>(exponent % 10)
    return <int>(at + 1 - to)
