"""Aggregate states: what a group keeps per aggregate, and how rows and other states get into it.

A state is a fixed part inside the group's entry (8-byte aligned), for MIN and MAX one more byte that says whether there
is a value, and for strings, exact DOUBLE sums and sketches a block on the heap that the fixed part points to. Merging
is commutative and associative; docs/AGGREGATES.md has the layouts and their canonical forms.
"""

from libc.math cimport isnan
from libc.stdlib cimport realloc
from libc.string cimport memcmp, memcpy, memset

from cython_ext.column cimport (K_BIGINT, K_BOOLEAN, K_DECIMAL, K_DOUBLE, K_NULL, K_STRING, K_TIMESTAMP, StringRef, i128,
                                i128_compare, i128_from_i64)
from cython_ext.exact_sum cimport exact_add, exact_is_sound, exact_merge
from cython_ext.sketch_hll cimport hll_add, hll_is_sound, hll_merge
from cython_ext.sketch_quantiles cimport quantiles_add, quantiles_is_sound, quantiles_merge

cdef extern from "sums.h" nogil:
    double i128_nearest(i128 v)
    bint sum_exceeds(i128 v, int digits)
    i128 i128_load(const void* at)
    void i128_store(void* to, i128 v)
    void i128_accumulate(void* to, i128 v)
    void i192_accumulate(uint64_t* to, i128 v)
    void i192_add(uint64_t* to, const uint64_t* other)


# ---- shapes

cdef bint state_is_ordered(int kind) noexcept nogil:
    return S_MIN + K_BOOLEAN <= kind <= S_MIN + K_TIMESTAMP or S_MAX + K_BOOLEAN <= kind <= S_MAX + K_TIMESTAMP


cdef int state_bytes(int kind) noexcept nogil:
    cdef int value = kind % 10
    if kind == S_COUNT:
        return 8
    if kind == S_SUM or kind == S_SUM_DECIMAL:
        return 24
    if kind == S_SUM_DECIMAL_WIDE:
        return 32
    if kind == S_SUM_DOUBLE:
        return 16
    if state_is_ordered(kind):
        return 0 if value == K_BOOLEAN else 16 if value == K_DECIMAL else 8
    if state_owns_block(kind):
        return 8
    return -1


cdef bint state_has_flag(int kind) noexcept nogil:
    return state_is_ordered(kind) and kind % 10 != K_STRING


cdef bint state_owns_block(int kind) noexcept nogil:
    if kind == S_SUM_DOUBLE or kind == S_MIN + K_STRING or kind == S_MAX + K_STRING:
        return True
    if S_HLL + K_BOOLEAN <= kind <= S_HLL + K_TIMESTAMP:
        return True
    return S_QUANTILES + K_BIGINT <= kind <= S_QUANTILES + K_DOUBLE


cdef int state_input_kind(int kind) noexcept nogil:
    if kind == S_COUNT:
        return -1
    if kind == S_SUM:
        return K_BIGINT
    if kind == S_SUM_DECIMAL or kind == S_SUM_DECIMAL_WIDE:
        return K_DECIMAL
    if kind == S_SUM_DOUBLE:
        return K_DOUBLE
    return kind % 10


cdef void** state_block(const State* state, char* entry) noexcept nogil:
    # The pointer to the block of a state that owns one: the last 8 bytes of its fixed part.
    return <void**>(entry + state.offset + state_bytes(state.kind) - 8)


# ---- rows into states

cdef int check_column(Column column, int kind, Py_ssize_t rows, str role) except -1:
    if column is None:
        raise TypeError(f"a {role} is missing")
    if kind >= 0 and column.kind != kind:
        # BIGINT and TIMESTAMP are not the same; a NULL literal goes anywhere but into keys
        if role == "key" or column.kind != K_NULL:
            raise TypeError(f"a {role} of kind {column.kind}, not {kind}")
    if column.length != rows and not (column.constant and column.length):
        raise ValueError(f"a {role} of {column.length} rows, not {rows}")
    return 0


cdef int refer_input(Input* out, int kind, Column column, Column mask, Py_ssize_t rows) except -1:
    """What a state of `kind` reads; raises TypeError or ValueError for columns that do not fit."""
    memset(out, 0, sizeof(Input))
    if column is None and state_input_kind(kind) >= 0:
        raise ValueError(f"a state of kind {kind} needs an input")
    if column is not None:
        check_column(column, state_input_kind(kind), rows, "input")
        out.kind = column.kind
        out.data = <const char*>column.data
        out.step = column.step()
        out.never = column.kind == K_NULL
        if column.constant:
            out.never = out.never or column.is_null(0)
        else:
            out.valid = column.valid
    if mask is not None:
        check_column(mask, K_BOOLEAN, rows, "mask")
        if mask.constant:
            out.never = out.never or mask.is_null(0) or not mask.booleans()[0]
        else:
            out.mask = mask.booleans()
            out.mask_valid = mask.valid
    return 0


cdef inline char* _at(const State* state, const Batch* batch, Py_ssize_t i) noexcept nogil:
    return batch.base + 8 * <size_t>batch.refs[i] + state.offset


cdef void _update_count(const State* state, const Batch* batch) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(batch.length):
        (<uint64_t*>_at(state, batch, i))[0] += 1


cdef void _update_sum(const State* state, const Batch* batch, const Input* column) noexcept nogil:
    cdef Py_ssize_t i
    cdef char* at
    cdef const int64_t* values = <const int64_t*>column.data
    for i in range(batch.length):
        at = _at(state, batch, i)
        i128_accumulate(at, i128_from_i64(values[batch.rows[i] * column.step]))
        (<uint64_t*>at)[2] += 1


cdef void _update_decimal(const State* state, const Batch* batch, const Input* column) noexcept nogil:
    cdef Py_ssize_t i
    cdef char* at
    cdef const i128* values = <const i128*>column.data
    for i in range(batch.length):
        at = _at(state, batch, i)
        if state.kind == S_SUM_DECIMAL:
            i128_accumulate(at, values[batch.rows[i] * column.step])
            (<uint64_t*>at)[2] += 1
        else:
            i192_accumulate(<uint64_t*>at, values[batch.rows[i] * column.step])
            (<uint64_t*>at)[3] += 1


cdef int _update_double_sum(const State* state, const Batch* batch, const Input* column, size_t* heap) noexcept nogil:
    cdef Py_ssize_t i
    cdef char* at
    cdef const double* values = <const double*>column.data
    for i in range(batch.length):
        at = _at(state, batch, i)
        (<uint64_t*>at)[0] += 1
        if exact_add(<void**>(at + 8), values[batch.rows[i] * column.step], heap):
            return -1
    return 0


cdef int _update_hll(const State* state, const Batch* batch, const Input* column, size_t* heap) noexcept nogil:
    cdef Py_ssize_t i, row
    cdef void** block
    cdef const StringRef* text
    cdef double canonical
    cdef int64_t whole
    cdef int failed = 0
    for i in range(batch.length):
        block = <void**>_at(state, batch, i)
        row = batch.rows[i] * column.step
        if column.kind == K_STRING:
            text = <const StringRef*>column.data + row
            failed |= hll_add(block, text.data, text.size, heap)
        elif column.kind == K_DECIMAL:
            failed |= hll_add(block, column.data + 16 * row, 16, heap)
        elif column.kind == K_DOUBLE:
            canonical = _canonical((<const double*>column.data)[row])
            failed |= hll_add(block, <const char*>&canonical, 8, heap)
        elif column.kind == K_BOOLEAN:
            whole = (<const uint8_t*>column.data)[row]
            failed |= hll_add(block, <const char*>&whole, 8, heap)
        else:
            failed |= hll_add(block, column.data + 8 * row, 8, heap)
    return failed


cdef int _update_quantiles(const State* state, const Batch* batch, const Input* column, size_t* heap) noexcept nogil:
    cdef Py_ssize_t i, row
    cdef double value
    cdef int failed = 0
    for i in range(batch.length):
        row = batch.rows[i] * column.step
        if column.kind == K_BIGINT:
            value = <double>(<const int64_t*>column.data)[row]
        elif column.kind == K_DECIMAL:
            value = i128_nearest((<const i128*>column.data)[row])
        else:
            value = (<const double*>column.data)[row]
        failed |= quantiles_add(<void**>_at(state, batch, i), value, heap)
    return failed


cdef inline bint _greatest(const State* state) noexcept nogil:
    return state.kind >= S_MAX


cdef inline void _offer_boolean(uint8_t* flag, bint value, bint greatest) noexcept nogil:
    cdef uint8_t offered = 2 if value else 1
    if flag[0] == 0 or (offered > flag[0] if greatest else offered < flag[0]):
        flag[0] = offered


cdef inline void _offer_long(char* at, uint8_t* flag, int64_t value, bint greatest) noexcept nogil:
    cdef int64_t* held = <int64_t*>at
    if flag[0] == 0 or (value > held[0] if greatest else value < held[0]):
        held[0] = value
        flag[0] = 1


cdef inline void _offer_decimal(char* at, uint8_t* flag, i128 value, bint greatest) noexcept nogil:
    cdef int order = i128_compare(value, i128_load(at)) if flag[0] else 0
    if flag[0] == 0 or (order > 0 if greatest else order < 0):
        i128_store(at, value)
        flag[0] = 1


cdef inline double _canonical(double value) noexcept nogil:
    # One NaN, one zero: equal values have equal bytes.
    cdef uint64_t bits = <uint64_t>0x7FF8000000000000
    if isnan(value):
        memcpy(&value, &bits, 8)
        return value
    return value + 0.0


cdef inline bint _double_less(double a, double b) noexcept nogil:
    # Spark's order: NaN is the greatest and equals itself.
    if isnan(a):
        return False
    return isnan(b) or a < b


cdef inline void _offer_double(char* at, uint8_t* flag, double value, bint greatest) noexcept nogil:
    cdef double* held = <double*>at
    if flag[0] == 0 or (_double_less(held[0], value) if greatest else _double_less(value, held[0])):
        held[0] = _canonical(value)
        flag[0] = 1


cdef inline int _text_compare(const char* a, uint32_t a_size, const char* b, uint32_t b_size) noexcept nogil:
    cdef uint32_t shared = min(a_size, b_size)
    cdef int order = memcmp(a, b, shared) if shared else 0
    if order:
        return order
    return (a_size > b_size) - (a_size < b_size)


cdef int _offer_text(char* at, const char* data, uint32_t size, bint greatest, size_t* heap) noexcept nogil:
    cdef Text* held = (<Text**>at)[0]
    cdef size_t before
    cdef int order
    if held != NULL:
        order = _text_compare(data, size, <char*>(held + 1), held.size)
        if order == 0 or (order < 0) == greatest:
            return 0
    if held == NULL or held.capacity < size:
        before = sizeof(Text) + held.capacity if held != NULL else 0
        held = <Text*>realloc(held, sizeof(Text) + size)
        if held == NULL:
            return -1
        held.capacity = size
        heap[0] += sizeof(Text) + size - before
        (<Text**>at)[0] = held
    held.size = size
    if size:
        memcpy(<char*>(held + 1), data, size)
    return 0


cdef int _update_ordered(const State* state, const Batch* batch, const Input* column, size_t* heap) noexcept nogil:
    cdef Py_ssize_t i, row
    cdef char* at
    cdef uint8_t* flag
    cdef int kind = state.kind % 10
    cdef bint greatest = _greatest(state)
    cdef const StringRef* text
    for i in range(batch.length):
        at = _at(state, batch, i)
        flag = <uint8_t*>at - state.offset + state.flag
        row = batch.rows[i] * column.step
        if kind == K_BIGINT or kind == K_TIMESTAMP:
            _offer_long(at, flag, (<const int64_t*>column.data)[row], greatest)
        elif kind == K_DOUBLE:
            _offer_double(at, flag, (<const double*>column.data)[row], greatest)
        elif kind == K_DECIMAL:
            _offer_decimal(at, flag, (<const i128*>column.data)[row], greatest)
        elif kind == K_BOOLEAN:
            _offer_boolean(flag, (<const uint8_t*>column.data)[row], greatest)
        else:
            text = <const StringRef*>column.data + row
            if _offer_text(at, text.data, text.size, greatest, heap) < 0:
                return -1
    return 0


cdef int _update_kept(const State* state, const Batch* batch, const Input* column, size_t* heap) noexcept nogil:
    if state.kind == S_COUNT:
        _update_count(state, batch)
    elif state.kind == S_SUM:
        _update_sum(state, batch, column)
    elif state.kind == S_SUM_DECIMAL or state.kind == S_SUM_DECIMAL_WIDE:
        _update_decimal(state, batch, column)
    elif state.kind == S_SUM_DOUBLE:
        return _update_double_sum(state, batch, column, heap)
    elif state.kind >= S_QUANTILES:
        return _update_quantiles(state, batch, column, heap)
    elif state.kind >= S_HLL:
        return _update_hll(state, batch, column, heap)
    else:
        return _update_ordered(state, batch, column, heap)
    return 0


cdef int update_state(const State* state, const Batch* batch, const Input* column, size_t* heap) noexcept nogil:
    """Adds the rows of the batch whose argument is not NULL and whose mask is true; -1 without memory."""
    cdef uint32_t refs[BATCH_ROWS_MAX]
    cdef uint32_t rows[BATCH_ROWS_MAX]
    cdef Py_ssize_t i, n = 0
    cdef uint32_t row
    cdef uint8_t keep
    cdef Batch kept
    if column.never:
        return 0
    if column.valid == NULL and column.mask == NULL:
        return _update_kept(state, batch, column, heap)
    for i in range(batch.length):
        row = batch.rows[i]
        keep = 1
        if column.valid != NULL:
            keep = column.valid[row] != 0
        if column.mask != NULL:
            keep &= column.mask[row] != 0
        if column.mask_valid != NULL:
            keep &= column.mask_valid[row] != 0
        refs[n] = batch.refs[i]
        rows[n] = row
        n += keep
    kept.base = batch.base
    kept.refs = refs
    kept.rows = rows
    kept.length = n
    return _update_kept(state, &kept, column, heap)


# ---- states into states

cdef int _merge_ordered(const State* state, char* into, char* other, size_t* heap) noexcept nogil:
    cdef int kind = state.kind % 10
    cdef bint greatest = _greatest(state)
    cdef uint8_t* flag = <uint8_t*>into + state.flag
    cdef uint8_t seen = (<uint8_t*>other)[state.flag]
    cdef char* at = into + state.offset
    cdef char* offered = other + state.offset
    cdef Text* text
    if kind == K_STRING:
        text = (<Text**>offered)[0]
        return 0 if text == NULL else _offer_text(at, <char*>(text + 1), text.size, greatest, heap)
    if not seen:
        return 0
    if kind == K_BOOLEAN:
        _offer_boolean(flag, seen == 2, greatest)
    elif kind == K_DOUBLE:
        _offer_double(at, flag, (<double*>offered)[0], greatest)
    elif kind == K_DECIMAL:
        _offer_decimal(at, flag, i128_load(offered), greatest)
    else:
        _offer_long(at, flag, (<int64_t*>offered)[0], greatest)
    return 0


cdef int merge_state(const State* state, char* into, char* other, size_t* heap) noexcept nogil:
    """Adds the state inside the entry `other` to the one inside `into`; -1 without memory."""
    cdef uint64_t* a = <uint64_t*>(into + state.offset)
    cdef uint64_t* b = <uint64_t*>(other + state.offset)
    if state.kind == S_COUNT:
        a[0] += b[0]
    elif state.kind == S_SUM or state.kind == S_SUM_DECIMAL:
        i128_accumulate(a, i128_load(b))
        a[2] += b[2]
    elif state.kind == S_SUM_DECIMAL_WIDE:
        i192_add(a, b)
        a[3] += b[3]
    elif state.kind == S_SUM_DOUBLE:
        a[0] += b[0]
        return exact_merge(<void**>(a + 1), (<void**>(b + 1))[0], heap)
    elif state.kind >= S_QUANTILES:
        return quantiles_merge(<void**>a, (<void**>b)[0], heap)
    elif state.kind >= S_HLL:
        return hll_merge(<void**>a, (<void**>b)[0], heap)
    else:
        return _merge_ordered(state, into, other, heap)
    return 0


cdef bint state_is_sound(const State* state, char* entry) noexcept nogil:
    """Whether the bytes are a state that updates could have made."""
    cdef Text* text
    cdef uint8_t flag
    if state.kind == S_MIN + K_STRING or state.kind == S_MAX + K_STRING:
        text = <Text*>state_block(state, entry)[0]
        return text == NULL or text.size <= text.capacity
    if state.kind == S_SUM_DOUBLE:
        return exact_is_sound(state_block(state, entry)[0])
    if state.kind >= S_QUANTILES:
        return quantiles_is_sound(state_block(state, entry)[0])
    if state.kind >= S_HLL:
        return hll_is_sound(state_block(state, entry)[0])
    if state_has_flag(state.kind):
        flag = (<uint8_t*>entry)[state.flag]
        if flag == 1 and state.kind % 10 == K_DECIMAL and sum_exceeds(i128_load(entry + state.offset), 38):
            return False
        return flag <= (2 if state.kind % 10 == K_BOOLEAN else 1)
    return True
