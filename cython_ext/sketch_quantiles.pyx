"""Quantiles with a guaranteed relative error of 1 %: counts in logarithmic buckets, after DDSketch.

C. Masson, J. E. Rim, H. K. Lee: "DDSketch: a fast and fully-mergeable quantile sketch with relative-error guarantees",
2019. Here each octave [2**e, 2**(e+1)) has 35 buckets: a value 2**e * (1 + s) is in bucket floor(6s^3 - 21s^2 + 50s),
the cubic that DDSketch interpolates the logarithm with, times 35. No bucket is wider than e**0.02. The bounds between
buckets are computed once, in integers, and values are compared with them as integers: every machine agrees.
"""

from fractions import Fraction

from libc.math cimport isinf, isnan, ldexp
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, qsort, realloc
from libc.string cimport memcpy, memset

from cython_ext.pack cimport (CORRUPT, Packed, Reader, pack_bytes, pack_room, pack_text_head, pack_varint, read_bytes,
                              read_varint, unzigzag, varint_bytes, zigzag)

cdef enum:
    OCTAVE_BUCKETS = 35
    EXPONENT_MIN = -1074
    MANTISSA_BITS = 52
    CELL_BITS = 7               # a bucket is wider than a cell, so a cell sees one bound at most
    FINITE = (1024 + 1074) * OCTAVE_BUCKETS
    INFINITE = FINITE + 1       # ordinals: 0 is zero, 1 ... FINITE are buckets, negative values mirrored
    NOT_A_NUMBER = FINITE + 2
    ORDINALS_MAX = 2 * FINITE + 8
    BITS_MIN = 2                # of the number of slots at first

cdef uint64_t _bounds[OCTAVE_BUCKETS + 1]     # mantissas at which buckets begin
cdef uint8_t _cells[1 << CELL_BITS]           # bucket at which a cell begins
cdef double _middles[OCTAVE_BUCKETS]          # in [1, 2): within 1 % of everything in the bucket

cdef struct Quantiles:
    # uint64_t counts[1 << bits], 0 in free slots, and int32_t ordinals[1 << bits] follow: open addressing
    uint64_t total
    double least
    double greatest
    uint32_t bits
    uint32_t used

cdef struct Bucket:
    uint64_t count
    int32_t ordinal


def _bound(j):
    """The least mantissa k, 0 <= k <= 2**52, with 6s^3 - 21s^2 + 50s >= j for s = k / 2**52."""
    one = 2 ** int(MANTISSA_BITS)
    low, high = 0, one
    while low < high:
        k = (low + high) // 2
        if 6 * k**3 - 21 * k**2 * one + 50 * k * one**2 >= j * one**3:
            high = k
        else:
            low = k + 1
    return low


def _prepare():
    cdef int j, cell
    one = 2 ** int(MANTISSA_BITS)
    bounds = [_bound(j) for j in range(OCTAVE_BUCKETS + 1)]
    for j in range(OCTAVE_BUCKETS + 1):
        _bounds[j] = bounds[j]
    for j in range(OCTAVE_BUCKETS):
        low, high = one + bounds[j], one + bounds[j + 1]
        _middles[j] = float(Fraction(2 * low * high, (low + high) * one))
    j = 0
    for cell in range(1 << CELL_BITS):
        while bounds[j + 1] <= one * cell // 2 ** int(CELL_BITS):
            j += 1
        _cells[cell] = j


_prepare()


# ---- values and buckets

cdef int32_t _ordinal(double value) noexcept nogil:
    cdef uint64_t bits, mantissa
    cdef int exponent, bucket
    cdef int32_t ordinal
    memcpy(&bits, &value, 8)
    exponent = <int>(bits >> MANTISSA_BITS) & 2047
    mantissa = bits & ((<uint64_t>1 << MANTISSA_BITS) - 1)
    if exponent == 2047:
        if mantissa:
            return NOT_A_NUMBER
        return -INFINITE if bits >> 63 else INFINITE
    if exponent:
        exponent -= 1023
    elif mantissa == 0:
        return 0
    else:
        exponent = -1022
        while not mantissa >> MANTISSA_BITS:
            mantissa <<= 1
            exponent -= 1
        mantissa ^= <uint64_t>1 << MANTISSA_BITS
    bucket = _cells[mantissa >> (MANTISSA_BITS - CELL_BITS)]
    bucket += mantissa >= _bounds[bucket + 1]
    ordinal = 1 + (exponent - EXPONENT_MIN) * OCTAVE_BUCKETS + bucket
    return -ordinal if bits >> 63 else ordinal


cdef double _infinity() noexcept nogil:
    cdef uint64_t bits = <uint64_t>0x7FF0000000000000
    cdef double value
    memcpy(&value, &bits, 8)
    return value


cdef double _representative(int32_t ordinal) noexcept nogil:
    cdef int32_t size = -ordinal if ordinal < 0 else ordinal
    cdef double value
    if ordinal == 0:
        return 0.0
    if size >= INFINITE:
        value = _infinity()
        if size == NOT_A_NUMBER:
            value -= value
    else:
        value = ldexp(_middles[(size - 1) % OCTAVE_BUCKETS], (size - 1) // OCTAVE_BUCKETS + EXPONENT_MIN)
    return -value if ordinal < 0 else value


cdef inline bint _less(double a, double b) noexcept nogil:
    # Spark's order: NaN is the greatest.
    if isnan(a):
        return False
    return isnan(b) or a < b


cdef inline double _canonical(double value) noexcept nogil:
    cdef uint64_t bits = <uint64_t>0x7FF8000000000000
    if isnan(value):
        memcpy(&value, &bits, 8)
        return value
    return value + 0.0


# ---- the map of counts

cdef inline uint64_t* _counts(Quantiles* sketch) noexcept nogil:
    return <uint64_t*>(sketch + 1)


cdef inline int32_t* _ordinals(Quantiles* sketch) noexcept nogil:
    return <int32_t*>(_counts(sketch) + (<size_t>1 << sketch.bits))


cdef inline uint32_t _find(Quantiles* sketch, int32_t ordinal) noexcept nogil:
    # The slot of the ordinal, or the free one for it.
    cdef uint32_t mask = (<uint32_t>1 << sketch.bits) - 1
    cdef uint32_t at = (<uint32_t>ordinal * <uint32_t>0x9E3779B1) >> (32 - sketch.bits)
    cdef uint64_t* counts = _counts(sketch)
    cdef int32_t* ordinals = _ordinals(sketch)
    while counts[at] and ordinals[at] != ordinal:
        at = (at + 1) & mask
    return at


cdef Quantiles* _new(uint32_t bits, size_t* heap) noexcept nogil:
    cdef size_t size = sizeof(Quantiles) + (<size_t>12 << bits)
    cdef Quantiles* sketch = <Quantiles*>malloc(size)
    if sketch != NULL:
        memset(sketch, 0, size)
        sketch.bits = bits
        heap[0] += size
    return sketch


cdef int _count(void** block, int32_t ordinal, uint64_t count, size_t* heap) noexcept nogil:
    cdef Quantiles* sketch = <Quantiles*>block[0]
    cdef Quantiles* larger
    cdef uint32_t at = _find(sketch, ordinal), i
    if _counts(sketch)[at] == 0:
        if 4 * (sketch.used + 1) > <uint32_t>3 << sketch.bits:
            larger = _new(sketch.bits + 1, heap)
            if larger == NULL:
                return -1
            larger.total = sketch.total
            larger.least = sketch.least
            larger.greatest = sketch.greatest
            larger.used = sketch.used
            for i in range(<uint32_t>1 << sketch.bits):
                if _counts(sketch)[i]:
                    at = _find(larger, _ordinals(sketch)[i])
                    _counts(larger)[at] = _counts(sketch)[i]
                    _ordinals(larger)[at] = _ordinals(sketch)[i]
            heap[0] -= sizeof(Quantiles) + (<size_t>12 << sketch.bits)
            free(sketch)
            block[0] = larger
            sketch = larger
            at = _find(sketch, ordinal)
        _ordinals(sketch)[at] = ordinal
        sketch.used += 1
    _counts(sketch)[at] += count
    sketch.total += count
    return 0


cdef int _widen(void** block, double least, double greatest, size_t* heap) noexcept nogil:
    cdef Quantiles* sketch = <Quantiles*>block[0]
    if sketch == NULL:
        sketch = _new(BITS_MIN, heap)
        if sketch == NULL:
            return -1
        block[0] = sketch
        sketch.least = _canonical(least)
        sketch.greatest = _canonical(greatest)
        return 0
    if _less(least, sketch.least):
        sketch.least = _canonical(least)
    if _less(sketch.greatest, greatest):
        sketch.greatest = _canonical(greatest)
    return 0


cdef int quantiles_add(void** block, double value, size_t* heap) noexcept nogil:
    if _widen(block, value, value, heap):
        return -1
    return _count(block, _ordinal(value), 1, heap)


cdef int quantiles_merge(void** into, void* other, size_t* heap) noexcept nogil:
    cdef Quantiles* source = <Quantiles*>other
    cdef uint32_t i
    if source == NULL:
        return 0
    if _widen(into, source.least, source.greatest, heap):
        return -1
    for i in range(<uint32_t>1 << source.bits):
        if _counts(source)[i] and _count(into, _ordinals(source)[i], _counts(source)[i], heap):
            return -1
    return 0


cdef uint64_t quantiles_count(void* block) noexcept nogil:
    return 0 if block == NULL else (<Quantiles*>block).total


cdef int _compare_buckets(const void* a, const void* b) noexcept nogil:
    return (<const Bucket*>a).ordinal - (<const Bucket*>b).ordinal


cdef Bucket* _sorted(Quantiles* sketch) noexcept nogil:
    # The used buckets by ordinal, to be freed; NULL without memory.
    cdef Bucket* buckets = <Bucket*>malloc(sizeof(Bucket) * (sketch.used + 1))
    cdef uint32_t i, n = 0
    if buckets == NULL:
        return NULL
    for i in range(<uint32_t>1 << sketch.bits):
        if _counts(sketch)[i]:
            buckets[n].ordinal = _ordinals(sketch)[i]
            buckets[n].count = _counts(sketch)[i]
            n += 1
    qsort(buckets, n, sizeof(Bucket), <int (*)(const void*, const void*) noexcept nogil>_compare_buckets)
    return buckets


cdef uint64_t _rank(double p, uint64_t total) noexcept nogil:
    # ceil(p * total), at least 1, as Spark's discrete percentiles count.
    cdef double wanted = p * <double>total
    cdef uint64_t rank
    if wanted >= <double>total:
        return total
    rank = <uint64_t>wanted
    rank += <double>rank < wanted
    return rank if rank else 1


cdef int quantiles_find(void* block, double p, double* value) noexcept nogil:
    """The value of rank ceil(p * n), at least 1; 0 when there is none, -1 without memory.

    The least and the greatest value are exact; others come from their bucket's middle, no further out than those two.
    """
    cdef Quantiles* sketch = <Quantiles*>block
    cdef uint64_t rank, seen = 0
    cdef uint32_t i = 0
    cdef Bucket* buckets
    if sketch == NULL:
        return 0
    rank = _rank(p, sketch.total)
    if rank == 1:
        value[0] = sketch.least
        return 1
    if rank == sketch.total:
        value[0] = sketch.greatest
        return 1
    buckets = _sorted(sketch)
    if buckets == NULL:
        return -1
    while seen + buckets[i].count < rank:
        seen += buckets[i].count
        i += 1
    value[0] = _representative(buckets[i].ordinal)
    if _less(value[0], sketch.least):
        value[0] = sketch.least
    if _less(sketch.greatest, value[0]):
        value[0] = sketch.greatest
    free(buckets)
    return 1


cdef int quantiles_pack(void* block, Packed* out) noexcept nogil:
    cdef Quantiles* sketch = <Quantiles*>block
    cdef Bucket* buckets
    cdef uint64_t step
    cdef size_t size = 16
    cdef uint32_t i
    if sketch == NULL:
        return pack_varint(out, 0)
    buckets = _sorted(sketch)
    if buckets == NULL:
        return -1
    for i in range(sketch.used):
        size += varint_bytes(_step(buckets, i)) + varint_bytes(buckets[i].count)
    if pack_room(out, size + 64):
        free(buckets)
        return -1
    pack_text_head(out, size)
    pack_bytes(out, <const char*>&sketch.least, 8)
    pack_bytes(out, <const char*>&sketch.greatest, 8)
    for i in range(sketch.used):
        step = _step(buckets, i)
        pack_varint(out, step)
        pack_varint(out, buckets[i].count)
    free(buckets)
    return 0


cdef inline uint64_t _step(const Bucket* buckets, uint32_t i) noexcept nogil:
    return <uint64_t>(buckets[i].ordinal - buckets[i - 1].ordinal) if i else zigzag(buckets[0].ordinal)


cdef int quantiles_unpack(void** block, Reader* text, size_t* heap) noexcept nogil:
    cdef double least, greatest
    cdef const char* data = NULL
    cdef uint64_t step = 0, count = 0
    cdef int64_t ordinal = 0
    cdef bint first = True
    if read_bytes(text, 16, &data):
        return CORRUPT
    memcpy(&least, data, 8)
    memcpy(&greatest, data + 8, 8)
    if text.at == text.end or _less(greatest, least):
        return CORRUPT
    if _widen(block, least, greatest, heap):
        return -1
    while text.at < text.end:
        if read_varint(text, &step) or read_varint(text, &count) or count == 0 or step > ORDINALS_MAX:
            return CORRUPT
        if not first and step == 0:
            return CORRUPT
        ordinal = unzigzag(step) if first else ordinal + <int64_t>step
        first = False
        if not -INFINITE <= ordinal <= NOT_A_NUMBER:
            return CORRUPT
        if _count(block, <int32_t>ordinal, count, heap):
            return -1
    return 0

cdef bint quantiles_is_sound(void* block) noexcept nogil:
    cdef Quantiles* sketch = <Quantiles*>block
    cdef uint64_t total = 0
    cdef uint32_t i, used = 0
    if sketch == NULL:
        return True
    for i in range(<uint32_t>1 << sketch.bits):
        if _counts(sketch)[i]:
            total += _counts(sketch)[i]
            used += 1
            if not -INFINITE <= _ordinals(sketch)[i] <= NOT_A_NUMBER or _find(sketch, _ordinals(sketch)[i]) != i:
                return False
    return total == sketch.total and used == sketch.used and not _less(sketch.greatest, sketch.least)


cdef class QuantileSketch:
    """A sketch by itself: what `GroupTable` keeps per group."""
    cdef void* block
    cdef size_t heap

    def __dealloc__(self):
        free(self.block)

    def update(self, values):
        cdef double value
        for value in values:
            if quantiles_add(&self.block, value, &self.heap):
                raise MemoryError("no memory for a sketch")

    def merge(self, QuantileSketch other not None):
        if other is self:
            raise ValueError("a sketch cannot be merged into itself")
        if quantiles_merge(&self.block, other.block, &self.heap):
            raise MemoryError("no memory for a sketch")

    def __len__(self):
        return quantiles_count(self.block)

    @property
    def bytes_used(self):
        return self.heap

    def quantile(self, double p):
        """The value of rank ceil(p * n), or None without values. Raises ValueError unless 0 <= p <= 1."""
        cdef double value = 0.0
        cdef int found
        if not 0.0 <= p <= 1.0:
            raise ValueError(f"a percentile of {p}")
        found = quantiles_find(self.block, p, &value)
        if found < 0:
            raise MemoryError("no memory for a quantile")
        return value if found else None

    def buckets(self):
        """The canonical form: (ordinal, count) of the used buckets, by ordinal; docs/AGGREGATES.md numbers them."""
        cdef Quantiles* sketch = <Quantiles*>self.block
        cdef Bucket* buckets
        if sketch == NULL:
            return []
        buckets = _sorted(sketch)
        if buckets == NULL:
            raise MemoryError("no memory for the buckets")
        out = [(buckets[i].ordinal, buckets[i].count) for i in range(sketch.used)]
        free(buckets)
        return out

    def check(self):
        if not quantiles_is_sound(self.block):
            raise RuntimeError("a sketch is broken")


def bucket_of(double value):
    """The ordinal of a value's bucket: ascending with the value, 0 for zero, NaN last."""
    return _ordinal(value)


def value_of(int32_t ordinal):
    """The value that stands for a bucket: within 1 % of everything in it."""
    return _representative(ordinal)
