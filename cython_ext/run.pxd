# Blocks of runs under construction and opened: docs/RUN.md.
cimport cython
from libc.stdint cimport uint32_t, uint64_t

from cython_ext.column cimport K_BOOLEAN, K_DECIMAL, K_NULL, K_STRING
from cython_ext.group_keys cimport NO_MEMORY
from cython_ext.groups cimport GroupTable
from cython_ext.hashing cimport hash_bytes
from cython_ext.pack cimport CORRUPT, Packed, Reader, pack_item, pack_varint, read_bytes, read_varint, skip_varint
from cython_ext.state_pack cimport ITEM_VARINT, skip_item

cdef enum:
    BLOCK_HEAD = 32          # bytes before the sizes of the columns
    ADDED_COLUMNS_MAX = 16

@cython.final
cdef class RunShape:
    # What the columns of a table's runs are. `table` is any table of the same keys and states.
    cdef GroupTable table
    cdef int columns         # the keys and what states have
    cdef int* items          # of column c > 0: its kind
    cdef int* first          # of state s: its first column
    cdef bint additive       # every state is a count or a sum of integers, in few columns
    cdef bint* signed        # of column c > 0: zigzag, if additive
    cdef bint texts          # every key is a STRING

    cdef int unpack(self, Reader* items, char* entry, size_t* heap) noexcept nogil
    cdef void free_blocks(self, char* entry) noexcept nogil


@cython.final
cdef class BlockWriter:
    # Columns of the block that is being written.
    cdef RunShape shape
    cdef Packed* columns
    cdef size_t used
    cdef uint32_t groups
    cdef uint64_t first, last

    cdef int add_entry(self, uint64_t hash, const char* key, size_t key_size, char* entry) noexcept nogil
    cdef bytes cut(self)


cdef struct Block:
    # An opened block: the columns lie in its bytes.
    uint32_t groups
    uint64_t first, last

cdef int open_block(RunShape shape, bytes data, Block* block, Reader* columns) except -1
cdef int failure(int failed) except -1
cdef int compare_keys(const Reader* a, const Reader* b) noexcept nogil


# Every group goes through these: inlined where they are used.

cdef inline uint64_t shape_hash(RunShape shape, const Reader* key) noexcept nogil:
    return hash_bytes(shape.table.seed, 0, 0, key.at, key.end - key.at) & shape.table.hash_mask


cdef inline int shape_skip_key(RunShape shape, Reader* column) noexcept nogil:
    cdef int k, kind
    cdef uint64_t size = 0
    cdef const char* data = NULL
    for k in range(shape.table.key_count):
        kind = shape.table.kinds[k]
        if kind == K_STRING:
            if read_varint(column, &size) or (size and read_bytes(column, size - 1, &data)):
                return CORRUPT
            continue
        if column.at >= column.end:
            return CORRUPT
        size = 1
        if column.at[0] and kind != K_BOOLEAN and kind != K_NULL:
            size = 17 if kind == K_DECIMAL else 9
        if read_bytes(column, size, &data):
            return CORRUPT
    return 0


cdef inline int shape_skip(RunShape shape, Reader* columns, Reader* items) noexcept nogil:
    # Moves each column behind its next item, which goes into `items`.
    cdef int c
    cdef const char* at = columns[0].at
    items[0].at = at
    if shape_skip_key(shape, columns):
        return CORRUPT
    items[0].end = columns[0].at
    for c in range(1, shape.columns):
        at = columns[c].at
        items[c].at = at
        if shape.items[c] == ITEM_VARINT:
            if skip_varint(&columns[c]):
                return CORRUPT
        elif skip_item(shape.items[c], &columns[c]):
            return CORRUPT
        items[c].end = columns[c].at
    return 0


cdef inline int add_items(BlockWriter writer, uint64_t hash, const Reader* items) noexcept nogil:
    # A group as another block holds it.
    cdef int c
    for c in range(writer.shape.columns):
        if pack_item(&writer.columns[c], &items[c]):
            return NO_MEMORY
        writer.used += items[c].end - items[c].at
    count_group(writer, hash)
    return 0


cdef inline int add_words(BlockWriter writer, uint64_t hash, const Reader* key, const uint64_t* words) noexcept nogil:
    # A group whose columns c > 0 are the varints of `words`.
    cdef int c
    if pack_item(&writer.columns[0], key):
        return NO_MEMORY
    for c in range(1, writer.shape.columns):
        if pack_varint(&writer.columns[c], words[c]):
            return NO_MEMORY
    count_bytes(writer)
    count_group(writer, hash)
    return 0


cdef inline void count_bytes(BlockWriter writer) noexcept nogil:
    cdef int c
    writer.used = 0
    for c in range(writer.shape.columns):
        writer.used += writer.columns[c].used


cdef inline void count_group(BlockWriter writer, uint64_t hash) noexcept nogil:
    if writer.groups == 0:
        writer.first = hash
    writer.last = hash
    writer.groups += 1
