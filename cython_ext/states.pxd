# Aggregate states: the bytes that a group keeps per aggregate, how rows and other states get into them.
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from cython_ext.column cimport Column

cdef enum:  # cbt.aggregate.StateKind; tests/unit/cbt/test_aggregate.py holds the two together
    S_COUNT = 1
    S_SUM = 2
    S_SUM_DECIMAL = 3
    S_SUM_DECIMAL_WIDE = 4
    S_SUM_DOUBLE = 5
    S_MIN = 10         # + the kind of its values
    S_MAX = 20
    S_HLL = 30
    S_QUANTILES = 40

cdef enum:  # cbt.aggregate.Finish
    F_COUNT = 1
    F_SUM = 2
    F_AVG = 3
    F_VALUE = 4
    F_ESTIMATE = 5
    F_QUANTILE = 6
    F_SKETCH = 7

cdef struct State:
    int kind
    uint32_t offset  # of the fixed part, from the start of an entry; a multiple of 8
    uint32_t flag    # of the one byte that MIN and MAX keep: 0 no value yet, 1 a value (BOOLEAN: 1 false, 2 true)

cdef struct Input:
    # What one state reads. `data` of a constant column has step 0; constant NULLs and masks are told in advance.
    int kind                 # K_NULL: no argument, every row counts
    const char* data
    const uint8_t* valid     # NULL: no row is NULL
    Py_ssize_t step
    const uint8_t* mask      # NULL: no mask
    const uint8_t* mask_valid
    bint never               # no row counts

cdef enum:
    BATCH_ROWS_MAX = 256     # rows that are looked up together, so that their cache misses overlap

cdef struct Batch:
    # Some rows and the entries of their groups.
    char* base               # entry of row i: base + 8 * refs[i]
    const uint32_t* refs
    const uint32_t* rows
    Py_ssize_t length

cdef struct Text:
    # The block of MIN and MAX over STRING; the bytes follow.
    uint32_t size
    uint32_t capacity

cdef int state_bytes(int kind) noexcept nogil          # of the fixed part; -1: no such kind
cdef bint state_is_ordered(int kind) noexcept nogil      # MIN or MAX
cdef bint state_has_flag(int kind) noexcept nogil
cdef bint state_owns_block(int kind) noexcept nogil    # the fixed part ends in a pointer to a block of its own
cdef int state_input_kind(int kind) noexcept nogil     # of the argument; -1: any
cdef int check_column(Column column, int kind, Py_ssize_t rows, str role) except -1
cdef int refer_input(Input* out, int kind, Column column, Column mask, Py_ssize_t rows) except -1
cdef int update_state(const State* state, const Batch* batch, const Input* column, size_t* heap) noexcept nogil
cdef int merge_state(const State* state, char* into, char* other, size_t* heap) noexcept nogil
cdef void** state_block(const State* state, char* entry) noexcept nogil
cdef bint state_is_sound(const State* state, char* entry) noexcept nogil
