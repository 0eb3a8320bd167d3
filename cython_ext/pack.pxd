# Packed bytes: buffers that grow, readers that cannot leave their end, varints. docs/RUN.md defines the items.
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport realloc
from libc.string cimport memcpy

cdef enum:
    CORRUPT = -3             # beside NO_MEMORY and TOO_LARGE of group_keys
    VARINT_BYTES_MAX = 28    # 192 bits
    WORDS = 3                # a wide varint as little-endian words
    PACK_BYTES_MIN = 256

cdef struct Packed:
    # Bytes under construction; `data` is from malloc and freed by whoever owns the struct.
    char* data
    size_t used
    size_t capacity

cdef struct Reader:
    const char* at
    const char* end


cdef inline int pack_room(Packed* out, size_t more) noexcept nogil:
    # Room for `more` bytes behind what is used; -1 without memory.
    cdef size_t want = out.capacity
    cdef char* data
    if more <= out.capacity - out.used:
        return 0
    if want < PACK_BYTES_MIN:
        want = PACK_BYTES_MIN
    while want < out.used + more:
        want += want >> 1
    data = <char*>realloc(out.data, want)
    if data == NULL:
        return -1
    out.data = data
    out.capacity = want
    return 0


cdef inline int pack_bytes(Packed* out, const char* data, size_t size) noexcept nogil:
    if pack_room(out, size):
        return -1
    copy_short(out.data + out.used, data, size)
    out.used += size
    return 0


cdef inline void copy_short(char* to, const char* at, size_t size) noexcept nogil:
    # memcpy for items, most of which are short: pieces that overlap instead of a loop.
    if size > 32:
        memcpy(to, at, size)
    elif size >= 16:
        memcpy(to, at, 16)
        memcpy(to + size - 16, at + size - 16, 16)
    elif size >= 8:
        memcpy(to, at, 8)
        memcpy(to + size - 8, at + size - 8, 8)
    elif size >= 4:
        memcpy(to, at, 4)
        memcpy(to + size - 4, at + size - 4, 4)
    elif size:
        to[0] = at[0]
        to[size >> 1] = at[size >> 1]
        to[size - 1] = at[size - 1]


cdef inline int pack_item(Packed* out, const Reader* item) noexcept nogil:
    cdef size_t size = item.end - item.at
    if pack_room(out, size):
        return -1
    copy_short(out.data + out.used, item.at, size)
    out.used += size
    return 0


cdef inline int pack_varint(Packed* out, uint64_t value) noexcept nogil:
    cdef char* to
    if pack_room(out, 16):
        return -1
    to = out.data + out.used
    while value >= 128:
        to[0] = <char>(value | 128)
        value >>= 7
        to += 1
    to[0] = <char>value
    out.used = to + 1 - out.data
    return 0


cdef inline int pack_wide(Packed* out, uint64_t* words) noexcept nogil:
    # WORDS little-endian words as a varint; `words` is used up.
    cdef char* to
    if pack_room(out, 32):
        return -1
    if (words[1] | words[2]) == 0:
        return pack_varint(out, words[0])
    to = out.data + out.used
    while words[1] | words[2] | (words[0] >> 7):
        to[0] = <char>(words[0] | 128)
        words[0] = (words[0] >> 7) | (words[1] << 57)
        words[1] = (words[1] >> 7) | (words[2] << 57)
        words[2] >>= 7
        to += 1
    to[0] = <char>words[0]
    out.used = to + 1 - out.data
    return 0


cdef inline int read_byte(Reader* reader, uint8_t* value) noexcept nogil:
    if reader.at >= reader.end:
        return CORRUPT
    value[0] = <uint8_t>reader.at[0]
    reader.at += 1
    return 0


cdef inline int read_varint(Reader* reader, uint64_t* value) noexcept nogil:
    # A varint of at most 64 bits, the shortest that stands for its value.
    cdef uint8_t byte
    cdef int shift = 0
    cdef uint64_t got
    if reader.at >= reader.end:
        return CORRUPT
    byte = <uint8_t>reader.at[0]
    reader.at += 1
    got = byte & 127
    while byte & 128:
        shift += 7
        if shift > 63 or reader.at >= reader.end:
            return CORRUPT
        byte = <uint8_t>reader.at[0]
        reader.at += 1
        got |= <uint64_t>(byte & 127) << shift
        if (shift == 63 and byte > 1) or byte == 0:
            return CORRUPT
    value[0] = got
    return 0


cdef inline int read_wide(Reader* reader, uint64_t* words) noexcept nogil:
    cdef uint8_t byte
    cdef int shift = 0
    words[0] = 0
    words[1] = 0
    words[2] = 0
    while True:
        if shift >= 7 * VARINT_BYTES_MAX or reader.at >= reader.end:
            return CORRUPT
        byte = <uint8_t>reader.at[0]
        reader.at += 1
        words[shift >> 6] |= <uint64_t>(byte & 127) << (shift & 63)
        if (shift & 63) > 57:
            if (shift >> 6) + 1 < WORDS:
                words[(shift >> 6) + 1] |= <uint64_t>(byte & 127) >> (64 - (shift & 63))
            elif (byte & 127) >> (64 - (shift & 63)):
                return CORRUPT
        if not byte & 128:
            return CORRUPT if byte == 0 and shift else 0
        shift += 7


cdef inline int read_bytes(Reader* reader, size_t size, const char** data) noexcept nogil:
    if size > <size_t>(reader.end - reader.at):
        return CORRUPT
    data[0] = reader.at
    reader.at += size
    return 0


cdef inline int skip_varint(Reader* reader) noexcept nogil:
    # Behind a varint of any width; whoever decodes it looks at the rest.
    cdef const char* at = reader.at
    while at < reader.end:
        if (<uint8_t>at[0]) < 128:
            reader.at = at + 1
            return 0
        at += 1
    return CORRUPT


cdef inline int read_text(Reader* reader, Reader* text) noexcept nogil:
    # 1: a text; 0: nothing; CORRUPT.
    cdef uint64_t size = 0
    if read_varint(reader, &size):
        return CORRUPT
    if size == 0:
        return 0
    if read_bytes(reader, size - 1, &text.at):
        return CORRUPT
    text.end = reader.at
    return 1


cdef inline int pack_text_head(Packed* out, uint64_t size) noexcept nogil:
    return pack_varint(out, size + 1)


cdef inline uint64_t zigzag(int64_t value) noexcept nogil:
    return (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)


cdef inline int64_t unzigzag(uint64_t value) noexcept nogil:
    return <int64_t>(value >> 1) ^ -<int64_t>(value & 1)


cdef inline size_t varint_bytes(uint64_t value) noexcept nogil:
    cdef size_t size = 1
    while value >= 128:
        value >>= 7
        size += 1
    return size
