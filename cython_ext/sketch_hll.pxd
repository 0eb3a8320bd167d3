# HyperLogLog: distinct values, about.
from cython_ext.pack cimport Packed, Reader
from libc.stdint cimport uint32_t, uint64_t

# A block is NULL for the empty sketch, else memory from malloc that the caller frees; `heap` counts its bytes.
# -1: no memory.
cdef int hll_add(void** block, const char* data, size_t size, size_t* heap) noexcept nogil
cdef int hll_merge(void** into, void* other, size_t* heap) noexcept nogil
cdef double hll_estimate(void* block) noexcept nogil
cdef bint hll_is_sound(void* block) noexcept nogil
cdef bytes hll_serialize(void* block)
# The canonical form as a text of docs/RUN.md. Unpacking takes a text that is not nothing into a NULL block, up to its
# end: 0, -1 without memory, CORRUPT.
cdef int hll_pack(void* block, Packed* out) noexcept nogil
cdef int hll_unpack(void** block, Reader* text, size_t* heap) noexcept nogil
