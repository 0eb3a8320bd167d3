"""The shape of a result, and the count of rows that failed: what all expression kernels share.

A kernel takes columns of one length and gives a new column of that length; it is constant where all
arguments are. A row that fails becomes NULL, and the kernel reports to `Failures`, which counts the rows
that were asked for.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy

from cython_ext.column cimport K_BOOLEAN, Column, new_column


cdef class Failures:
    def __cinit__(self):
        self.count = 0
        self.rows_asked = None

    @property
    def mask(self):
        """The rows that count, a BOOLEAN column without NULLs; None for all."""
        return self.rows_asked

    @mask.setter
    def mask(self, Column value):
        if value is not None and (value.kind != K_BOOLEAN or value.valid != NULL):
            raise TypeError("a mask is a BOOLEAN column without NULLs")
        self.rows_asked = value

    cdef int add(self, Column out, list arguments) except -1:
        """Count the rows that are NULL in `out` although no argument is."""
        cdef Py_ssize_t row, step = out.step(), length = out.length
        cdef Column flags, argument
        if out.valid == NULL or length == 0:
            return 0
        flags = new_column(K_BOOLEAN, length, out.constant, False)
        for row in range(flags.stored()):
            flags.booleans()[row] = not out.valid[row]
        for argument in arguments:
            if argument.valid != NULL:
                for row in range(flags.stored()):
                    flags.booleans()[row] &= argument.valid[row * argument.step()]
        return self.add_flags(flags)

    cdef int add_flags(self, Column flags) except -1:
        cdef Py_ssize_t row, step = flags.step()
        cdef int64_t count = 0
        cdef Column mask = self.rows_asked
        if mask is not None and mask.length != flags.length:
            raise ValueError(f"a mask of {mask.length} rows for {flags.length}")
        for row in range(flags.length):
            if mask is None:
                count += flags.booleans()[row * step]
            else:
                count += flags.booleans()[row * step] & mask.booleans()[row * mask.step()]
        self.count += count
        return 0

    def add_rows(self, Column flags not None):
        """Count the rows that the BOOLEAN column `flags` (no NULLs) marks as failed."""
        if flags.kind != K_BOOLEAN or flags.valid != NULL:
            raise TypeError("flags are a BOOLEAN column without NULLs")
        self.add_flags(flags)


cdef int expect(Column column, int kind) except -1:
    if column is None or column.kind != kind:
        raise TypeError(f"a column of kind {kind} was expected, not {None if column is None else column.kind}")
    return 0


cdef Py_ssize_t common_length(list columns) except -1:
    cdef Column column
    cdef Py_ssize_t length = -1
    for column in columns:
        if column is None:
            raise TypeError("a column was expected, not None")
        if length >= 0 and column.length != length:
            raise ValueError(f"columns of {length} and {column.length} rows in one expression")
        length = column.length
    if length < 0:
        raise ValueError("an expression without columns")
    return length


cdef bint all_constant(list columns) except -1:
    cdef Column column
    for column in columns:
        if not column.constant:
            return False
    return True


cdef int _join_valid(Column out, Column argument) except -1:
    """NULL in, NULL out."""
    cdef Py_ssize_t row, stored = out.stored()
    cdef uint8_t* to
    cdef uint8_t* other = argument.valid
    if other == NULL or stored == 0:
        return 0
    if argument.constant:
        if other[0]:
            return 0
        out.need_valid()
        for row in range(stored):
            out.valid[row] = 0
        return 0
    if out.valid == NULL:
        out.need_valid()
        memcpy(out.valid, other, stored)
        return 0
    to = out.valid
    for row in range(stored):
        to[row] &= other[row]
    return 0


cdef Column result1(int kind, Column a):
    cdef Column out = new_column(kind, a.length, a.constant, False)
    _join_valid(out, a)
    return out


cdef Column result2(int kind, Column a, Column b):
    cdef Column out
    if a.length != b.length:
        raise ValueError(f"columns of {a.length} and {b.length} rows in one expression")
    out = new_column(kind, a.length, a.constant and b.constant, False)
    _join_valid(out, a)
    _join_valid(out, b)
    return out


cdef Column result_of(int kind, list columns):
    cdef Column out = result_without_nulls(kind, columns), column
    for column in columns:
        _join_valid(out, column)
    return out


cdef Column result_without_nulls(int kind, list columns):
    return new_column(kind, common_length(columns), all_constant(columns), False)


cdef bytes new_bytes(size_t size):
    return PyBytes_FromStringAndSize(NULL, <Py_ssize_t>size)
