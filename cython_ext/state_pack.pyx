"""States to items of columns and back: the canonical forms that runs hold. docs/RUN.md defines them."""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport malloc
from libc.string cimport memcpy

from cython_ext.column cimport K_BOOLEAN, K_DECIMAL, K_DOUBLE, K_STRING
from cython_ext.exact_sum cimport exact_pack, exact_unpack
from cython_ext.pack cimport (CORRUPT, Packed, Reader, pack_bytes, pack_room, pack_text_head, pack_varint, pack_wide, read_byte,
                              read_bytes, read_text, read_varint, read_wide, skip_varint, zigzag)
from cython_ext.sketch_hll cimport hll_pack, hll_unpack
from cython_ext.sketch_quantiles cimport quantiles_pack, quantiles_unpack
from cython_ext.states cimport (S_COUNT, S_HLL, S_QUANTILES, S_SUM, S_SUM_DECIMAL, S_SUM_DECIMAL_WIDE, S_SUM_DOUBLE, State,
                                Text)

cdef uint64_t _NO_WORD = 0


cdef int state_columns(int kind, int* items) noexcept nogil:
    items[0] = ITEM_VARINT
    items[1] = ITEM_VARINT
    if kind == S_COUNT:
        return 1
    if kind == S_SUM or kind == S_SUM_DECIMAL or kind == S_SUM_DECIMAL_WIDE:
        return 2
    if kind == S_SUM_DOUBLE:
        items[1] = ITEM_TEXT
        return 2
    if kind >= S_HLL or kind % 10 == K_STRING:
        items[0] = ITEM_TEXT
    elif kind % 10 == K_DOUBLE:
        items[0] = ITEM_DOUBLE
    return 1


cdef int skip_item(int item, Reader* column) noexcept nogil:
    cdef Reader text
    if item == ITEM_VARINT:
        return skip_varint(column)
    if item == ITEM_TEXT:
        return CORRUPT if read_text(column, &text) < 0 else 0
    if column.at >= column.end:
        return CORRUPT
    return read_bytes(column, 9 if column.at[0] else 1, &text.at)


# ---- integers of several words, as zigzag varints

cdef inline int _pack_signed(Packed* out, const uint64_t* value, int words, uint64_t more) noexcept nogil:
    # zigzag(value) + more
    cdef uint64_t wide[3]
    cdef uint64_t mask = <uint64_t>(<int64_t>value[words - 1] >> 63)
    cdef int i
    cdef bint short = True
    for i in range(words - 1):
        if value[i + 1] != <uint64_t>(<int64_t>value[0] >> 63):
            short = False
    if short:
        wide[0] = zigzag(<int64_t>value[0])
        if wide[0] + more >= wide[0]:
            return pack_varint(out, wide[0] + more)
    wide[1] = 0
    wide[2] = 0
    for i in range(words - 1, 0, -1):
        wide[i] = ((value[i] << 1) | (value[i - 1] >> 63)) ^ mask
    wide[0] = (value[0] << 1) ^ mask
    for i in range(3):
        wide[i] += more
        if wide[i] >= more:
            break
    return pack_wide(out, wide)


cdef inline int _read_signed(Reader* column, uint64_t* value, int words, uint64_t less) noexcept nogil:
    # The integer of zigzag varint - less into `words` words; CORRUPT when it does not fit.
    cdef uint64_t wide[3]
    cdef uint64_t mask, borrow = less
    cdef int i
    if column.at < column.end and (<uint8_t>column.at[0]) < 128 and (<uint8_t>column.at[0]) >= less:
        # One byte, as most are.
        wide[0] = <uint8_t>column.at[0] - less
        column.at += 1
        mask = 0 - (wide[0] & 1)
        value[0] = (wide[0] >> 1) ^ mask
        for i in range(1, words):
            value[i] = mask
        return 0
    if read_wide(column, wide):
        return CORRUPT
    for i in range(3):
        if wide[i] >= borrow:
            wide[i] -= borrow
            borrow = 0
            break
        wide[i] -= borrow
        borrow = 1
    if borrow:
        return CORRUPT
    for i in range(words, 3):
        if wide[i]:
            return CORRUPT
    mask = 0 - (wide[0] & 1)
    for i in range(words):
        value[i] = ((wide[i] >> 1) | (wide[i + 1] << 63 if i + 1 < words else _NO_WORD)) ^ mask
    return 0


# ---- states

cdef int _pack_text(Text* text, Packed* out) noexcept nogil:
    if text == NULL:
        return pack_varint(out, 0)
    if pack_text_head(out, text.size):
        return -1
    return pack_bytes(out, <char*>(text + 1), text.size)


cdef int _pack_ordered(const State* state, char* entry, Packed* out) noexcept nogil:
    cdef int kind = state.kind % 10
    cdef char* at = entry + state.offset
    cdef uint8_t flag
    if kind == K_STRING:
        return _pack_text((<Text**>at)[0], out)
    flag = (<uint8_t*>entry)[state.flag]
    if kind == K_BOOLEAN or not flag:
        return pack_varint(out, flag)
    if kind == K_DOUBLE:
        return pack_bytes(out, <const char*>&flag, 1) | pack_bytes(out, at, 8)
    return _pack_signed(out, <uint64_t*>at, 2 if kind == K_DECIMAL else 1, 1)


cdef int pack_state(const State* state, char* entry, Packed* columns) noexcept nogil:
    cdef uint64_t* words = <uint64_t*>(entry + state.offset)
    if state.kind == S_COUNT:
        return pack_varint(&columns[0], words[0])
    if state.kind == S_SUM or state.kind == S_SUM_DECIMAL:
        return pack_varint(&columns[0], words[2]) | _pack_signed(&columns[1], words, 2, 0)
    if state.kind == S_SUM_DECIMAL_WIDE:
        return pack_varint(&columns[0], words[3]) | _pack_signed(&columns[1], words, 3, 0)
    if state.kind == S_SUM_DOUBLE:
        return pack_varint(&columns[0], words[0]) | exact_pack((<void**>words)[1], &columns[1])
    if state.kind >= S_QUANTILES:
        return quantiles_pack((<void**>words)[0], columns)
    if state.kind >= S_HLL:
        return hll_pack((<void**>words)[0], columns)
    return _pack_ordered(state, entry, columns)


cdef int _unpack_text(Reader* column, Text** block, size_t* heap) noexcept nogil:
    cdef Reader text
    cdef size_t size
    cdef int got = read_text(column, &text)
    if got != 1:
        return got
    size = text.end - text.at
    if size > <size_t>0xFFFFFFFF:
        return CORRUPT
    block[0] = <Text*>malloc(sizeof(Text) + size)
    if block[0] == NULL:
        return -1
    heap[0] += sizeof(Text) + size
    block[0].size = <unsigned int>size
    block[0].capacity = <unsigned int>size
    if size:
        memcpy(<char*>(block[0] + 1), text.at, size)
    return 0


cdef int _unpack_ordered(const State* state, Reader* column, char* entry, size_t* heap) noexcept nogil:
    cdef int kind = state.kind % 10
    cdef char* at = entry + state.offset
    cdef uint8_t* flag = <uint8_t*>entry + state.flag
    cdef const char* data = NULL
    if kind == K_STRING:
        return _unpack_text(column, <Text**>at, heap)
    if column.at >= column.end:
        return CORRUPT
    flag[0] = <uint8_t>column.at[0]
    if kind == K_BOOLEAN or not flag[0]:
        column.at += 1
        return 0 if flag[0] <= 2 else CORRUPT
    if kind == K_DOUBLE:
        if flag[0] != 1 or read_bytes(column, 9, &data):
            return CORRUPT
        memcpy(at, data + 1, 8)
        return 0
    flag[0] = 1
    return _read_signed(column, <uint64_t*>at, 2 if kind == K_DECIMAL else 1, 1)


cdef int unpack_state(const State* state, Reader* columns, char* entry, size_t* heap) noexcept nogil:
    cdef uint64_t* words = <uint64_t*>(entry + state.offset)
    cdef Reader text
    cdef int got
    if state.kind == S_COUNT:
        return read_varint(columns, words)
    if state.kind == S_SUM or state.kind == S_SUM_DECIMAL:
        return read_varint(&columns[0], words + 2) | _read_signed(&columns[1], words, 2, 0)
    if state.kind == S_SUM_DECIMAL_WIDE:
        return read_varint(&columns[0], words + 3) | _read_signed(&columns[1], words, 3, 0)
    if S_SUM_DOUBLE < state.kind < S_HLL:
        return _unpack_ordered(state, columns, entry, heap)
    if state.kind == S_SUM_DOUBLE:
        if read_varint(columns, words):
            return CORRUPT
        columns += 1
        words += 1
    got = read_text(columns, &text)
    if got != 1:
        return got
    if state.kind == S_SUM_DOUBLE:
        return exact_unpack(<void**>words, &text, heap)
    if state.kind >= S_QUANTILES:
        return quantiles_unpack(<void**>words, &text, heap)
    return hll_unpack(<void**>words, &text, heap)
