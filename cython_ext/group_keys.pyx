"""Encoded group keys: bytes that are equal exactly when the keys are, and that decode back.

Keys are encoded for a batch of rows, column by column, into scratch memory; a single STRING key is not even copied,
for its bytes lie in the block already. docs/AGGREGATES.md defines the encoding.
"""

from libc.math cimport isnan
from libc.stdlib cimport realloc
from libc.string cimport memcpy, memset

from cython_ext.column cimport K_DOUBLE, K_NULL, StringRef
from cython_ext.states cimport check_column

cdef enum:
    LEAD_TEXT_MAX = 126      # a longer STRING has a length of more than one byte in front of it


cdef inline int _length_bytes(uint64_t value) noexcept nogil:
    cdef int size = 1
    while value >= 128:
        value >>= 7
        size += 1
    return size


cdef inline char* _put_length(char* to, uint64_t value) noexcept nogil:
    while value >= 128:
        to[0] = <char>(value | 128)
        value >>= 7
        to += 1
    to[0] = <char>value
    return to + 1





cdef inline uint64_t _double_bits(double value) noexcept nogil:
    cdef uint64_t bits = <uint64_t>0x7FF8000000000000
    if not isnan(value):
        value = value + 0.0
        memcpy(&bits, &value, 8)
    return bits


cdef bint key_double_is_sound(uint64_t bits) noexcept nogil:
    cdef double value
    memcpy(&value, &bits, 8)
    return _double_bits(value) == bits


cdef void _measure_keys(const KeyColumn* column, Keys* keys) noexcept nogil:
    # Adds what the column takes in each key to sizes; the largest size is caught before it wraps.
    cdef Py_ssize_t i, row
    cdef uint64_t size
    for i in range(keys.length):
        row = keys.rows[i] * column.step
        if column.kind == K_BOOLEAN or column.kind == K_NULL:
            size = 1
        elif column.valid != NULL and not column.valid[row]:
            size = 1
        elif column.kind == K_STRING:
            size = (<const StringRef*>column.data)[row].size
            size += _length_bytes(size + 1)
        else:
            size = 17 if column.kind == K_DECIMAL else 9
        size += keys.sizes[i]
        keys.sizes[i] = KEY_SIZE_MAX + 1 if size > KEY_SIZE_MAX else <uint32_t>size


cdef inline char* _write_value(const KeyColumn* column, Py_ssize_t row, char* to) noexcept nogil:
    cdef const StringRef* text
    cdef uint64_t bits
    if column.kind == K_STRING:
        text = <const StringRef*>column.data + row
        to = _put_length(to, <uint64_t>text.size + 1)
        if text.size == 0:
            return to
        memcpy(to, text.data, text.size)
        return to + text.size
    if column.kind == K_BOOLEAN:
        to[0] = 2 if (<const uint8_t*>column.data)[row] else 1
        return to + 1
    to[0] = 1
    if column.kind == K_DECIMAL:
        memcpy(to + 1, column.data + 16 * row, 16)
        return to + 17
    if column.kind == K_DOUBLE:
        bits = _double_bits((<const double*>column.data)[row])
        memcpy(to + 1, &bits, 8)
    else:
        memcpy(to + 1, column.data + 8 * row, 8)
    return to + 9


cdef void _write_keys(const KeyColumn* column, const Keys* keys, char** ends) noexcept nogil:
    cdef Py_ssize_t i, row
    for i in range(keys.length):
        row = keys.rows[i] * column.step
        if column.kind == K_NULL or (column.valid != NULL and not column.valid[row]):
            ends[i][0] = 0
            ends[i] += 1
        else:
            ends[i] = _write_value(column, row, ends[i])


cdef char* _reserve(Scratch* scratch, size_t size) noexcept nogil:
    cdef char* data = scratch.data
    if size > scratch.capacity or data == NULL:
        data = <char*>realloc(data, size + size // 2 + 64)
        if data != NULL:
            scratch.data = data
            scratch.capacity = size + size // 2 + 64
    return data


cdef int encode_keys(const KeyColumn* columns, int count, Keys* keys, Scratch* scratch) noexcept nogil:
    # Column by column into scratch memory.
    cdef char* ends[BATCH_ROWS_MAX]
    cdef size_t total = 0
    cdef Py_ssize_t i
    cdef int c
    cdef char* data
    memset(keys.sizes, 0, sizeof(uint32_t) * keys.length)
    for c in range(count):
        _measure_keys(&columns[c], keys)
    for i in range(keys.length):
        if keys.sizes[i] > KEY_SIZE_MAX:
            return TOO_LARGE
        total += keys.sizes[i]
    data = _reserve(scratch, total)
    if data == NULL:
        return NO_MEMORY
    for i in range(keys.length):
        keys.data[i] = data
        keys.lead_sizes[i] = 0
        ends[i] = data
        data += keys.sizes[i]
    for c in range(count):
        _write_keys(&columns[c], keys, ends)
    return 0


cdef int refer_texts(const KeyColumn* column, Keys* keys, Scratch* scratch) noexcept nogil:
    # A single STRING key stays where it is; only long ones, whose length does not fit the lead byte, are copied.
    cdef Py_ssize_t i, row
    cdef size_t total = 0
    cdef const StringRef* texts = <const StringRef*>column.data
    cdef char* data = NULL
    for i in range(keys.length):
        row = keys.rows[i] * column.step
        keys.lead_sizes[i] = 1
        if column.valid != NULL and not column.valid[row]:
            keys.lead[i] = 0
            keys.sizes[i] = 0
            keys.data[i] = NULL
            continue
        keys.data[i] = texts[row].data
        keys.sizes[i] = texts[row].size
        keys.lead[i] = <uint8_t>(texts[row].size + 1)
        if texts[row].size > LEAD_TEXT_MAX:
            keys.lead_sizes[i] = 0
            total += <size_t>texts[row].size + 5
            if texts[row].size > KEY_SIZE_MAX - 5:
                return TOO_LARGE
    if total == 0:
        return 0
    data = _reserve(scratch, total)
    if data == NULL:
        return NO_MEMORY
    for i in range(keys.length):
        if not keys.lead_sizes[i]:
            row = keys.rows[i] * column.step
            keys.data[i] = data
            data = _write_value(column, row, data)
            keys.sizes[i] = <uint32_t>(data - keys.data[i])
    return 0


cdef void read_value(Column column, Py_ssize_t row, const char* bytes) noexcept nogil:
    cdef uint64_t size
    cdef StringRef* text
    if column.kind == K_STRING:
        text = column.strings() + row
        text.data = get_length(bytes, &size)
        text.size = <uint32_t>(size - 1)
    elif column.kind == K_BOOLEAN:
        column.booleans()[row] = bytes[0] - 1
    elif column.kind == K_DECIMAL:
        memcpy(column.decimals() + row, bytes + 1, 16)
    else:
        memcpy(column.longs() + row, bytes + 1, 8)


cdef int refer_key(KeyColumn* key, Column column, int kind, Py_ssize_t rows) except -1:
    check_column(column, kind, rows, "key")
    key.kind = column.kind
    key.data = <const char*>column.data
    key.valid = column.valid
    key.step = column.step()
    return 0
