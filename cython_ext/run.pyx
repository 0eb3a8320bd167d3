"""Runs: blocks of sorted groups in columns, and the run around them. docs/RUN.md defines every byte.

A block is a `bytes` object, whole and exactly as large as it must be. Compression is done by whoever owns blocks:
`compress_block` and `expand_block` take the codec as a function of bytes.
"""

cimport cython
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy, memset

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE

from cython_ext.column cimport K_BOOLEAN, K_DECIMAL, K_DOUBLE, K_NULL, K_STRING, i128
from cython_ext.group_keys cimport KEY_SIZE_MAX, NO_MEMORY, TOO_LARGE, key_double_is_sound, skip_key
from cython_ext.groups cimport GroupTable
from cython_ext.hashing cimport hash_bytes, read32, read64
from cython_ext.pack cimport CORRUPT, Packed, Reader, pack_bytes
from cython_ext.state_pack cimport STATE_COLUMNS_MAX, pack_state, state_columns, unpack_state
from cython_ext.states cimport S_COUNT, S_SUM_DECIMAL_WIDE, state_block, state_is_sound, state_owns_block

cdef extern from "sums.h" nogil:
    i128 i128_load(const void* at)
    bint sum_exceeds(i128 v, int digits)

VERSION = 1
BLOCK_BYTES_LIMIT = 0xFFFFFFFF

cdef bytes MAGIC = b"ELFR"
cdef enum:
    HEADER_BYTES = 16        # before the kinds
    TRAILER_BYTES = 24

cdef size_t COLUMN_BYTES_MAX = 0xFFFF0000


class RunError(ValueError):
    """Bytes that are no run, or not one of the expected keys and states: damaged, or made by something else."""


cdef int failure(int failed) except -1:
    if failed == NO_MEMORY:
        raise MemoryError("no memory for a run")
    if failed == TOO_LARGE:
        raise OverflowError("a group does not fit into a block of 4 GiB")
    if failed:
        raise RunError("a block of a run is damaged: its columns do not hold its groups")
    return 0


@cython.final
cdef class RunShape:
    def __cinit__(self, GroupTable table not None):
        cdef int s, k, kind
        self.table = table
        self.columns = 1
        self.items = <int*>malloc(sizeof(int) * (STATE_COLUMNS_MAX * table.state_count + 2 * STATE_COLUMNS_MAX))
        self.first = <int*>malloc(sizeof(int) * (table.state_count + 1))
        self.signed = <bint*>calloc(STATE_COLUMNS_MAX * (table.state_count + 1), sizeof(bint))
        if self.items == NULL or self.first == NULL or self.signed == NULL:
            raise MemoryError("no memory for the shape of a run")
        self.additive = True
        for s in range(table.state_count):
            self.first[s] = self.columns
            self.columns += state_columns(table.states[s].kind, self.items + self.columns)
            self.signed[self.columns - 1] = table.states[s].kind != S_COUNT
            self.additive = self.additive and table.states[s].kind <= S_SUM_DECIMAL_WIDE
        self.additive = self.additive and self.columns <= ADDED_COLUMNS_MAX
        self.texts = True
        for k in range(table.key_count):
            self.texts = self.texts and table.kinds[k] == K_STRING

    def __dealloc__(self):
        free(self.items)
        free(self.first)
        free(self.signed)

    cdef int unpack(self, Reader* items, char* entry, size_t* heap) noexcept nogil:
        # The states of one group, each item used up to its end, into an entry of zeros.
        cdef int s, c, failed
        for s in range(self.table.state_count):
            failed = unpack_state(&self.table.states[s], items + self.first[s], entry, heap)
            if failed:
                return failed
        for c in range(1, self.columns):
            if items[c].at != items[c].end:
                return CORRUPT
        return 0

    cdef void free_blocks(self, char* entry) noexcept nogil:
        cdef int s
        for s in range(self.table.state_count):
            if state_owns_block(self.table.states[s].kind):
                free(state_block(&self.table.states[s], entry)[0])
                state_block(&self.table.states[s], entry)[0] = NULL


@cython.final
cdef class BlockWriter:
    def __cinit__(self, RunShape shape not None):
        self.shape = shape
        self.columns = <Packed*>malloc(sizeof(Packed) * shape.columns)
        if self.columns == NULL:
            raise MemoryError("no memory for a block")
        memset(self.columns, 0, sizeof(Packed) * shape.columns)

    def __dealloc__(self):
        cdef int c
        if self.columns != NULL:
            for c in range(self.shape.columns):
                free(self.columns[c].data)
        free(self.columns)

    cdef int add_entry(self, uint64_t hash, const char* key, size_t key_size, char* entry) noexcept nogil:
        cdef int s
        if pack_bytes(&self.columns[0], key, key_size):
            return NO_MEMORY
        for s in range(self.shape.table.state_count):
            if pack_state(&self.shape.table.states[s], entry, self.columns + self.shape.first[s]):
                return NO_MEMORY
        count_bytes(self)
        count_group(self, hash)
        return 0

    cdef bytes cut(self):
        """The block of all groups since the last cut."""
        cdef size_t size = BLOCK_HEAD + 8 * self.shape.columns
        cdef int c
        cdef char* to
        cdef uint32_t word
        cdef bytes out
        for c in range(self.shape.columns):
            size += self.columns[c].used
        if size > COLUMN_BYTES_MAX:
            failure(TOO_LARGE)
        out = PyBytes_FromStringAndSize(NULL, size)
        to = PyBytes_AS_STRING(out)
        word = <uint32_t>size
        memcpy(to, &word, 4)
        memcpy(to + 4, &self.groups, 4)
        memcpy(to + 16, &self.first, 8)
        memcpy(to + 24, &self.last, 8)
        to += BLOCK_HEAD
        for c in range(self.shape.columns):
            word = <uint32_t>self.columns[c].used
            memcpy(to, &word, 4)
            memcpy(to + 4, &word, 4)
            to += 8
        for c in range(self.shape.columns):
            if self.columns[c].used:
                memcpy(to, self.columns[c].data, self.columns[c].used)
            to += self.columns[c].used
            self.columns[c].used = 0
            if self.columns[c].capacity > COLUMN_KEPT_MAX:
                free(self.columns[c].data)
                self.columns[c].data = NULL
                self.columns[c].capacity = 0
        _seal(PyBytes_AS_STRING(out), size)
        self.groups = 0
        self.used = 0
        return out


cdef size_t COLUMN_KEPT_MAX = 4 << 20   # a block with huge groups must not keep its memory


cdef void _seal(char* block, size_t size) noexcept nogil:
    cdef uint64_t sum = hash_bytes(0, 0, 0, block + 16, size - 16)
    memcpy(block + 8, &sum, 8)


# ---- blocks

cdef int _head_size(RunShape shape):
    return BLOCK_HEAD + 8 * shape.columns


cdef int _check_sizes(RunShape shape, bytes data) except -1:
    # That the columns fill the block exactly, and none is larger than the memory it came from can claim.
    cdef const char* at = PyBytes_AS_STRING(data)
    cdef size_t size = PyBytes_GET_SIZE(data), total = _head_size(shape)
    cdef int c
    if size < total or read32(at) != size or read32(at + 4) == 0:
        raise RunError(f"a block of {size} bytes claims another size")
    for c in range(shape.columns):
        if read32(at + BLOCK_HEAD + 8 * c + 4) > read32(at + BLOCK_HEAD + 8 * c):
            raise RunError(f"column {c} of a block is stored in more than its own size")
        total += read32(at + BLOCK_HEAD + 8 * c + 4)
    if total != size:
        raise RunError(f"the columns of a block take {total} bytes of {size}")
    return 0


cdef int open_block(RunShape shape, bytes data, Block* block, Reader* columns) except -1:
    """Refers to the columns of a block that is not compressed."""
    cdef const char* head = PyBytes_AS_STRING(data)
    cdef const char* at = head + _head_size(shape)
    cdef int c
    _check_sizes(shape, data)
    block.groups = <uint32_t>read32(head + 4)
    block.first = read64(head + 16)
    block.last = read64(head + 24)
    for c in range(shape.columns):
        if read32(head + BLOCK_HEAD + 8 * c) != read32(head + BLOCK_HEAD + 8 * c + 4):
            raise RunError("a compressed block must be expanded first")
        columns[c].at = at
        at += read32(head + BLOCK_HEAD + 8 * c)
        columns[c].end = at
    return 0


def block_head(bytes data not None):
    """(groups, first hash, last hash) of a block."""
    cdef const char* at = PyBytes_AS_STRING(data)
    if PyBytes_GET_SIZE(data) < BLOCK_HEAD:
        raise RunError(f"{len(data)} bytes are no block")
    return read32(at + 4), read64(at + 16), read64(at + 24)


def check_sum(bytes data not None):
    """Raises RunError unless the block is as it was written."""
    cdef const char* at = PyBytes_AS_STRING(data)
    cdef size_t size = PyBytes_GET_SIZE(data)
    if size < BLOCK_HEAD or read32(at) != size or hash_bytes(0, 0, 0, at + 16, size - 16) != read64(at + 8):
        raise RunError(f"a block of {size} bytes is damaged: its checksum differs")


cdef bytes _assemble(bytes head, list columns):
    cdef bytes out = head + b"".join(columns)
    cdef char* at = PyBytes_AS_STRING(out)
    cdef uint32_t size = <uint32_t>PyBytes_GET_SIZE(out)
    memcpy(at, &size, 4)
    _seal(at, size)
    return out


def compress_block(RunShape shape not None, bytes data not None, compress, Py_ssize_t bytes_min=64):
    """The block with its columns of at least `bytes_min` bytes compressed where that makes them smaller.

    `compress` makes one zstd frame of a memoryview. A block that gains nothing comes back as it is.
    """
    cdef const char* head = PyBytes_AS_STRING(data)
    cdef size_t at = _head_size(shape), raw
    cdef bytearray out = bytearray(data[:at])
    cdef list columns = []
    cdef int c
    cdef bint gained = False
    view = memoryview(data)
    _check_sizes(shape, data)
    for c in range(shape.columns):
        raw = read32(head + BLOCK_HEAD + 8 * c)
        column = view[at:at + read32(head + BLOCK_HEAD + 8 * c + 4)]
        at += len(column)
        if <Py_ssize_t>raw >= bytes_min and raw == <size_t>len(column):
            packed = compress(column)
            if <size_t>len(packed) < raw:
                column = packed
                gained = True
        out[BLOCK_HEAD + 8 * c + 4:BLOCK_HEAD + 8 * c + 8] = len(column).to_bytes(4, "little")
        columns.append(column)
    return _assemble(bytes(out), columns) if gained else data


def is_compressed(RunShape shape not None, bytes data not None):
    """Whether any column of the block is a zstd frame."""
    cdef const char* head = PyBytes_AS_STRING(data)
    cdef int c
    _check_sizes(shape, data)
    for c in range(shape.columns):
        if read32(head + BLOCK_HEAD + 8 * c) != read32(head + BLOCK_HEAD + 8 * c + 4):
            return True
    return False


def expanded_size(RunShape shape not None, bytes data not None):
    """The bytes of the block once no column is compressed."""
    cdef const char* head = PyBytes_AS_STRING(data)
    cdef int c
    cdef size_t size = _head_size(shape)
    _check_sizes(shape, data)
    for c in range(shape.columns):
        size += read32(head + BLOCK_HEAD + 8 * c)
    return size


def expand_block(RunShape shape not None, bytes data not None, expand, size_t bytes_max=BLOCK_BYTES_LIMIT):
    """The block with no column compressed.

    `expand(frame, size)` returns exactly the bytes of a zstd frame, at most `size` of them, or raises. Raises RunError when
    the block would have more than `bytes_max` bytes, before anything is allocated, or a frame is not as large as it claims.
    """
    cdef const char* head = PyBytes_AS_STRING(data)
    cdef size_t at = _head_size(shape), size, raw, stored
    cdef uint32_t word
    cdef int c
    cdef bytes out, column
    cdef char* start
    cdef char* to
    if not is_compressed(shape, data):
        return data
    size = expanded_size(shape, data)
    if size > bytes_max:
        raise RunError(f"a block of {size} bytes, but {bytes_max} are allowed")
    view = memoryview(data)
    out = PyBytes_FromStringAndSize(NULL, size)
    start = PyBytes_AS_STRING(out)
    memcpy(start, head, at)
    word = <uint32_t>size
    memcpy(start, &word, 4)
    to = start + at
    for c in range(shape.columns):
        raw = read32(head + BLOCK_HEAD + 8 * c)
        stored = read32(head + BLOCK_HEAD + 8 * c + 4)
        memcpy(start + BLOCK_HEAD + 8 * c + 4, head + BLOCK_HEAD + 8 * c, 4)
        if stored == raw:
            memcpy(to, head + at, raw)
        else:
            column = bytes(expand(view[at:at + stored], raw))
            if <size_t>len(column) != raw:
                raise RunError(f"column {c} of a block expands to {len(column)} bytes, not {raw}")
            memcpy(to, PyBytes_AS_STRING(column), raw)
        at += stored
        to += raw
    _seal(start, size)
    return out


def check_block(RunShape shape not None, bytes data not None):
    """Raises RunError unless the uncompressed block is sound: every item, key and hash, and the order. O(bytes)."""
    check_sum(data)
    _check_columns(shape, data)


cdef int _check_columns(RunShape shape, bytes data) except -1:
    # All of it but the checksum.
    cdef Block block
    cdef Reader* columns = <Reader*>malloc(sizeof(Reader) * 3 * shape.columns)
    cdef char* entry = <char*>malloc(shape.table.head + 8)
    cdef int failed
    try:
        if columns == NULL or entry == NULL:
            raise MemoryError("no memory to check a block")
        open_block(shape, data, &block, columns)
        with nogil:
            failed = _check_groups(shape, &block, columns, entry)
        failure(failed)
    finally:
        free(columns)
        free(entry)
    return 0


cdef bint _key_is_sound(RunShape shape, const char* at) noexcept nogil:
    # Whether an encoded key, whose items are known to be there, is the one that its values have.
    cdef int k, kind
    for k in range(shape.table.key_count):
        kind = shape.table.kinds[k]
        if kind != K_STRING and at[0]:
            if kind == K_NULL or (<uint8_t>at[0]) > (2 if kind == K_BOOLEAN else 1):
                return False
            if kind == K_DOUBLE and not key_double_is_sound(read64(at + 1)):
                return False
            if kind == K_DECIMAL and sum_exceeds(i128_load(at + 1), 38):
                return False
        at = skip_key(at, kind)
    return True


cdef inline bint _numbers_are_short(RunShape shape, const Reader* items) noexcept nogil:
    # Whether the states of a group are varints of at most 56 bits: any count or sum may have those, if they are the shortest.
    cdef int c
    cdef Py_ssize_t size
    for c in range(1, shape.columns):
        size = items[c].end - items[c].at
        if size > 8 or (size > 1 and (items[c].end - 1)[0] == 0):
            return False
    return True


cdef int _check_groups(RunShape shape, const Block* block, Reader* columns, char* entry) noexcept nogil:
    cdef Reader* items = columns + shape.columns
    cdef Reader* before = items + shape.columns
    cdef uint64_t hash, last = 0
    cdef uint32_t i
    cdef size_t heap = 0
    cdef int c, s, failed
    cdef bint sound
    for i in range(block.groups):
        if shape_skip(shape, columns, items) or items[0].end - items[0].at > KEY_SIZE_MAX:
            return CORRUPT
        if not shape.texts and not _key_is_sound(shape, items[0].at):
            return CORRUPT
        hash = shape_hash(shape, items)
        if i == 0 and hash != block.first:
            return CORRUPT
        if i and (hash < last or (hash == last and compare_keys(&before[0], &items[0]) >= 0)):
            return CORRUPT
        last = hash
        before[0] = items[0]
        if shape.additive and _numbers_are_short(shape, items):
            continue
        memset(entry, 0, shape.table.head + 8)
        failed = shape.unpack(items, entry, &heap)
        sound = True
        if not failed:
            for s in range(shape.table.state_count):
                if not state_is_sound(&shape.table.states[s], entry):
                    sound = False
        shape.free_blocks(entry)
        if failed or not sound:
            return failed if failed else CORRUPT
    for c in range(shape.columns):
        if columns[c].at != columns[c].end:
            return CORRUPT
    return 0 if last == block.last else CORRUPT


cdef int compare_keys(const Reader* a, const Reader* b) noexcept nogil:
    cdef size_t a_size = a.end - a.at, b_size = b.end - b.at
    cdef int order = memcmp(a.at, b.at, min(a_size, b_size))
    if order:
        return order
    return (a_size > b_size) - (a_size < b_size)


# ---- runs

def _checksum(bytes data):
    return hash_bytes(0, 0, 0, PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data)).to_bytes(8, "little")


def run_header(RunShape shape not None):
    """The bytes in front of the blocks of a run."""
    cdef GroupTable table = shape.table
    head = MAGIC + bytes([VERSION, int(table.hash_mask).bit_count(), table.key_count, table.state_count])
    head += int(table.seed).to_bytes(8, "little") + bytes(table.key_kinds) + bytes(table.state_kinds)
    return head + _checksum(head)


def run_trailer(uint32_t blocks, uint64_t groups):
    """The bytes behind the blocks of a run."""
    counts = int(groups).to_bytes(8, "little")
    return bytes(4) + int(blocks).to_bytes(4, "little") + _checksum(counts) + counts


def encode_run(RunShape shape not None, blocks):
    """The run of some blocks, compressed or not, of ascending hashes. O(bytes)."""
    blocks = list(blocks)
    groups = sum(block_head(block)[0] for block in blocks)
    return b"".join([run_header(shape), *blocks, run_trailer(len(blocks), groups)])


def decode_run(RunShape shape not None, data, expand, size_t bytes_max=1 << 30, size_t block_bytes_max=64 << 20,
               size_t expanded_bytes_max=1 << 30):
    """The uncompressed blocks of a run that came from outside, every byte checked.

    `data` is bytes-like, `expand` as for `expand_block`; limits are for `data`, for a block once expanded, and for all
    of them. Raises RunError for anything but a sound run of the same keys, states, seed and version. O(bytes).
    """
    cdef list blocks = []
    cdef size_t left = expanded_bytes_max, allowed
    cdef uint64_t groups = 0, at, size, last = 0
    view = memoryview(data).cast("B")
    if <size_t>len(view) > bytes_max:
        raise RunError(f"a run of {len(view)} bytes, but {bytes_max} are allowed")
    header = run_header(shape)
    _check_header(shape, bytes(view[:len(header)]), header)
    at = len(header)
    while True:
        size = int.from_bytes(view[at:at + 4], "little")
        if <Py_ssize_t>(at + max(<int64_t>size, TRAILER_BYTES)) > len(view):
            raise RunError(f"the run ends after {len(view)} bytes, inside of block {len(blocks)}")
        if size == 0:
            break
        block = bytes(view[at:at + size])
        check_sum(block)
        allowed = min(block_bytes_max, left)
        block = expand_block(shape, block, expand, allowed)
        if <size_t>len(block) > allowed:
            raise RunError(f"a block of {len(block)} bytes, but {allowed} are allowed")
        left -= <size_t>len(block)
        _check_columns(shape, block)  # its bytes are those that came, or were expanded here
        if blocks and block_head(block)[1] <= last:
            raise RunError(f"block {len(blocks)} does not go on where the one before it ends")
        last = block_head(block)[2]
        groups += block_head(block)[0]
        blocks.append(block)
        at += size
    if bytes(view[at:]) != run_trailer(len(blocks), groups):
        raise RunError(f"the trailer does not speak of {len(blocks)} blocks and {groups} groups")
    return blocks


cdef int _check_header(RunShape shape, bytes found, bytes expected) except -1:
    if found == expected:
        return 0
    if found[:4] != MAGIC:
        raise RunError("the bytes do not begin as a run does")
    if len(found) > 4 and found[4] != VERSION:
        raise RunError(f"a run of version {found[4]}; this program reads version {VERSION}")
    if len(found) == len(expected) and found[:16] == expected[:16]:
        raise RunError("the run is of other keys or states, or its header is damaged")
    raise RunError("the run is of other keys, states or seed, or its header is damaged")
