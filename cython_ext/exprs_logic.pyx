"""Three-valued logic, NULL tests, and the choosing functions: case, coalesce, nullif.

Also the masks by which lazily evaluated arguments learn which rows ask for them.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.string cimport memcpy, memset

from cython_ext.column cimport (
    K_BOOLEAN, K_NULL, Column, StringRef, i128, new_column, value_size,
)
from cython_ext.exprs_result cimport all_constant, common_length, expect, result1, result_without_nulls

TEST_TRUE = 1
"""Mask tests: the value is true."""
TEST_NOT_TRUE = 2
"""... is false or NULL."""
TEST_NOT_FALSE = 3
"""... is true or NULL."""
TEST_NULL = 4
"""... is NULL; the only test for columns of any kind."""


def logical_and(Column a not None, Column b not None):
    """SQL AND: false wins over NULL, NULL over true. O(rows)."""
    return _connect(a, b, True)


def logical_or(Column a not None, Column b not None):
    """SQL OR: true wins over NULL, NULL over false. O(rows)."""
    return _connect(a, b, False)


cdef Column _connect(Column a, Column b, bint conjunction):
    expect(a, K_BOOLEAN)
    expect(b, K_BOOLEAN)
    cdef Column out = result_without_nulls(K_BOOLEAN, [a, b])
    cdef Py_ssize_t row, n = out.stored(), sa = a.step(), sb = b.step()
    cdef uint8_t* x = a.booleans()
    cdef uint8_t* y = b.booleans()
    cdef uint8_t* to = out.booleans()
    if a.valid != NULL or b.valid != NULL:
        _connect_nullable(a, b, out, conjunction)
    elif sa and sb:
        if conjunction:
            for row in range(n):
                to[row] = (x[row] != 0) & (y[row] != 0)
        else:
            for row in range(n):
                to[row] = (x[row] | y[row]) != 0
    elif conjunction:
        for row in range(n):
            to[row] = (x[row * sa] != 0) & (y[row * sb] != 0)
    else:
        for row in range(n):
            to[row] = (x[row * sa] | y[row * sb]) != 0
    return out


cdef int _connect_nullable(Column a, Column b, Column out, bint conjunction) except -1:
    cdef Py_ssize_t row, n = out.stored(), sa = a.step(), sb = b.step()
    cdef uint8_t va, vb, ta, tb, decided
    cdef uint8_t flip = 1 if conjunction else 0
    out.need_valid()
    with nogil:
        for row in range(n):
            va = 1 if a.valid == NULL else a.valid[row * sa]
            vb = 1 if b.valid == NULL else b.valid[row * sb]
            # By De Morgan, AND is OR over negated values.
            ta = ((a.booleans()[row * sa] != 0) ^ flip) & va
            tb = ((b.booleans()[row * sb] != 0) ^ flip) & vb
            decided = ta | tb
            out.valid[row] = decided | (va & vb)
            out.booleans()[row] = decided ^ flip
    return 0


def logical_not(Column a not None):
    """SQL NOT. O(rows)."""
    expect(a, K_BOOLEAN)
    cdef Column out = result1(K_BOOLEAN, a)
    cdef Py_ssize_t row
    cdef uint8_t* to = out.booleans()
    cdef uint8_t* of = a.booleans()
    for row in range(out.stored()):
        to[row] = of[row] == 0
    return out


def is_null(Column a not None):
    """True where there is no value; never NULL. O(rows)."""
    return _null_test(a, 1)


def is_not_null(Column a not None):
    """True where there is a value; never NULL. O(rows)."""
    return _null_test(a, 0)


cdef Column _null_test(Column a, uint8_t wanted):
    cdef Column out = new_column(K_BOOLEAN, a.length, a.constant, False)
    cdef Py_ssize_t row
    cdef uint8_t* to = out.booleans()
    if a.valid == NULL:
        memset(to, not wanted, out.stored())
        return out
    for row in range(out.stored()):
        to[row] = (a.valid[row] == 0) ^ (wanted ^ 1)
    return out


def rows_where(Column mask, Column column not None, int test):
    """The mask of the rows of `mask` (None: all) where `column` passes `test`, one of the TEST_ constants.
    O(rows)."""
    if test != TEST_NULL:
        expect(column, K_BOOLEAN)
    cdef Column out = new_column(K_BOOLEAN, column.length, False, False)
    cdef Py_ssize_t row, n = out.length, step = column.step()
    cdef int kind = test
    cdef uint8_t value, valid
    cdef uint8_t* to = out.booleans()
    with nogil:
        for row in range(n):
            valid = 1 if column.valid == NULL else column.valid[row * step]
            value = 0 if kind == 4 else column.booleans()[row * step] != 0
            if kind == 1:
                to[row] = valid & value
            elif kind == 2:
                to[row] = (valid & value) ^ 1
            elif kind == 3:
                to[row] = (valid & (value ^ 1)) ^ 1
            else:
                to[row] = valid ^ 1
    if mask is not None:
        expect(mask, K_BOOLEAN)
        common_length([mask, column])
        for row in range(n):
            to[row] &= mask.booleans()[row * mask.step()] != 0
    return out


def choose(list conditions not None, list values not None):
    """CASE: the value of the first condition that is true; the last value, if there is one more than
    conditions, else NULL. O(rows x conditions)."""
    cdef Py_ssize_t arms = len(conditions), row, n
    cdef Column column
    if not 0 < arms <= len(values) <= arms + 1 or arms > 0xFFFF:
        raise ValueError(f"{arms} conditions with {len(values)} values")
    for column in conditions:
        expect(column, K_BOOLEAN)
    cdef list chosen_of = list(values)
    if len(values) == arms:
        chosen_of.append(None)
    cdef Column arm_of = _first_arm(conditions, common_length(conditions + values))
    return _pick(arm_of, chosen_of, all_constant(conditions + values))


def coalesce(list values not None):
    """The first value that is not NULL. O(rows x values)."""
    cdef Py_ssize_t length = common_length(values)
    cdef list conditions = [_null_test(value, 0) for value in values]
    cdef Column arm_of = _first_arm(conditions, length)
    return _pick(arm_of, values + [None], all_constant(values))


cdef Column _first_arm(list conditions, Py_ssize_t length):
    """For each row the index of the first true condition (their number where none is), as uint32 in a
    BIGINT column."""
    cdef Column out = new_column(2, length, False, False), condition
    cdef int64_t* arm = out.longs()
    cdef Py_ssize_t row, step, k
    cdef int64_t arms = len(conditions)
    cdef uint8_t hit
    for row in range(length):
        arm[row] = arms
    for k in range(arms - 1, -1, -1):
        condition = conditions[k]
        step = condition.step()
        with nogil:
            for row in range(length):
                hit = condition.booleans()[row * step] != 0
                if condition.valid != NULL:
                    hit &= condition.valid[row * step]
                arm[row] = k if hit else arm[row]
    return out


cdef struct Source:
    const char* data
    const uint8_t* valid
    Py_ssize_t step


cdef Column _pick(Column arm_of, list values, bint constant):
    """The column whose row r is row r of values[arm_of[r]]; None stands for NULL."""
    cdef Py_ssize_t length = arm_of.length, row, k, arms = len(values)
    cdef Column value, out
    cdef int kind = K_NULL
    cdef bint nullable = False
    cdef list owners = []
    cdef bytes memory = bytes(arms * sizeof(Source))
    cdef Source* sources = <Source*><char*>memory
    for k in range(arms):
        value = values[k]
        if value is None:
            sources[k].data = NULL
            nullable = True
            continue
        if k and value.kind != kind:
            raise TypeError(f"values of kinds {kind} and {value.kind} in one expression")
        kind = value.kind
        nullable |= value.valid != NULL
        owners += value.owners
        sources[k].data = <const char*>value.data
        sources[k].valid = value.valid
        sources[k].step = value.step()
    out = new_column(kind, length, constant, nullable)
    out.owners = owners
    with nogil:
        _copy(sources, arm_of.longs(), out, value_size(kind))
    return out


cdef void _copy(Source* sources, const int64_t* arm, Column out, size_t size) noexcept nogil:
    cdef Py_ssize_t row, at
    cdef Source* source
    for row in range(out.stored()):
        source = &sources[arm[row]]
        if source.data == NULL:
            out.valid[row] = 0
            memset(<char*>out.data + row * size, 0, size)
            continue
        at = row * source.step
        if source.valid != NULL:
            out.valid[row] = source.valid[at]
        if size == 16:
            out.strings()[row] = (<const StringRef*>source.data)[at]
        elif size == 8:
            out.longs()[row] = (<const int64_t*>source.data)[at]
        else:
            out.booleans()[row] = (<const uint8_t*>source.data)[at]


def null_where(Column column not None, Column flags not None):
    """`column`, but NULL where the BOOLEAN `flags` is true: nullif is null_where(a, eq(a, b)). O(rows)."""
    expect(flags, K_BOOLEAN)
    cdef Py_ssize_t length = common_length([column, flags]), row, at
    cdef Column out = new_column(column.kind, length, column.constant and flags.constant, True)
    cdef size_t size = value_size(column.kind)
    cdef uint8_t hit
    out.owners = column.owners
    for row in range(out.stored()):
        at = row * column.step()
        memcpy(<char*>out.data + row * size, <char*>column.data + at * size, size)
        hit = flags.booleans()[row * flags.step()] != 0
        if flags.valid != NULL:
            hit &= flags.valid[row * flags.step()]
        out.valid[row] = hit ^ 1
        if column.valid != NULL:
            out.valid[row] &= column.valid[at]
    return out


def overlay(Column base not None, Column flags not None, Column other not None):
    """`other` where the BOOLEAN `flags` (no NULLs) is true, else `base`. O(rows)."""
    return choose([flags], [other, base])
