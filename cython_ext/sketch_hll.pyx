"""HyperLogLog in the hash and serial form of Apache DataSketches: HLL_8 with 2**12 registers, relative error 1.6 %.

A value becomes a coupon: 26 bits of its hash and the number of leading zeros of 64 others, plus one. Up to 384 distinct
coupons are kept as they are, sorted; more become registers, each the greatest such number of its address. Both are
order-free, and so is the choice between them. The estimate is the composite one; the HIP estimate, which DataSketches
prefers for a sketch that was never merged, depends on the order of updates. P. Flajolet et al., "HyperLogLog", 2007;
K. J. Lang, "Back to the Future: an Even More Nearly Optimal Cardinality Estimation Algorithm", 2017.
"""

from libc.math cimport log
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memmove, memset

from cython_ext.hashing cimport murmur3_128
from cython_ext.pack cimport (CORRUPT, Packed, Reader, pack_bytes, pack_room, pack_text_head, pack_varint, read_byte,
                              read_varint, varint_bytes)

cdef extern from "hll_composite.h" nogil:
    enum:
        HLL_COMPOSITE_LENGTH
        HLL_COMPOSITE_STRIDE
    const double hll_composite[HLL_COMPOSITE_LENGTH]

cdef enum:
    LG_K = 12
    REGISTERS = 4096        # 2**LG_K
    SEED = 9001             # DataSketches' default update seed
    ADDRESS_BITS = 26
    COUPONS_MAX = 384       # three quarters of 2**(LG_K - 3): one more and DataSketches has registers, too
    LIST_MAX = 7            # one more and DataSketches' list of 8 becomes a set
    CAPACITY_MIN = 4
    EXACT_HARMONICS = 25    # harmonic numbers below are summed, above by their series

    # in runs
    PACKED_COUPONS = 0
    PACKED_REGISTERS = 1

    # the serial form
    LIST_INTS = 2
    SET_INTS = 3
    REGISTER_INTS = 10
    FAMILY = 7
    FLAG_EMPTY = 4
    FLAG_COMPACT = 8
    FLAG_OUT_OF_ORDER = 16
    MODE_LIST = 0
    MODE_SET = 1
    MODE_REGISTERS = 2
    MODE_HLL_8 = 2 << 2

cdef struct Hll:
    # uint32_t coupons[capacity] follow, ascending; or uint8_t registers[REGISTERS], and capacity is 0
    uint32_t count
    uint32_t capacity

SERIAL_BYTES_MAX = 4 * REGISTER_INTS + REGISTERS


cdef uint32_t _REGISTERS = REGISTERS


cdef inline uint32_t* _coupons(Hll* sketch) noexcept nogil:
    return <uint32_t*>(sketch + 1)


cdef inline uint8_t* _registers(Hll* sketch) noexcept nogil:
    return <uint8_t*>(sketch + 1)


cdef inline uint32_t _coupon(const char* data, size_t size) noexcept nogil:
    cdef uint64_t first, second
    cdef uint32_t zeros = 0
    murmur3_128(data, size, SEED, &first, &second)
    while zeros < 62 and not (second >> (63 - zeros)) & 1:
        zeros += 1
    return ((zeros + 1) << ADDRESS_BITS) | <uint32_t>(first & ((1 << ADDRESS_BITS) - 1))


cdef inline void _raise_register(uint8_t* registers, uint32_t coupon) noexcept nogil:
    cdef uint8_t value = <uint8_t>(coupon >> ADDRESS_BITS)
    cdef uint8_t* at = registers + (coupon & (REGISTERS - 1))
    if value > at[0]:
        at[0] = value


cdef Hll* _resize(void** block, uint32_t capacity, size_t* heap) noexcept nogil:
    cdef Hll* sketch = <Hll*>block[0]
    cdef bint new = sketch == NULL
    cdef uint32_t old = 0 if new else sketch.capacity
    sketch = <Hll*>realloc(sketch, sizeof(Hll) + sizeof(uint32_t) * capacity)
    if sketch == NULL:
        return NULL
    if new:
        sketch.count = 0
        heap[0] += sizeof(Hll)
    heap[0] += sizeof(uint32_t) * (capacity - old)
    sketch.capacity = capacity
    block[0] = sketch
    return sketch


cdef int _promote(void** block, size_t* heap) noexcept nogil:
    # Coupons to registers.
    cdef uint32_t coupons[COUPONS_MAX]
    cdef Hll* sketch = <Hll*>block[0]
    cdef uint32_t count = 0 if sketch == NULL else sketch.count, i
    if count:
        memcpy(coupons, _coupons(sketch), sizeof(uint32_t) * count)
    sketch = _resize(block, REGISTERS // 4, heap)
    if sketch == NULL:
        return -1
    memset(_registers(sketch), 0, REGISTERS)
    for i in range(count):
        _raise_register(_registers(sketch), coupons[i])
    sketch.count = 0
    sketch.capacity = 0
    return 0


cdef int _add_coupon(void** block, uint32_t coupon, size_t* heap) noexcept nogil:
    cdef Hll* sketch = <Hll*>block[0]
    cdef uint32_t low = 0, high, middle
    cdef uint32_t* coupons
    if sketch == NULL:
        sketch = _resize(block, CAPACITY_MIN, heap)
        if sketch == NULL:
            return -1
    if sketch.capacity == 0:
        _raise_register(_registers(sketch), coupon)
        return 0
    coupons = _coupons(sketch)
    high = sketch.count
    while low < high:
        middle = (low + high) >> 1
        if coupons[middle] < coupon:
            low = middle + 1
        else:
            high = middle
    if low < sketch.count and coupons[low] == coupon:
        return 0
    if sketch.count == COUPONS_MAX:
        if _promote(block, heap):
            return -1
        _raise_register(_registers(<Hll*>block[0]), coupon)
        return 0
    if sketch.count == sketch.capacity:
        sketch = _resize(block, min(COUPONS_MAX, 2 * sketch.capacity), heap)
        if sketch == NULL:
            return -1
        coupons = _coupons(sketch)
    memmove(coupons + low + 1, coupons + low, sizeof(uint32_t) * (sketch.count - low))
    coupons[low] = coupon
    sketch.count += 1
    return 0


cdef int hll_add(void** block, const char* data, size_t size, size_t* heap) noexcept nogil:
    return _add_coupon(block, _coupon(data, size), heap)


cdef int hll_merge(void** into, void* other, size_t* heap) noexcept nogil:
    cdef Hll* source = <Hll*>other
    cdef Hll* sketch = <Hll*>into[0]
    cdef uint8_t* mine
    cdef uint8_t* theirs
    cdef uint32_t i
    if source == NULL:
        return 0
    if source.capacity:
        for i in range(source.count):
            if _add_coupon(into, _coupons(source)[i], heap):
                return -1
        return 0
    if sketch == NULL or sketch.capacity:
        if _promote(into, heap):
            return -1
    mine = _registers(<Hll*>into[0])
    theirs = _registers(source)
    for i in range(_REGISTERS):
        mine[i] = max(mine[i], theirs[i])
    return 0


cdef int hll_pack(void* block, Packed* out) noexcept nogil:
    cdef Hll* sketch = <Hll*>block
    cdef uint8_t mode = PACKED_COUPONS
    cdef uint32_t i, last = 0
    cdef size_t size = 1
    if sketch == NULL or (sketch.capacity and sketch.count == 0):
        return pack_varint(out, 0)
    if pack_room(out, REGISTERS + 32):  # more than 5 bytes for each of the coupons
        return -1
    if sketch.capacity == 0:
        mode = PACKED_REGISTERS
        pack_text_head(out, 1 + REGISTERS)
        pack_bytes(out, <const char*>&mode, 1)
        return pack_bytes(out, <const char*>_registers(sketch), REGISTERS)
    for i in range(sketch.count):
        size += varint_bytes(_coupons(sketch)[i] - last)
        last = _coupons(sketch)[i]
    pack_text_head(out, size)
    pack_bytes(out, <const char*>&mode, 1)
    last = 0
    for i in range(sketch.count):
        if pack_varint(out, _coupons(sketch)[i] - last):
            return -1
        last = _coupons(sketch)[i]
    return 0


cdef int hll_unpack(void** block, Reader* text, size_t* heap) noexcept nogil:
    cdef uint8_t mode = 0
    cdef uint64_t coupon = 0, step = 0
    cdef Hll* sketch
    if read_byte(text, &mode) or mode > PACKED_REGISTERS:
        return CORRUPT
    if mode == PACKED_REGISTERS:
        if text.end - text.at != REGISTERS:
            return CORRUPT
        if _promote(block, heap):
            return -1
        memcpy(_registers(<Hll*>block[0]), text.at, REGISTERS)
        text.at = text.end
        return 0 if hll_is_sound(block[0]) else CORRUPT
    if text.at == text.end or text.end - text.at > 5 * COUPONS_MAX:
        return CORRUPT
    while text.at < text.end:
        if read_varint(text, &step) or step == 0 or step > <uint64_t>0xFFFFFFFF:
            return CORRUPT
        coupon += step
        sketch = <Hll*>block[0]
        if coupon >> 32 or coupon >> ADDRESS_BITS == 0 or (sketch != NULL and sketch.count == COUPONS_MAX):
            return CORRUPT
        if _add_coupon(block, <uint32_t>coupon, heap):
            return -1
    return 0

cdef bint hll_is_sound(void* block) noexcept nogil:
    cdef Hll* sketch = <Hll*>block
    cdef uint32_t i
    if sketch == NULL:
        return True
    if sketch.capacity == 0:
        for i in range(_REGISTERS):
            if _registers(sketch)[i] > 63:
                return False
        return True
    if sketch.count > sketch.capacity or sketch.capacity > COUPONS_MAX:
        return False
    for i in range(sketch.count):
        if _coupons(sketch)[i] >> ADDRESS_BITS == 0 or i and _coupons(sketch)[i] <= _coupons(sketch)[i - 1]:
            return False
    return True


# ---- the estimate

cdef struct Summary:
    # Sums of 2**-register over registers below 32 and from there on, each exact in a double; and the registers at 0.
    double low
    double high
    uint32_t zeros


cdef Summary _summarize(const uint8_t* registers) noexcept nogil:
    cdef Summary summary
    cdef uint32_t i
    summary.low = 0.0
    summary.high = 0.0
    summary.zeros = 0
    for i in range(_REGISTERS):
        if registers[i] < 32:
            summary.low += 1.0 / <double>(<uint64_t>1 << registers[i])
        else:
            summary.high += 1.0 / <double>(<uint64_t>1 << registers[i])
        summary.zeros += registers[i] == 0
    return summary


cdef double _harmonic(uint32_t n) noexcept nogil:
    cdef double x = n, inverse, power, total = 0.0
    cdef uint32_t i
    if n < EXACT_HARMONICS:
        for i in range(n, 0, -1):
            total += 1.0 / i
        return total
    inverse = 1.0 / (x * x)
    power = inverse
    total = log(x) + 0.577215664901532860606512090082 + 1.0 / (2.0 * x) - power / 12.0
    power *= inverse
    total += power / 120.0
    power *= inverse
    total -= power / 252.0
    power *= inverse
    return total + power / 240.0


cdef double _interpolate(double x) noexcept nogil:
    # The cubic through the four table points around x; their ordinates are multiples of the stride.
    cdef int low = 0, high = HLL_COMPOSITE_LENGTH - 1, middle, i, j
    cdef double total = 0.0, term, below
    while high - low > 1:
        middle = (low + high) // 2
        if hll_composite[middle] <= x:
            low = middle
        else:
            high = middle
    low = min(max(low - 1, 0), HLL_COMPOSITE_LENGTH - 4)
    for i in range(low, low + 4):
        term = 1.0
        below = 1.0
        for j in range(low, low + 4):
            if j != i:
                term *= x - hll_composite[j]
                below *= hll_composite[i] - hll_composite[j]
        total += <double>(HLL_COMPOSITE_STRIDE * i) * term / below
    return total


cdef double hll_estimate(void* block) noexcept nogil:
    """About how many distinct values were added; exact but for a coupon collision up to 384 of them."""
    cdef Hll* sketch = <Hll*>block
    cdef Summary summary
    cdef double raw, adjusted, linear
    if sketch == NULL:
        return 0.0
    if sketch.capacity:
        return sketch.count
    summary = _summarize(_registers(sketch))
    raw = (0.7213 / (1.0 + 1.079 / REGISTERS)) * REGISTERS * REGISTERS / (summary.low + summary.high)
    if raw < hll_composite[0]:
        return 0.0
    if raw > hll_composite[HLL_COMPOSITE_LENGTH - 1]:
        adjusted = HLL_COMPOSITE_STRIDE * (HLL_COMPOSITE_LENGTH - 1)
        return raw * (adjusted / hll_composite[HLL_COMPOSITE_LENGTH - 1])
    adjusted = _interpolate(raw)
    if adjusted > 3 * REGISTERS:
        return adjusted
    # Few values: how many registers are still empty says more. The mean of both decides which one counts.
    if summary.zeros:
        linear = REGISTERS * (_harmonic(REGISTERS) - _harmonic(summary.zeros))
    else:
        linear = REGISTERS * log(REGISTERS / 0.5)
    return adjusted if (adjusted + linear) / 2.0 > 0.64 * REGISTERS else linear


# ---- the serial form

cdef uint32_t _set_bits(uint32_t count) noexcept nogil:
    # DataSketches' hash set of coupons: 32 places at least, a quarter of them free.
    cdef uint32_t bits = 5
    while 4 * count > 3 * (<uint32_t>1 << bits):
        bits += 1
    return bits


cdef bytes hll_serialize(void* block):
    """DataSketches' compact bytes: coupons ascending; registers marked out of order, with no HIP estimate."""
    cdef Hll* sketch = <Hll*>block
    cdef uint32_t count = 0 if sketch == NULL else sketch.count, head
    cdef bint registers = sketch != NULL and sketch.capacity == 0
    cdef Summary summary
    cdef bytearray out
    cdef char* at
    if registers:
        out = bytearray(4 * REGISTER_INTS + REGISTERS)
        out[0], out[4], out[5], out[7] = REGISTER_INTS, 0, FLAG_COMPACT | FLAG_OUT_OF_ORDER, MODE_REGISTERS | MODE_HLL_8
        summary = _summarize(_registers(sketch))
        at = <char*>out
        memcpy(at + 16, &summary.low, 8)
        memcpy(at + 24, &summary.high, 8)
        memcpy(at + 32, &summary.zeros, 4)
        memcpy(at + 4 * REGISTER_INTS, _registers(sketch), REGISTERS)
    else:
        head = LIST_INTS if count <= LIST_MAX else SET_INTS
        out = bytearray(4 * (head + count))
        out[0], out[4], out[5] = head, 3 if count <= LIST_MAX else _set_bits(count), FLAG_COMPACT
        out[7] = (MODE_LIST if count <= LIST_MAX else MODE_SET) | MODE_HLL_8
        at = <char*>out
        if count == 0:
            out[5] = FLAG_COMPACT | FLAG_EMPTY
        elif head == LIST_INTS:
            out[6] = count
        else:
            memcpy(at + 8, &count, 4)
        if count:
            memcpy(at + 4 * head, _coupons(sketch), 4 * count)
    out[1], out[2], out[3] = 1, FAMILY, LG_K
    return bytes(out)


cdef class HllSketch:
    """A sketch by itself: what `GroupTable` keeps per group, for reading and writing DataSketches' bytes."""
    cdef void* block
    cdef size_t heap

    def __dealloc__(self):
        free(self.block)

    def update(self, bytes data not None):
        """Adds the bytes of a value; empty bytes are a value, too (DataSketches' own update passes over them)."""
        if hll_add(&self.block, data, len(data), &self.heap):
            raise MemoryError("no memory for a sketch")

    def merge(self, HllSketch other not None):
        if hll_merge(&self.block, other.block, &self.heap):
            raise MemoryError("no memory for a sketch")

    def estimate(self):
        return hll_estimate(self.block)

    def serialize(self):
        return hll_serialize(self.block)

    def check(self):
        if not hll_is_sound(self.block):
            raise RuntimeError("a sketch is broken")

    @staticmethod
    def deserialize(bytes data not None):
        """The sketch of compact or updatable bytes, at most SERIAL_BYTES_MAX of them.

        Raises ValueError for bytes that are not an HLL_8 sketch of 2**12 registers. Estimators' fields are not read:
        they follow from the registers.
        """
        cdef HllSketch sketch = HllSketch()
        _check_preamble(data)
        if data[7] & 3 == MODE_REGISTERS:
            _read_registers(sketch, data)
        elif data[7] & 3 == MODE_SET:
            _read_coupons(sketch, data, SET_INTS, int.from_bytes(data[8:12], "little"))
        else:
            _read_coupons(sketch, data, LIST_INTS, 0 if data[5] & FLAG_EMPTY else data[6])
        return sketch


cdef int _check_preamble(bytes data) except -1:
    cdef dict ints = {MODE_LIST: LIST_INTS, MODE_SET: SET_INTS, MODE_REGISTERS: REGISTER_INTS}
    if not 8 <= len(data) <= SERIAL_BYTES_MAX or len(data) < 4 * <Py_ssize_t>data[0]:
        raise ValueError(f"{len(data)} bytes are no HLL sketch")
    if data[1] != 1 or data[2] != FAMILY:
        raise ValueError(f"version {data[1]} of sketch family {data[2]} is no HLL sketch")
    if data[3] != LG_K or data[7] & 12 != MODE_HLL_8:
        raise ValueError(f"the sketch is no HLL_8 of 2**{LG_K} registers")
    if ints.get(data[7] & 3) != data[0]:
        raise ValueError(f"an HLL sketch of mode {data[7] & 3} with {data[0]} words in front")
    return 0


cdef int _read_registers(HllSketch sketch, bytes data) except -1:
    cdef const char* at = data
    if len(data) != SERIAL_BYTES_MAX:
        raise ValueError(f"{len(data)} bytes are no HLL sketch of 2**{LG_K} registers")
    if _promote(&sketch.block, &sketch.heap):
        raise MemoryError("no memory for a sketch")
    memcpy(_registers(<Hll*>sketch.block), at + 4 * REGISTER_INTS, REGISTERS)
    if not hll_is_sound(sketch.block):
        raise ValueError("a register of the HLL sketch is beyond 63")
    return 0


cdef int _read_coupons(HllSketch sketch, bytes data, int head, count) except -1:
    # Updatable bytes have places without a coupon.
    cdef Py_ssize_t i, words = len(data) // 4 - head
    cdef const char* at = data
    cdef uint32_t coupon
    if len(data) % 4 or count > COUPONS_MAX:
        raise ValueError(f"an HLL sketch with {count} coupons in {len(data)} bytes")
    for i in range(words):
        memcpy(&coupon, at + 4 * (head + i), 4)
        if coupon and coupon >> ADDRESS_BITS == 0:
            raise ValueError("a coupon of the HLL sketch has no value")
        if coupon and _add_coupon(&sketch.block, coupon, &sketch.heap):
            raise MemoryError("no memory for a sketch")
    if count != (0 if sketch.block == NULL else (<Hll*>sketch.block).count):
        raise ValueError(f"the HLL sketch has not the {count} coupons it claims")
    return 0
