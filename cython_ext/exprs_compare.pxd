from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from cython_ext.column cimport Column

# Rows that have a value; a constant's only row is 0. Equal values have equal hashes.
cdef uint64_t hash_row(Column column, Py_ssize_t row, uint64_t seed) noexcept nogil
cdef bint same_row(Column a, Py_ssize_t i, Column b, Py_ssize_t k) noexcept nogil


cdef inline bint equal_bytes(const char* a, const char* b, size_t size) noexcept nogil:
    # Short texts are compared by two words that may overlap, which costs less than calling memcmp.
    cdef uint64_t a_head, b_head, a_tail, b_tail
    cdef uint32_t a_half, b_half, a_rest, b_rest
    if size > 16:
        return memcmp(a, b, size) == 0
    if size >= 8:
        memcpy(&a_head, a, 8)
        memcpy(&b_head, b, 8)
        memcpy(&a_tail, a + size - 8, 8)
        memcpy(&b_tail, b + size - 8, 8)
        return ((a_head ^ b_head) | (a_tail ^ b_tail)) == 0
    if size >= 4:
        memcpy(&a_half, a, 4)
        memcpy(&b_half, b, 4)
        memcpy(&a_rest, a + size - 4, 4)
        memcpy(&b_rest, b + size - 4, 4)
        return ((a_half ^ b_half) | (a_rest ^ b_rest)) == 0
    while size:
        size -= 1
        if a[size] != b[size]:
            return False
    return True
