"""Exact sums of doubles: a fixed-point number wide enough for all of them, rounded once at the end.

A double is an integer multiple of 2**-1074 below 2**1024, so the sum of 2**64 of them is an integer of 2162 bits. It is
kept in limbs of 32 bits, each in a signed 64-bit word so that carries can wait (R. M. Neal, "Fast exact summation using
small and large superaccumulators", 2015), and only the limbs between the least and the greatest that were ever touched
are stored: sums of like magnitudes take three or four. The value does not depend on the order of additions.
"""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memmove, memset

from cython_ext.pack cimport CORRUPT, Packed, Reader, pack_bytes, pack_room, pack_text_head, pack_varint, read_byte

cdef extern from "sums.h" nogil:
    uint64_t u128_digit(uint64_t high, uint64_t low, uint64_t divisor, uint64_t* remainder)

cdef enum:
    LIMBS = 68                   # 2162 bits and a sign
    WORDS_MAX = 40               # LIMBS in words, and room below for a quotient
    PENDING_MAX = 1 << 30        # additions of less than 2**32 that a limb bears before it carries
    EXPONENT_MIN = -1074         # of the lowest bit
    IS_NAN = 1
    IS_PLUS_INFINITY = 2
    IS_MINUS_INFINITY = 4
    IS_NEGATIVE = 8              # in packed form only

cdef int64_t LIMB_MASK = <int64_t>((<uint64_t>1 << 32) - 1)

cdef struct ExactSum:
    # int64_t limbs[capacity] follow
    uint16_t first     # which of the LIMBS limbs[0] is
    uint16_t length    # limbs in use
    uint16_t capacity
    uint16_t flags     # infinities and NaN seen
    uint32_t pending
    uint32_t reserved


cdef inline int64_t* _limbs(ExactSum* total) noexcept nogil:
    return <int64_t*>(total + 1)


cdef ExactSum* _cover(void** block, int first, int end, size_t* heap) noexcept nogil:
    # The block with a window that covers limbs [first, end).
    cdef ExactSum* total = <ExactSum*>block[0]
    cdef int capacity, old = 0 if total == NULL else total.capacity, shift
    if total != NULL and total.length:
        first = min(first, <int>total.first)
        end = max(end, <int>total.first + <int>total.length)
    if end - first > old or total == NULL:
        capacity = min(LIMBS, max(end - first, 4 if old == 0 else old + old // 2))
        total = <ExactSum*>realloc(total, sizeof(ExactSum) + sizeof(int64_t) * capacity)
        if total == NULL:
            return NULL
        if old == 0:
            memset(total, 0, sizeof(ExactSum))
            heap[0] += sizeof(ExactSum)
        heap[0] += sizeof(int64_t) * (capacity - old)
        total.capacity = <uint16_t>capacity
        block[0] = total
    if total.length == 0:
        total.first = <uint16_t>first
    shift = total.first - first
    if shift:
        memmove(_limbs(total) + shift, _limbs(total), sizeof(int64_t) * total.length)
        memset(_limbs(total), 0, sizeof(int64_t) * shift)
        total.first = <uint16_t>first
        total.length += <uint16_t>shift
    if end - first > total.length:
        memset(_limbs(total) + total.length, 0, sizeof(int64_t) * (end - first - total.length))
        total.length = <uint16_t>(end - first)
    return total


cdef void _carry(int64_t* limbs, int length) noexcept nogil:
    # Leaves all limbs but the last in [0, 2**32).
    cdef int i
    for i in range(length - 1):
        limbs[i + 1] += limbs[i] >> 32
        limbs[i] &= LIMB_MASK


cdef int _settle(void** block, size_t* heap) noexcept nogil:
    cdef ExactSum* total = <ExactSum*>block[0]
    total = _cover(block, total.first, min(LIMBS, total.first + total.length + 1), heap)
    if total == NULL:
        return -1
    _carry(_limbs(total), total.length)
    total.pending = 1
    return 0


cdef int _flag(void** block, int flag, size_t* heap) noexcept nogil:
    cdef ExactSum* total = <ExactSum*>block[0]
    if total == NULL:
        total = _cover(block, 0, 0, heap)
        if total == NULL:
            return -1
    total.flags |= <uint16_t>flag
    return 0


cdef int exact_add(void** block, double value, size_t* heap) noexcept nogil:
    cdef uint64_t bits, mantissa, rest
    cdef int exponent, limb, shift
    cdef ExactSum* total = <ExactSum*>block[0]
    cdef int64_t* at
    memcpy(&bits, &value, 8)
    exponent = <int>(bits >> 52) & 2047
    mantissa = bits & ((<uint64_t>1 << 52) - 1)
    if exponent == 2047:
        return _flag(block, IS_NAN if mantissa else IS_MINUS_INFINITY if bits >> 63 else IS_PLUS_INFINITY, heap)
    if exponent:
        mantissa |= <uint64_t>1 << 52
        exponent -= 1
    elif mantissa == 0:
        return 0
    limb = exponent >> 5
    shift = exponent & 31
    if total == NULL or limb < total.first or limb + 3 > total.first + total.length:
        total = _cover(block, limb, limb + 3, heap)
        if total == NULL:
            return -1
    at = _limbs(total) + (limb - total.first)
    rest = mantissa >> (32 - shift)
    mantissa = (mantissa << shift) & <uint64_t>LIMB_MASK
    if bits >> 63:
        at[0] -= <int64_t>mantissa
        at[1] -= <int64_t>(rest & <uint64_t>LIMB_MASK)
        at[2] -= <int64_t>(rest >> 32)
    else:
        at[0] += <int64_t>mantissa
        at[1] += <int64_t>(rest & <uint64_t>LIMB_MASK)
        at[2] += <int64_t>(rest >> 32)
    total.pending += 1
    return _settle(block, heap) if total.pending >= PENDING_MAX else 0


cdef int exact_merge(void** into, void* other, size_t* heap) noexcept nogil:
    cdef int64_t limbs[LIMBS + 1]
    cdef ExactSum* source = <ExactSum*>other
    cdef ExactSum* total
    cdef int i, length
    if source == NULL:
        return 0
    if source.flags and _flag(into, source.flags, heap):
        return -1
    if source.length == 0:
        return 0
    length = min(LIMBS - <int>source.first, source.length + 1)
    limbs[length - 1] = 0
    memcpy(limbs, _limbs(source), sizeof(int64_t) * source.length)
    _carry(limbs, length)
    total = _cover(into, source.first, source.first + length, heap)
    if total == NULL:
        return -1
    for i in range(length):
        _limbs(total)[source.first - total.first + i] += limbs[i]
    total.pending += 1
    return _settle(into, heap) if total.pending >= PENDING_MAX else 0


cdef double exact_value(void* block, uint64_t divisor) noexcept nogil:
    """The sum over `divisor` (> 0), rounded once; infinities and NaN as IEEE addition has them, and no -0.0."""
    cdef int64_t limbs[LIMBS + 2]
    cdef uint64_t words[WORDS_MAX]
    cdef ExactSum* total = <ExactSum*>block
    cdef int i, length
    cdef bint negative
    if total == NULL:
        return 0.0
    if total.flags:
        return _special(total.flags)
    length = total.length
    memset(limbs, 0, sizeof(limbs))
    memcpy(limbs, _limbs(total), sizeof(int64_t) * length)
    _carry(limbs, length + 1)
    negative = limbs[length] < 0
    if negative:
        for i in range(length + 1):
            limbs[i] = -limbs[i]
        _carry(limbs, length + 1)
    for i in range(length // 2 + 1):
        words[i] = <uint64_t>limbs[2 * i] | (<uint64_t>limbs[2 * i + 1] << 32)
    return divide_words(negative, words, length // 2 + 1, EXPONENT_MIN + 32 * total.first, divisor)


cdef double _special(int flags) noexcept nogil:
    cdef uint64_t bits = <uint64_t>0x7FF0000000000000
    cdef double value
    if flags & IS_NAN or flags == (IS_PLUS_INFINITY | IS_MINUS_INFINITY):
        bits = <uint64_t>0x7FF8000000000000
    memcpy(&value, &bits, 8)
    return -value if flags == IS_MINUS_INFINITY else value


cdef double divide_words(bint negative, const uint64_t* words, int count, int exponent, uint64_t divisor) noexcept nogil:
    # Two zero words below leave at least 64 bits of any quotient; what is left over only matters for ties.
    cdef uint64_t quotient[WORDS_MAX]
    cdef uint64_t rest = 0
    cdef int i
    quotient[0] = 0
    quotient[1] = 0
    for i in range(count):
        quotient[i + 2] = words[i]
    for i in range(count + 1, -1, -1):
        quotient[i] = u128_digit(rest, quotient[i], divisor, &rest)
    return _round(negative, quotient, count + 2, exponent - 128, rest != 0)


cdef inline uint64_t _bits_at(const uint64_t* words, int count, int at) noexcept nogil:
    # 64 bits from bit `at` on, zeros beyond the end.
    cdef int word = at >> 6, shift = at & 63
    cdef uint64_t low = words[word] if word < count else 0
    cdef uint64_t high = words[word + 1] if word + 1 < count else 0
    return low if shift == 0 else (low >> shift) | (high << (64 - shift))


cdef bint _any_below(const uint64_t* words, int at) noexcept nogil:
    cdef int i
    for i in range(at >> 6):
        if words[i]:
            return True
    return (at & 63) != 0 and (words[at >> 6] & ((<uint64_t>1 << (at & 63)) - 1)) != 0


cdef double _round(bint negative, const uint64_t* words, int count, int exponent, bint more) noexcept nogil:
    # words * 2**exponent to the nearest double, ties to even; `more`: something is left below.
    cdef int top, drop, lowest
    cdef uint64_t mantissa, bits
    cdef double value
    while count and words[count - 1] == 0:
        count -= 1
    if count == 0:
        return 0.0
    top = 64 * count - 1
    while not (words[top >> 6] >> (top & 63)) & 1:
        top -= 1
    lowest = max(exponent + top - 52, EXPONENT_MIN)   # of the lowest bit of the result
    if lowest + 52 > 1023:
        return -_special(IS_PLUS_INFINITY) if negative else _special(IS_PLUS_INFINITY)
    drop = lowest - exponent                          # at least 12
    if drop > top + 1:
        return 0.0
    mantissa = _bits_at(words, count, drop) & ((<uint64_t>1 << 53) - 1)
    if (_bits_at(words, count, drop - 1) & 1) and (mantissa & 1 or more or _any_below(words, drop - 1)):
        mantissa += 1
    # A mantissa without the implicit bit is subnormal; one carry too many runs into the exponent, as it should.
    if mantissa >> 52:
        bits = (<uint64_t>(lowest + 1075) << 52) + (mantissa - (<uint64_t>1 << 52))
    else:
        bits = mantissa
    memcpy(&value, &bits, 8)
    return -value if negative and bits else value


cdef int exact_pack(void* block, Packed* out) noexcept nogil:
    cdef int64_t limbs[LIMBS + 2]
    cdef ExactSum* total = <ExactSum*>block
    cdef int i, first = 0, end, length
    cdef uint8_t flags
    cdef uint32_t limb
    if total == NULL:
        return pack_varint(out, 0)
    length = total.length
    memset(limbs, 0, sizeof(limbs))
    memcpy(limbs, _limbs(total), sizeof(int64_t) * length)
    _carry(limbs, length + 1)
    flags = <uint8_t>total.flags
    if limbs[length] < 0:
        flags |= IS_NEGATIVE
        for i in range(length + 1):
            limbs[i] = -limbs[i]
        _carry(limbs, length + 1)
    end = length + 1
    while end and limbs[end - 1] == 0:
        end -= 1
    while first < end and limbs[first] == 0:
        first += 1
    if first == end and flags == 0:
        return pack_varint(out, 0)
    if pack_room(out, 8 + sizeof(uint32_t) * (end - first)):
        return -1
    pack_text_head(out, 1 + (1 + 4 * (end - first) if end > first else 0))
    pack_bytes(out, <const char*>&flags, 1)
    if end > first:
        flags = <uint8_t>(total.first + first)
        pack_bytes(out, <const char*>&flags, 1)
    for i in range(first, end):
        limb = <uint32_t>limbs[i]
        if pack_bytes(out, <const char*>&limb, 4):
            return -1
    return 0


cdef int exact_unpack(void** block, Reader* text, size_t* heap) noexcept nogil:
    cdef uint8_t flags = 0, first = 0
    cdef uint32_t limb = 0
    cdef int i, count
    cdef ExactSum* total
    if read_byte(text, &flags) or flags > 15:
        return CORRUPT
    if flags & 7 and _flag(block, flags & 7, heap):
        return -1
    if text.at == text.end:
        return CORRUPT if flags == 0 or flags & IS_NEGATIVE else 0
    count = <int>((text.end - text.at) // 4)
    if text.end - text.at != 4 * count + 1 or count == 0 or read_byte(text, &first) or first + count > LIMBS:
        return CORRUPT
    total = _cover(block, first, first + count, heap)
    if total == NULL:
        return -1
    for i in range(count):
        memcpy(&limb, text.at + 4 * i, 4)
        if limb == 0 and (i == 0 or i == count - 1):
            return CORRUPT
        _limbs(total)[i] = -<int64_t>limb if flags & IS_NEGATIVE else <int64_t>limb
    text.at = text.end
    return 0

cdef bint exact_is_sound(void* block) noexcept nogil:
    cdef ExactSum* total = <ExactSum*>block
    if total == NULL:
        return True
    if total.length > total.capacity or total.first + total.length > LIMBS:
        return False
    return total.flags < 8 and total.pending < PENDING_MAX


def exact_total(values, uint64_t divisor=1):
    """The sum of an iterable of floats over `divisor`, exact until its one rounding. O(values)."""
    cdef void* block = NULL
    cdef size_t heap = 0
    cdef double value
    if divisor == 0:
        raise ZeroDivisionError("the sum of no values has no average")
    try:
        for value in values:
            if exact_add(&block, value, &heap):
                raise MemoryError("no memory for a sum")
        return exact_value(block, divisor)
    finally:
        free(block)


def exact_total_of_parts(parts):
    """The sum of an iterable of iterables of floats, each summed by itself and then merged, in that order."""
    cdef void* block = NULL
    cdef void* part = NULL
    cdef size_t heap = 0
    cdef double value
    try:
        for values in parts:
            for value in values:
                if exact_add(&part, value, &heap):
                    raise MemoryError("no memory for a sum")
            if exact_merge(&block, part, &heap):
                raise MemoryError("no memory for a sum")
            free(part)
            part = NULL
        return exact_value(block, 1)
    finally:
        free(block)
        free(part)
