# The group table's inside, for the kernels that turn tables into runs and runs into tables.
cimport cython
from libc.stdint cimport int64_t, uint32_t

from cython_ext.column cimport Column, Selection
from cython_ext.group_index cimport GroupIndex
from cython_ext.group_keys cimport KeyColumn, Keys, Scratch
from cython_ext.states cimport Input, State


@cython.final
cdef class GroupTable(GroupIndex):
    cdef readonly tuple key_kinds
    cdef readonly tuple state_kinds
    cdef readonly bint frozen  # STRINGs that point into the table were handed out: it can no longer change
    cdef int state_count
    cdef State* states
    cdef size_t heap           # bytes of blocks that states own

    cdef int _lay_out(self) except -1
    cdef void _free_blocks(self, const State* state) noexcept nogil
    cdef int _check_open(self) except -1
    cdef int _check_shapes(self, keys, inputs, masks, Py_ssize_t rows, Selection selection) except -1
    cdef Py_ssize_t _update(self, const KeyColumn* key_columns, const Input* columns, Py_ssize_t rows, Selection selection,
                            Scratch* scratch, Py_ssize_t start, size_t bytes_max) noexcept nogil
    cdef int _locate(self, const KeyColumn* key_columns, Keys* keys, Scratch* scratch) noexcept nogil
    cdef int _ensure_group(self) noexcept nogil
    cdef int _merge(self, GroupTable other) noexcept nogil
    cdef void _number_slots(self, uint32_t* ordinals) noexcept nogil
    cdef void _count_pairs(self, GroupTable pairs, const uint32_t* ordinals, int64_t* counts) noexcept nogil
    cdef bint _has_null(self, const char* at, int first) noexcept nogil
    cdef void _decode_keys(self, int key, Column column) noexcept nogil
