"""Comparisons of all kinds, membership in a list, greatest and least.

DOUBLE follows Spark: NaN equals NaN and is greater than anything, -0.0 equals 0.0. STRING compares by bytes.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from cython_ext.column cimport (
    K_BIGINT, K_BOOLEAN, K_DECIMAL, K_DOUBLE, K_STRING, K_TIMESTAMP, Column, StringRef, i128, i128_compare,
    i128_high, i128_low, new_column,
)
from cython_ext.exprs_result cimport expect, result1, result2
from cython_ext.hashing cimport hash_bytes, murmur_finish

EQ = 0
NE = 1
LT = 2
LE = 3
GT = 4
GE = 5

cdef enum:
    OP_EQ = 0
    OP_NE = 1
    OP_LT = 2
    OP_LE = 3
    OP_GT = 4
    OP_GE = 5

cdef extern from "loops.h" nogil:
    void compare_longs_scalar(int op, const int64_t* a, int64_t b, uint8_t* out, Py_ssize_t n)
    void compare_longs(int op, const int64_t* a, const int64_t* b, uint8_t* out, Py_ssize_t n)

SMALL_LIST_MAX = 8
"""Up to so many whole numbers `Membership` compares one by one, which vectorises; a larger list is hashed."""


def compare(int operator, Column a not None, Column b not None):
    """a `operator` b, one of EQ, NE, LT, LE, GT, GE; NULL where either is. O(rows)."""
    expect(b, a.kind)
    if not OP_EQ <= operator <= OP_GE:
        raise ValueError(f"no comparison {operator}")
    cdef Column out = result2(K_BOOLEAN, a, b)
    if a.constant and not b.constant:
        a, b = b, a
        operator = _mirrored(operator)
    cdef int op = operator
    with nogil:
        if a.kind == K_BIGINT or a.kind == K_TIMESTAMP:
            if b.step():
                compare_longs(op, a.longs(), b.longs(), out.booleans(), out.stored())
            elif out.stored():
                compare_longs_scalar(op, a.longs(), b.longs()[0], out.booleans(), out.stored())
        elif a.kind == K_BOOLEAN:
            _compare_booleans(op, a.booleans(), b.booleans(), b.step(), out.booleans(), out.stored())
        elif a.kind == K_DOUBLE:
            _compare_doubles(op, a.doubles(), b.doubles(), b.step(), out.booleans(), out.stored())
        elif a.kind == K_DECIMAL:
            _compare_decimals(op, a.decimals(), b.decimals(), b.step(), out.booleans(), out.stored())
        elif a.kind == K_STRING and op <= OP_NE:
            _equal_strings(op, a, b, out)
        elif a.kind == K_STRING:
            _order_strings(op, a, b, out)
        else:
            _refuse(a.kind)
    return out


cdef int _refuse(int kind) except -1 with gil:
    raise TypeError(f"values of kind {kind} cannot be compared")


cdef int _mirrored(int op) noexcept nogil:
    if op == OP_LT:
        return OP_GT
    if op == OP_LE:
        return OP_GE
    if op == OP_GT:
        return OP_LT
    if op == OP_GE:
        return OP_LE
    return op


cdef void _compare_booleans(
    int op, const uint8_t* a, const uint8_t* b, Py_ssize_t step, uint8_t* out, Py_ssize_t n
) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        out[i] = _holds(op, <int>a[i] - <int>b[i * step])


cdef inline uint8_t _double_equal(double a, double b) noexcept nogil:
    return (a == b) | ((a != a) & (b != b))


cdef inline uint8_t _double_less(double a, double b) noexcept nogil:
    return (a < b) | ((a == a) & (b != b))


cdef void _compare_doubles(
    int op, const double* a, const double* b, Py_ssize_t step, uint8_t* out, Py_ssize_t n
) noexcept nogil:
    if step:
        _compare_double_vectors(op, a, b, out, n)
    elif n:
        _compare_double_scalar(op, a, b[0], out, n)


cdef void _compare_double_vectors(int op, const double* a, const double* b, uint8_t* out, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    if op == OP_EQ:
        for i in range(n):
            out[i] = _double_equal(a[i], b[i])
    elif op == OP_NE:
        for i in range(n):
            out[i] = _double_equal(a[i], b[i]) ^ 1
    elif op == OP_LT:
        for i in range(n):
            out[i] = _double_less(a[i], b[i])
    elif op == OP_LE:
        for i in range(n):
            out[i] = _double_less(b[i], a[i]) ^ 1
    elif op == OP_GT:
        for i in range(n):
            out[i] = _double_less(b[i], a[i])
    else:
        for i in range(n):
            out[i] = _double_less(a[i], b[i]) ^ 1


cdef void _compare_double_scalar(int op, const double* a, double b, uint8_t* out, Py_ssize_t n) noexcept nogil:
    """With the constant's side of NaN settled, one comparison a row is left."""
    cdef Py_ssize_t i
    cdef uint8_t flip = op == OP_NE or op == OP_LE or op == OP_GE
    if b != b:
        # NaN is the greatest and equals itself.
        for i in range(n):
            out[i] = (a[i] != a[i]) if op == OP_EQ or op == OP_NE or op == OP_GE or op == OP_LT else 0
        if op == OP_NE or op == OP_LT or op == OP_LE:
            for i in range(n):
                out[i] ^= 1
    elif op == OP_EQ or op == OP_NE:
        for i in range(n):
            out[i] = <uint8_t>(a[i] == b) ^ flip
    elif op == OP_LT or op == OP_GE:
        for i in range(n):
            out[i] = <uint8_t>(a[i] < b) ^ flip
    else:
        # Not at most b: greater, or NaN.
        flip ^= 1
        for i in range(n):
            out[i] = <uint8_t>(a[i] <= b) ^ flip


cdef inline uint8_t _holds(int op, int order) noexcept nogil:
    if op == OP_EQ:
        return order == 0
    if op == OP_NE:
        return order != 0
    if op == OP_LT:
        return order < 0
    if op == OP_LE:
        return order <= 0
    if op == OP_GT:
        return order > 0
    return order >= 0


cdef void _compare_decimals(
    int op, const i128* a, const i128* b, Py_ssize_t step, uint8_t* out, Py_ssize_t n
) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        out[i] = _holds(op, i128_compare(a[i], b[i * step]))


cdef inline bint _same(const StringRef* a, const StringRef* b) noexcept nogil:
    return a.size == b.size and equal_bytes(a.data, b.data, a.size)


cdef inline int _order(const StringRef* a, const StringRef* b) noexcept nogil:
    cdef uint32_t size = a.size if a.size < b.size else b.size
    cdef int order = memcmp(a.data, b.data, size) if size else 0
    if order:
        return order
    return (a.size > b.size) - (a.size < b.size)


cdef void _equal_strings(int op, Column a, Column b, Column out) noexcept nogil:
    # NULL rows may hold any address, so only valid rows are looked at.
    cdef Py_ssize_t i, n = out.stored(), step = b.step()
    cdef uint8_t flip = op == OP_NE
    cdef StringRef* x = a.strings()
    cdef StringRef* y = b.strings()
    if out.valid == NULL:
        for i in range(n):
            out.booleans()[i] = <uint8_t>_same(&x[i], &y[i * step]) ^ flip
        return
    for i in range(n):
        out.booleans()[i] = 0
        if out.valid[i]:
            out.booleans()[i] = <uint8_t>_same(&x[i], &y[i * step]) ^ flip


cdef void _order_strings(int op, Column a, Column b, Column out) noexcept nogil:
    cdef Py_ssize_t i, n = out.stored(), step = b.step()
    cdef StringRef* x = a.strings()
    cdef StringRef* y = b.strings()
    for i in range(n):
        out.booleans()[i] = 0
        if out.valid == NULL or out.valid[i]:
            out.booleans()[i] = _holds(op, _order(&x[i], &y[i * step]))


def equal_null_safe(Column a not None, Column b not None):
    """a <=> b: NULL equals NULL, and the result is never NULL. O(rows)."""
    cdef Column out = compare(OP_EQ, a, b)
    cdef Py_ssize_t i
    cdef uint8_t va, vb
    if out.valid == NULL:
        return out
    for i in range(out.stored()):
        va = 1 if a.valid == NULL else a.valid[i * a.step()]
        vb = 1 if b.valid == NULL else b.valid[i * b.step()]
        if not (va & vb):
            out.booleans()[i] = va == vb
    cdef Column answer = new_column(K_BOOLEAN, out.length, out.constant, False)
    memcpy(answer.data, out.data, out.stored())
    return answer


def extreme(Column a not None, Column b not None, bint greatest):
    """The greater (or lesser) of two; a NULL is passed over, and of equals the first is taken. O(rows)."""
    cdef Column better = compare(OP_GT if greatest else OP_LT, b, a)
    cdef Py_ssize_t i, length = better.length
    cdef Column out = new_column(a.kind, length, better.constant, False)
    cdef uint8_t va, vb, second
    out.owners = a.owners + b.owners
    if a.valid != NULL and b.valid != NULL:
        out.need_valid()
    cdef size_t size = 1 if a.kind == K_BOOLEAN else 16 if a.kind == K_DECIMAL or a.kind == K_STRING else 8
    cdef char* of
    with nogil:
        for i in range(out.stored()):
            va = 1 if a.valid == NULL else a.valid[i * a.step()]
            vb = 1 if b.valid == NULL else b.valid[i * b.step()]
            second = better.booleans()[i] if va & vb else vb
            of = <char*>b.data + i * b.step() * size if second else <char*>a.data + i * a.step() * size
            memcpy(<char*>out.data + i * size, of, size)
            if out.valid != NULL:
                out.valid[i] = va | vb
    return out


cdef inline uint64_t _double_bits(double value) noexcept nogil:
    cdef uint64_t bits
    if value != value:
        return <uint64_t>0x7FF8000000000000
    value += 0.0  # -0.0 becomes 0.0
    memcpy(&bits, &value, 8)
    return bits


cdef uint64_t hash_row(Column column, Py_ssize_t row, uint64_t seed) noexcept nogil:
    cdef StringRef* text
    if column.kind == K_STRING:
        text = &column.strings()[row]
        return hash_bytes(seed, 0, 0, text.data, text.size)
    if column.kind == K_DOUBLE:
        return murmur_finish(seed ^ _double_bits(column.doubles()[row]))
    if column.kind == K_DECIMAL:
        seed ^= murmur_finish(<uint64_t>i128_high(column.decimals()[row]))
        return murmur_finish(seed ^ i128_low(column.decimals()[row]))
    if column.kind == K_BOOLEAN:
        return murmur_finish(seed ^ (column.booleans()[row] != 0))
    return murmur_finish(seed ^ <uint64_t>column.longs()[row])


cdef bint same_row(Column a, Py_ssize_t i, Column b, Py_ssize_t k) noexcept nogil:
    if a.kind == K_STRING:
        return _same(&a.strings()[i], &b.strings()[k])
    if a.kind == K_DOUBLE:
        return _double_bits(a.doubles()[i]) == _double_bits(b.doubles()[k])
    if a.kind == K_DECIMAL:
        return i128_compare(a.decimals()[i], b.decimals()[k]) == 0
    if a.kind == K_BOOLEAN:
        return (a.booleans()[i] != 0) == (b.booleans()[k] != 0)
    return a.longs()[i] == b.longs()[k]


cdef class Membership:
    """A list of candidates, prepared once; `test` says for each row whether it is among them.

    `candidates` is a column of any length; a NULL among them makes every miss NULL, as in SQL. Small lists
    of whole numbers are compared one by one, others hashed: O(rows) either way.
    """

    cdef Column candidates
    cdef bint has_null
    cdef bytes memory      # slots: candidate row + 1, or 0
    cdef uint32_t* slots
    cdef uint64_t mask

    def __init__(self, Column candidates not None):
        cdef Py_ssize_t row
        cdef uint64_t slot, size = 4
        if candidates.constant:
            raise ValueError("candidates are a plain column")
        while size < 2 * <uint64_t>candidates.length:
            size *= 2
        self.candidates = candidates
        self.mask = size - 1
        self.memory = bytes(size * sizeof(uint32_t))
        self.slots = <uint32_t*><char*>self.memory
        for row in range(candidates.length):
            if candidates.is_null(row):
                self.has_null = True
            elif not self._find(candidates, row):
                slot = hash_row(candidates, row, 0) & self.mask
                while self.slots[slot]:
                    slot = (slot + 1) & self.mask
                self.slots[slot] = <uint32_t>row + 1

    cdef bint _find(self, Column column, Py_ssize_t row) noexcept nogil:
        cdef uint64_t slot = hash_row(column, row, 0) & self.mask
        while self.slots[slot]:
            if same_row(column, row, self.candidates, self.slots[slot] - 1):
                return True
            slot = (slot + 1) & self.mask
        return False

    def test(self, Column column not None):
        """BOOLEAN: true for members; else false, or NULL where the row or a candidate is NULL. O(rows)."""
        expect(column, self.candidates.kind)
        cdef Column out = result1(K_BOOLEAN, column)
        cdef Py_ssize_t row, n = out.stored()
        cdef bint few = self.candidates.length <= SMALL_LIST_MAX and (
            column.kind == K_BIGINT or column.kind == K_TIMESTAMP
        )
        with nogil:
            if few:
                self._test_few(column.longs(), out.booleans(), n)
            else:
                for row in range(n):
                    out.booleans()[row] = 0
                    if out.valid == NULL or out.valid[row]:
                        out.booleans()[row] = self._find(column, row)
        if self.has_null:
            out.need_valid()
            for row in range(n):
                out.valid[row] &= out.booleans()[row]
        return out

    cdef void _test_few(self, const int64_t* values, uint8_t* out, Py_ssize_t n) noexcept nogil:
        cdef Py_ssize_t row, k
        cdef int64_t candidate
        for row in range(n):
            out[row] = 0
        for k in range(self.candidates.length):
            if self.candidates.is_null(k):
                continue
            candidate = self.candidates.longs()[k]
            for row in range(n):
                out[row] |= values[row] == candidate
