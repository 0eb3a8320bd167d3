# Quantiles: how many values lie in each bucket of 1 % relative width.
from cython_ext.pack cimport Packed, Reader
from libc.stdint cimport uint64_t

# A block is NULL for the empty sketch, else memory from malloc that the caller frees; `heap` counts its bytes.
# -1: no memory.
cdef int quantiles_add(void** block, double value, size_t* heap) noexcept nogil
cdef int quantiles_merge(void** into, void* other, size_t* heap) noexcept nogil
cdef uint64_t quantiles_count(void* block) noexcept nogil
cdef int quantiles_find(void* block, double p, double* value) noexcept nogil  # 0: empty, 1: found
cdef bint quantiles_is_sound(void* block) noexcept nogil
# The canonical form as a text of docs/RUN.md. Unpacking takes a text that is not nothing into a NULL block, up to its
# end: 0, -1 without memory, CORRUPT.
cdef int quantiles_pack(void* block, Packed* out) noexcept nogil
cdef int quantiles_unpack(void** block, Reader* text, size_t* heap) noexcept nogil
