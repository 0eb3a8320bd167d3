# What all expression kernels share: the shape of a result, and the count of rows that failed.
from libc.stdint cimport int64_t, uint8_t

from cython_ext.column cimport Column


cdef class Failures:
    """Counts rows whose evaluation failed; only rows that `mask` marks are counted."""
    cdef readonly int64_t count
    cdef Column rows_asked
    cdef int add(self, Column out, list arguments) except -1
    cdef int add_flags(self, Column flags) except -1


cdef int expect(Column column, int kind) except -1       # TypeError unless the column is of that kind
cdef Py_ssize_t common_length(list columns) except -1    # ValueError unless all have one length
cdef bint all_constant(list columns) except -1
# Uninitialised data; constant where all arguments are; NULL where any argument is. `stored()` rows to be filled.
cdef Column result1(int kind, Column a)
cdef Column result2(int kind, Column a, Column b)
cdef Column result_of(int kind, list columns)
cdef Column result_without_nulls(int kind, list columns)
cdef bytes new_bytes(size_t size)                        # uninitialised; the owner of a result's strings
