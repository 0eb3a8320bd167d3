"""States to values: how each aggregate finishes, for all groups at once."""

from libc.math cimport floor
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from cython_ext.column cimport (Column, K_BIGINT, K_BOOLEAN, K_DECIMAL, K_DOUBLE, K_NULL, K_STRING, StringRef, i128,
                                i128_fits_i64, i128_low, new_column, value_size)
from cython_ext.exact_sum cimport divide_words, exact_value
from cython_ext.sketch_hll cimport hll_estimate, hll_serialize
from cython_ext.sketch_quantiles cimport quantiles_count, quantiles_find
from cython_ext.states cimport (F_AVG, F_COUNT, F_ESTIMATE, F_QUANTILE, F_SUM, F_VALUE, S_COUNT, S_HLL, S_QUANTILES, S_SUM,
                                S_SUM_DECIMAL, S_SUM_DECIMAL_WIDE, S_SUM_DOUBLE, State, Text, state_block,
                                state_is_ordered)

cdef extern from "sums.h" nogil:
    i128 i128_load(const void* at)
    void i128_store(void* to, i128 v)
    bint i128_words(i128 v, uint64_t* words)
    bint i192_narrow(const uint64_t* at, i128* out)
    double i128_scaled(double v, int scale)
    bint sum_exceeds(i128 v, int digits)
    bint decimal_average(i128 total, uint64_t count, int up, int precision, i128* out)

cdef enum:
    DIGITS_MAX = 38

ctypedef int (*Fill)(const State* state, char* entry, Py_ssize_t row, FillTarget* target) noexcept nogil

cdef struct FillTarget:
    # Where finished values go. Fillers return 1 for a value, 0 for NULL, -1 for an overflow, -2 without memory.
    int how
    double parameter
    int precision   # digits of a DECIMAL result
    int scale       # of a DECIMAL argument
    void* data


cdef uint64_t _count_of(const State* state, char* entry) noexcept nogil:
    cdef uint64_t* words = <uint64_t*>(entry + state.offset)
    if state.kind >= S_QUANTILES:
        return quantiles_count((<void**>words)[0])
    if state.kind == S_COUNT or state.kind == S_SUM_DOUBLE:
        return words[0]
    return words[3] if state.kind == S_SUM_DECIMAL_WIDE else words[2]


cdef int _fill_count(const State* state, char* entry, Py_ssize_t row, FillTarget* target) noexcept nogil:
    (<int64_t*>target.data)[row] = <int64_t>_count_of(state, entry)
    return 1


cdef int _fill_sum(const State* state, char* entry, Py_ssize_t row, FillTarget* target) noexcept nogil:
    cdef i128 total = i128_load(entry + state.offset)
    if _count_of(state, entry) == 0:
        return 0
    if not i128_fits_i64(total):
        return -1
    (<int64_t*>target.data)[row] = <int64_t>i128_low(total)
    return 1


cdef int _fill_average(const State* state, char* entry, Py_ssize_t row, FillTarget* target) noexcept nogil:
    cdef uint64_t words[2]
    cdef uint64_t count = _count_of(state, entry)
    cdef bint negative = i128_words(i128_load(entry + state.offset), words)
    if count == 0:
        return 0
    (<double*>target.data)[row] = divide_words(negative, words, 2, 0, count)
    return 1


cdef int _fill_double(const State* state, char* entry, Py_ssize_t row, FillTarget* target) noexcept nogil:
    cdef uint64_t count = _count_of(state, entry)
    if count == 0:
        return 0
    (<double*>target.data)[row] = exact_value(state_block(state, entry)[0], count if target.how == F_AVG else 1)
    return 1


cdef int _fill_estimate(const State* state, char* entry, Py_ssize_t row, FillTarget* target) noexcept nogil:
    (<int64_t*>target.data)[row] = <int64_t>floor(hll_estimate(state_block(state, entry)[0]) + 0.5)
    return 1


cdef int _fill_quantile(const State* state, char* entry, Py_ssize_t row, FillTarget* target) noexcept nogil:
    cdef double value = 0.0
    cdef int found = quantiles_find(state_block(state, entry)[0], target.parameter, &value)
    if found < 0:
        return -2
    if state.kind == S_QUANTILES + K_DECIMAL:
        value = i128_scaled(value, target.scale)
    (<double*>target.data)[row] = value
    return found


cdef int _decimal_total(const State* state, char* entry, int precision, i128* total) noexcept nogil:
    # The sum when it has at most `precision` digits.
    if _count_of(state, entry) == 0:
        return 0
    if state.kind == S_SUM_DECIMAL:
        total[0] = i128_load(entry + state.offset)
    elif i192_narrow(<uint64_t*>(entry + state.offset), total):
        return -1
    return -1 if sum_exceeds(total[0], precision) else 1


cdef int _fill_decimal_sum(const State* state, char* entry, Py_ssize_t row, FillTarget* target) noexcept nogil:
    return _decimal_total(state, entry, target.precision, <i128*>target.data + row)


cdef int _fill_decimal_average(const State* state, char* entry, Py_ssize_t row, FillTarget* target) noexcept nogil:
    cdef i128 total
    cdef int scale = min(DIGITS_MAX, target.scale + 4)
    # Spark sums in 10 digits more than the argument has, and the average has 4 more.
    cdef int known = _decimal_total(state, entry, min(DIGITS_MAX, target.precision + 6), &total)
    if known != 1:
        return known
    if decimal_average(total, _count_of(state, entry), scale - target.scale, target.precision,
                       <i128*>target.data + row):
        return -1
    return 1


cdef int _fill_ordered(const State* state, char* entry, Py_ssize_t row, FillTarget* target) noexcept nogil:
    cdef int kind = state.kind % 10
    cdef uint8_t flag = (<uint8_t*>entry)[state.flag]
    cdef Text* text
    cdef StringRef* out
    if kind == K_STRING:
        text = <Text*>state_block(state, entry)[0]
        if text == NULL:
            return 0
        out = <StringRef*>target.data + row
        out.data = <char*>(text + 1)
        out.size = text.size
        out.reserved = 0
        return 1
    if not flag:
        return 0
    if kind == K_BOOLEAN:
        (<uint8_t*>target.data)[row] = flag - 1
    elif kind == K_DECIMAL:
        i128_store(<i128*>target.data + row, i128_load(entry + state.offset))
    else:
        (<int64_t*>target.data)[row] = (<int64_t*>(entry + state.offset))[0]
    return 1


cdef Fill _filler(int kind, int how, int* result_kind) except NULL:
    if how == F_COUNT and S_COUNT <= kind <= S_SUM_DOUBLE:
        result_kind[0] = K_BIGINT
        return _fill_count
    if how == F_SUM and kind == S_SUM:
        result_kind[0] = K_BIGINT
        return _fill_sum
    if kind == S_SUM_DECIMAL or kind == S_SUM_DECIMAL_WIDE:
        result_kind[0] = K_DECIMAL
        if how == F_SUM:
            return _fill_decimal_sum
        if how == F_AVG:
            return _fill_decimal_average
    if how == F_VALUE and state_is_ordered(kind):
        result_kind[0] = kind % 10
        return _fill_ordered
    result_kind[0] = K_DOUBLE
    if how == F_AVG and kind == S_SUM:
        return _fill_average
    if (how == F_SUM or how == F_AVG) and kind == S_SUM_DOUBLE:
        return _fill_double
    if how == F_QUANTILE and kind >= S_QUANTILES:
        return _fill_quantile
    result_kind[0] = K_BIGINT
    if how == F_ESTIMATE and S_HLL <= kind < S_QUANTILES:
        return _fill_estimate
    if how == F_COUNT and kind >= S_QUANTILES:
        return _fill_count
    raise ValueError(f"a state of kind {kind} has no finish {how}")


cdef tuple finish_state(const State* state, char* base, const uint32_t* refs, Py_ssize_t groups, int how,
                        double parameter, int precision, int scale, object owner):
    """The finished column, a row per entry, and how many rows are NULL because their value overflowed."""
    cdef int kind = K_NULL, got
    cdef Fill fill = _filler(state.kind, how, &kind)
    cdef Column column = new_column(kind, groups, False, True)
    cdef FillTarget target
    cdef Py_ssize_t row, overflows = 0
    target.how = how
    target.parameter = parameter
    target.precision = precision
    target.scale = scale
    target.data = column.data
    with nogil:
        memset(column.data, 0, groups * value_size(kind))
        for row in range(groups):
            got = fill(state, base + 8 * <size_t>refs[row], row, &target)
            if got == -2:
                with gil:
                    raise MemoryError("no memory to finish a state")
            column.valid[row] = got == 1
            overflows += got == -1
    if kind == K_STRING:
        column.owners.append(owner)
    return column, overflows


cdef bytes serialize_state(const State* state, char* entry):
    """The bytes of an HLL state in DataSketches' form."""
    if not S_HLL <= state.kind < S_QUANTILES:
        raise ValueError(f"a state of kind {state.kind} is no sketch that others read")
    return hll_serialize(state_block(state, entry)[0])
