"""The distinct argument tuples of a block, so that a slow function is called once for each."""

from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcmp

import os as _os

from cython_ext.column cimport K_BOOLEAN, K_DOUBLE, Column, Selection, new_selection
from cython_ext.exprs_compare cimport hash_row, same_row
from cython_ext.exprs_result cimport common_length, expect

# Texts of a log are written by strangers: a secret start keeps them from choosing colliding rows.
cdef uint64_t SEED = int.from_bytes(_os.urandom(8), "little")


def distinct_rows(list columns not None, Column wanted):
    """(first, codes): `first` are the rows where a new tuple of values appears, among the rows that the
    BOOLEAN `wanted` marks (None: all); `codes` says for every row which of them it equals, or len(first)
    where it is not wanted. O(rows)."""
    cdef Py_ssize_t length = common_length(columns), row, count = 0
    cdef Selection first = new_selection(length), codes = new_selection(length)
    cdef uint64_t size = 16, slot
    cdef Column column
    cdef list varying = [column for column in columns if not column.constant]
    if wanted is not None:
        expect(wanted, K_BOOLEAN)
        common_length([wanted, columns[0]])
    while size < 2 * <uint64_t>length:
        size *= 2
    memory = bytearray(size * sizeof(uint32_t))
    cdef uint32_t* slots = <uint32_t*><char*>memory
    for row in range(length):
        if wanted is not None and not wanted.booleans()[row * wanted.step()]:
            codes.rows[row] = 0xFFFFFFFF
            continue
        slot = _hash_tuple(varying, row) & (size - 1)
        while slots[slot] and not _same_tuple(varying, row, first.rows[slots[slot] - 1]):
            slot = (slot + 1) & (size - 1)
        if not slots[slot]:
            first.rows[count] = <uint32_t>row
            count += 1
            slots[slot] = <uint32_t>count
        codes.rows[row] = slots[slot] - 1
    first.length = count
    for row in range(length):
        if codes.rows[row] == 0xFFFFFFFF:
            codes.rows[row] = <uint32_t>count
    return first, codes


cdef uint64_t _hash_tuple(list columns, Py_ssize_t row) except? 0:
    cdef Column column
    cdef uint64_t h = SEED
    for column in columns:
        h = h * <uint64_t>0x9E3779B97F4A7C15 if column.is_null(row) else hash_row(column, row, h)
    return h


cdef bint _same_tuple(list columns, Py_ssize_t i, Py_ssize_t k) except -1:
    cdef Column column
    for column in columns:
        if column.is_null(i) != column.is_null(k):
            return False
        if column.is_null(i):
            continue
        if column.kind == K_DOUBLE:  # by bits: -0.0 has a text of its own
            if memcmp(&column.doubles()[i], &column.doubles()[k], sizeof(double)) != 0:
                return False
        elif not same_row(column, i, column, k):
            return False
    return True
