# Encoded group keys: how columns become bytes, and what a batch of them looks like. docs/AGGREGATES.md defines them.
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp
from cython_ext.column cimport Column, K_BOOLEAN, K_DECIMAL, K_STRING
from cython_ext.hashing cimport read64
from cython_ext.states cimport BATCH_ROWS_MAX

cdef enum:
    KEY_SIZE_MAX = 1 << 30   # bytes of an encoded key
    NO_MEMORY = -1
    TOO_LARGE = -2

cdef struct KeyColumn:
    int kind
    const char* data
    const uint8_t* valid
    Py_ssize_t step


cdef struct Keys:
    # The encoded keys of a batch: key i is the byte lead[i] when lead_sizes[i] is 1, then sizes[i] bytes at data[i].
    Py_ssize_t length
    const char* data[BATCH_ROWS_MAX]
    uint32_t sizes[BATCH_ROWS_MAX]
    uint8_t lead[BATCH_ROWS_MAX]
    uint8_t lead_sizes[BATCH_ROWS_MAX]
    uint32_t rows[BATCH_ROWS_MAX]
    uint32_t tags[BATCH_ROWS_MAX]    # top half of the hashes
    size_t slots[BATCH_ROWS_MAX]
    uint32_t refs[BATCH_ROWS_MAX]    # the entries found, in units of 8 bytes


cdef struct Scratch:
    char* data
    size_t capacity

cdef int refer_key(KeyColumn* key, Column column, int kind, Py_ssize_t rows) except -1
# Both fill data, sizes and lead for the rows of the batch; 0, NO_MEMORY or TOO_LARGE. `refer_texts` is for one STRING key.
cdef int encode_keys(const KeyColumn* columns, int count, Keys* keys, Scratch* scratch) noexcept nogil
cdef int refer_texts(const KeyColumn* column, Keys* keys, Scratch* scratch) noexcept nogil
cdef bint key_double_is_sound(uint64_t bits) noexcept nogil  # the bits that a DOUBLE has in keys
cdef void read_value(Column column, Py_ssize_t row, const char* bytes) noexcept nogil  # of an encoded key, not NULL


cdef inline const char* get_length(const char* at, uint64_t* value) noexcept nogil:
    cdef int shift = 0
    value[0] = 0
    while (<uint8_t>at[0]) >= 128:
        value[0] |= <uint64_t>((<uint8_t>at[0]) & 127) << shift
        shift += 7
        at += 1
    value[0] |= <uint64_t>(<uint8_t>at[0]) << shift
    return at + 1


cdef inline const char* skip_key(const char* at, int kind) noexcept nogil:
    # To the byte behind one encoded key.
    cdef uint64_t size
    if kind == K_STRING:
        at = get_length(at, &size)
        return at + (size - 1 if size else 0)
    if kind == K_BOOLEAN or at[0] == 0:
        return at + 1
    return at + (17 if kind == K_DECIMAL else 9)


cdef inline bint same_bytes(const char* a, const char* b, size_t size) noexcept nogil:
    if size < 8:
        return size == 0 or memcmp(a, b, size) == 0
    while size > 8:
        if read64(a) != read64(b):
            return False
        size -= 8
        a += 8
        b += 8
    return read64(a + size - 8) == read64(b + size - 8)
