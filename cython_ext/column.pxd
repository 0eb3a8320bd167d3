# Columns: the values of one expression for the rows of one block, as plain C arrays.
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

cdef extern from "int128.h" nogil:
    ctypedef long long i128  # 128 bits in C: see the header for why arithmetic happens there
    i128 i128_from_i64(int64_t v)
    i128 i128_make(int64_t high, uint64_t low)
    uint64_t i128_low(i128 v)
    int64_t i128_high(i128 v)
    bint i128_fits_i64(i128 v)
    int i128_compare(i128 a, i128 b)
    bint i128_add(i128 a, i128 b, i128* out)
    bint i128_subtract(i128 a, i128 b, i128* out)
    bint i128_multiply(i128 a, i128 b, i128* out)

cdef enum:  # job.types.Kind; tests/unit/cython_ext/test_column.py holds the two together
    K_NULL = 0
    K_BOOLEAN = 1
    K_BIGINT = 2
    K_DECIMAL = 3
    K_DOUBLE = 4
    K_STRING = 5
    K_TIMESTAMP = 6

cdef struct StringRef:
    const char* data  # not zero-terminated; any address when size is 0
    uint32_t size     # bytes
    uint32_t reserved


cdef class Arena:
    """Bytes that new strings live in: grows by chunks, so addresses stay valid until the arena dies."""
    cdef list chunks           # bytes-like owners of the memory
    cdef char* cursor
    cdef size_t left           # bytes free behind cursor
    cdef readonly size_t size  # bytes allocated in all
    cdef char* reserve(self, size_t size) except NULL  # `size` writable bytes; call commit() with what was used
    cdef void commit(self, size_t size) noexcept nogil
    cdef char* grow(self, size_t size) except NULL with gil


cdef class Column:
    cdef readonly int kind
    cdef readonly Py_ssize_t length   # rows it stands for
    cdef readonly bint constant       # one stored value serves all rows
    cdef uint8_t* valid               # NULL: no row is NULL; else one byte a stored row, 1 = has a value
    cdef void* data                   # stored values: uint8_t, int64_t, i128, double or StringRef by kind
    cdef list owners                  # objects that keep the bytes of STRINGs alive

    # Typed views of `data`. Index with `row * step(column)`: 0 for a constant.
    cdef inline uint8_t* booleans(self) noexcept nogil:
        return <uint8_t*>self.data
    cdef inline int64_t* longs(self) noexcept nogil:
        return <int64_t*>self.data
    cdef inline i128* decimals(self) noexcept nogil:
        return <i128*>self.data
    cdef inline double* doubles(self) noexcept nogil:
        return <double*>self.data
    cdef inline StringRef* strings(self) noexcept nogil:
        return <StringRef*>self.data
    cdef inline Py_ssize_t step(self) noexcept nogil:
        return 0 if self.constant else 1
    cdef inline Py_ssize_t stored(self) noexcept nogil:
        return (1 if self.length else 0) if self.constant else self.length
    cdef inline bint is_null(self, Py_ssize_t row) noexcept nogil:
        return self.valid != NULL and not self.valid[0 if self.constant else row]
    cdef int need_valid(self) except -1  # allocates `valid`, all 1, when it is NULL


cdef class Selection:
    """Row numbers, ascending unless a sort made them."""
    cdef uint32_t* rows
    cdef readonly Py_ssize_t length


cdef size_t value_size(int kind) noexcept nogil      # bytes of one stored value
cdef Column new_column(int kind, Py_ssize_t length, bint constant, bint nullable)  # uninitialised data; valid all 1 if nullable
cdef Selection new_selection(Py_ssize_t length)      # uninitialised
cdef Column gather(Column column, Selection selection)
cdef Column constant_of(Column column, Py_ssize_t length)  # the same constant for `length` rows
