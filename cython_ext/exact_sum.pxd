# Exact sums of doubles and their one rounding.
from cython_ext.pack cimport Packed, Reader
from libc.stdint cimport uint64_t

# A block is NULL for zero, else memory from malloc that the caller frees; `heap` counts its bytes. -1: no memory.
cdef int exact_add(void** block, double value, size_t* heap) noexcept nogil
cdef int exact_merge(void** into, void* other, size_t* heap) noexcept nogil
cdef double exact_value(void* block, uint64_t divisor) noexcept nogil
cdef bint exact_is_sound(void* block) noexcept nogil
# words * 2**exponent / divisor, rounded to nearest even once; at most 36 little-endian words.
cdef double divide_words(bint negative, const uint64_t* words, int count, int exponent, uint64_t divisor) noexcept nogil
# The canonical form as a text of docs/RUN.md. Unpacking takes a text that is not nothing into a NULL block, up to its
# end: 0, -1 without memory, CORRUPT.
cdef int exact_pack(void* block, Packed* out) noexcept nogil
cdef int exact_unpack(void** block, Reader* text, size_t* heap) noexcept nogil
