# Hashes of bytes: the project's own 64-bit key hash, and MurmurHash3 for sketches. docs/AGGREGATES.md defines both.
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef extern from "sums.h" nogil:
    uint64_t multiply_fold(uint64_t a, uint64_t b)

cdef enum:
    HASH_BLOCK = 16  # bytes per step


cdef inline uint64_t read64(const char* at) noexcept nogil:
    cdef uint64_t word
    memcpy(&word, at, 8)
    return word


cdef inline uint64_t read32(const char* at) noexcept nogil:
    cdef uint32_t word
    memcpy(&word, at, 4)
    return word


cdef inline uint64_t read_short(const char* data, size_t size) noexcept nogil:
    # `size` < 8 bytes as a little-endian word, without reading outside of them
    cdef const uint8_t* bytes = <const uint8_t*>data
    if size >= 4:
        return read32(data) | (read32(data + size - 4) << (8 * (size - 4)))
    if size == 0:
        return 0
    return (bytes[0] | (<uint64_t>bytes[size >> 1] << (8 * (size >> 1)))
            | (<uint64_t>bytes[size - 1] << (8 * (size - 1))))


cdef inline uint64_t hash_bytes(uint64_t seed, uint64_t lead, int lead_size, const char* data, size_t size) noexcept nogil:
    # The hash of the byte `lead` (when lead_size is 1) followed by data: a single STRING key is hashed where it lies,
    # its length byte beside it.
    cdef size_t left = size + lead_size
    cdef uint64_t low, high, h = seed ^ (left * <uint64_t>0x6A09E667F3BCC909)
    if size >= 16:
        low = read64(data)
        high = read64(data + 8)
    elif size >= 8:
        low = read64(data)
        # two shifts, since one by 64 is undefined
        high = (read64(data + size - 8) >> 1) >> (127 - 8 * size)
    else:
        low = read_short(data, size)
        high = 0
    if lead_size:
        high = (high << 8) | (low >> 56)
        low = (low << 8) | lead
    h = multiply_fold(low ^ <uint64_t>0xBB67AE8584CAA73B, high ^ h)
    if left > HASH_BLOCK:
        data += ((left - 1) & 15) + 1 - lead_size
        left = (left - 1) & ~<size_t>15
        while left:
            h = multiply_fold(read64(data) ^ <uint64_t>0xBB67AE8584CAA73B, read64(data + 8) ^ h)
            data += HASH_BLOCK
            left -= HASH_BLOCK
    return multiply_fold(h ^ <uint64_t>0x3C6EF372FE94F82B, <uint64_t>0xA54FF53A5F1D36F1)


cdef inline uint64_t rotate_left(uint64_t word, int bits) noexcept nogil:
    return (word << bits) | (word >> (64 - bits))


cdef inline uint64_t murmur_finish(uint64_t word) noexcept nogil:
    word ^= word >> 33
    word *= <uint64_t>0xFF51AFD7ED558CCD
    word ^= word >> 33
    word *= <uint64_t>0xC4CEB9FE1A85EC53
    return word ^ (word >> 33)


cdef inline uint64_t murmur_first(uint64_t word) noexcept nogil:
    return rotate_left(word * <uint64_t>0x87C37B91114253D5, 31) * <uint64_t>0x4CF5AD432745937F


cdef inline uint64_t murmur_second(uint64_t word) noexcept nogil:
    return rotate_left(word * <uint64_t>0x4CF5AD432745937F, 33) * <uint64_t>0x87C37B91114253D5


cdef inline void murmur3_128(const char* data, size_t size, uint64_t seed, uint64_t* first,
                             uint64_t* second) noexcept nogil:
    cdef uint64_t a = seed, b = seed
    cdef size_t left = size
    while left >= 16:
        a = (rotate_left(a ^ murmur_first(read64(data)), 27) + b) * 5 + 0x52DCE729
        b = (rotate_left(b ^ murmur_second(read64(data + 8)), 31) + a) * 5 + 0x38495AB5
        data += 16
        left -= 16
    if left > 8:
        b ^= murmur_second(read_short(data + 8, left - 8))
        a ^= murmur_first(read64(data))
    elif left == 8:
        a ^= murmur_first(read64(data))
    elif left:
        a ^= murmur_first(read_short(data, left))
    a ^= size
    b ^= size
    a += b
    b += a
    a = murmur_finish(a)
    b = murmur_finish(b)
    a += b
    first[0] = a
    second[0] = b + a
