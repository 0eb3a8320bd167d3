# Distinct keys and where their entries are.
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcpy
from cython_ext.group_keys cimport Keys


cdef class GroupIndex:
    cdef int key_count
    cdef int* kinds           # of the key columns; the subclass owns it
    cdef uint32_t head        # bytes of an entry before its key size
    cdef char* arena
    cdef size_t arena_used, arena_capacity
    cdef uint64_t* slots      # top half of the hash above (reference of the entry + 1); 0: free
    cdef int slot_bits
    cdef size_t groups, groups_max
    cdef readonly uint64_t seed
    cdef readonly uint64_t hash_mask
    cdef readonly bint ordered   # filled from runs: groups are only read, for nothing finds them by key

    cdef inline size_t _entry_bytes(self, size_t key_size) noexcept nogil:
        return (self.head + 4 + key_size + 7) & ~<size_t>7

    cdef inline uint32_t _key_size(self, size_t at) noexcept nogil:
        cdef uint32_t size
        memcpy(&size, self.arena + at + self.head, 4)
        return size

    cdef int _reserve(self, size_t size) noexcept nogil
    cdef int _grow_slots(self) noexcept nogil
    cdef int _insert(self, Keys* keys, Py_ssize_t i) noexcept nogil
    # A group behind all others, whose key is new: its entry, zeros but for the key, in *entry. The index then is `ordered`.
    cdef int _append(self, const char* key, size_t key_size, char** entry) noexcept nogil
    cdef int _empty(self, bint keep_memory) except -1
    cdef size_t _free_slot(self, uint32_t tag) noexcept nogil
    cdef void _touch(self, Keys* keys) noexcept nogil
    # Fills refs (insert: of new entries, too) and leaves in slots where each key is; a key that is not there has a free
    # slot. 0, NO_MEMORY or TOO_LARGE.
    cdef int _find(self, Keys* keys, bint insert) noexcept nogil
    # The next batch of our entries as keys, of which only the first key_count parts; `rows` holds the references. Returns
    # where to go on.
    cdef size_t _refer_entries(self, size_t at, Keys* keys, int key_count) noexcept nogil
    cdef int _check_index(self) except -1
    cdef int _check_key(self, size_t at) except -1

cdef int raise_failure(int failed) except -1
