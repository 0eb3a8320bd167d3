"""Columns as the buffers of Arrow arrays (https://arrow.apache.org/docs/format/Columnar.html), ready for whoever writes them.

Little-endian, as Arrow's are; every buffer is a `bytes` object of its own, so nothing of the block is kept alive.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cython_ext.column cimport *
from libc.stdint cimport INT32_MAX, int32_t
from libc.string cimport memcpy, memset


def arrow_buffers(Column column not None):
    """(number of NULLs, validity bitmap or None, the value buffers) of all rows, a constant's repeated.

    BOOLEAN has a bitmap, BIGINT, TIMESTAMP and DOUBLE 8 bytes a value, DECIMAL 16, STRING int32 offsets and the bytes
    between them, as Arrow's bool, int64, timestamp("us"), float64, decimal128 and string. Raises OverflowError for texts
    of 2 GiB in all, TypeError for the kind NULL. O(bytes).
    """
    cdef Py_ssize_t nulls = 0
    validity = None
    if column.valid != NULL:
        validity = bitmap(column.valid, column, &nulls)
        if nulls == 0:
            validity = None
    if column.kind == K_STRING:
        return nulls, validity, texts(column)
    if column.kind == K_BOOLEAN:
        return nulls, validity, [bitmap(column.booleans(), column, NULL)]
    if column.kind == K_NULL:
        raise TypeError("a column of kind 0 has no values")
    return nulls, validity, [fixed(column)]


cdef bytes bitmap(const uint8_t* flags, Column column, Py_ssize_t* zeros):
    """A bit a row, the lowest first, and how many are 0. Of NULL rows a value's bit may be any."""
    cdef Py_ssize_t rows = column.length, step = column.step(), row, ones = 0
    cdef bytes out = PyBytes_FromStringAndSize(NULL, (rows + 7) // 8)
    cdef uint8_t* bits = <uint8_t*>PyBytes_AS_STRING(out)
    cdef uint8_t bit
    memset(bits, 0, (rows + 7) // 8)
    with nogil:
        for row in range(rows):
            bit = flags[row * step] != 0
            bits[row >> 3] |= <uint8_t>(bit << (row & 7))
            ones += bit
    if zeros != NULL:
        zeros[0] = rows - ones
    return out


cdef bytes fixed(Column column):
    cdef Py_ssize_t rows = column.length, row
    cdef size_t size = value_size(column.kind)
    cdef bytes out = PyBytes_FromStringAndSize(NULL, rows * <Py_ssize_t>size)
    cdef char* at = PyBytes_AS_STRING(out)
    with nogil:
        if not column.constant:
            memcpy(at, column.data, rows * size)
        else:
            for row in range(rows):
                memcpy(at + row * size, column.data, size)
    return out


cdef list texts(Column column):
    cdef Py_ssize_t rows = column.length, row, step = column.step()
    cdef bytes offsets = PyBytes_FromStringAndSize(NULL, (rows + 1) * 4)
    cdef int32_t* ends = <int32_t*>PyBytes_AS_STRING(offsets)
    cdef StringRef* refs = column.strings()
    cdef StringRef* ref
    cdef size_t size = 0
    cdef bytes data
    cdef char* at
    with nogil:
        ends[0] = 0
        for row in range(rows):
            if not column.is_null(row):
                size += refs[row * step].size
                if size > INT32_MAX:
                    break
            ends[row + 1] = <int32_t>size
    if size > INT32_MAX:
        raise OverflowError("the texts of a block have 2 GiB or more; scan smaller blocks")
    data = PyBytes_FromStringAndSize(NULL, size)
    at = PyBytes_AS_STRING(data)
    with nogil:
        for row in range(rows):
            if not column.is_null(row):
                ref = &refs[row * step]
                if ref.size:
                    memcpy(at, ref.data, ref.size)
                    at += ref.size
    return [offsets, data]
