"""Text functions over STRING columns: UTF-8 bytes in, UTF-8 bytes out; positions and lengths count code
points.

Where a result is a part of an argument it is an address into the same bytes; where it is new, all rows of
the block share one buffer. A result above STRING_RESULT_BYTES_MAX fails, so that no line can blow up the
memory.
"""

from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from cython_ext.column cimport K_BIGINT, K_BOOLEAN, K_STRING, Column, StringRef, new_column
from cython_ext.exprs_compare cimport equal_bytes
from cython_ext.exprs_result cimport Failures, expect, new_bytes, result1, result2, result_of

STRING_RESULT_BYTES_MAX = 16 * 1024 * 1024
"""The longest STRING an expression may build: well above the longest line (1 MiB)."""
cdef uint64_t RESULT_MAX = STRING_RESULT_BYTES_MAX

cdef StringRef EMPTY
EMPTY.data = ""
EMPTY.size = 0
EMPTY.reserved = 0


cdef int _mark_failed(Column out, Py_ssize_t row) except -1 with gil:
    out.need_valid()
    out.valid[row] = 0
    out.strings()[row] = EMPTY
    return 0


cdef inline int64_t _code_points(const StringRef* text) noexcept nogil:
    cdef int64_t count = 0
    cdef uint32_t i
    for i in range(text.size):
        count += not is_continuation(text.data[i])
    return count


# --- Tests ---


def starts_with(Column text not None, Column part not None):
    """True where `text` starts with `part`. O(bytes of part)."""
    return _affix(text, part, False)


def ends_with(Column text not None, Column part not None):
    """True where `text` ends with `part`. O(bytes of part)."""
    return _affix(text, part, True)


cdef Column _affix(Column text, Column part, bint at_end):
    expect(text, K_STRING)
    expect(part, K_STRING)
    cdef Column out = result2(K_BOOLEAN, text, part)
    cdef Py_ssize_t row, st = text.step(), sp = part.step()
    cdef StringRef* whole
    cdef StringRef* piece
    cdef const char* at
    with nogil:
        for row in range(out.stored()):
            out.booleans()[row] = 0
            if not is_present(out, row):
                continue
            whole, piece = &text.strings()[row * st], &part.strings()[row * sp]
            if piece.size <= whole.size:
                at = whole.data + (whole.size - piece.size) if at_end else whole.data
                out.booleans()[row] = equal_bytes(at, piece.data, piece.size)
    return out


def contains(Column text not None, Column part not None):
    """True where `part` stands somewhere in `text`. O(bytes)."""
    expect(text, K_STRING)
    expect(part, K_STRING)
    cdef Column out = result2(K_BOOLEAN, text, part)
    cdef Py_ssize_t row, st = text.step(), sp = part.step()
    cdef StringRef* whole
    cdef StringRef* piece
    with nogil:
        for row in range(out.stored()):
            out.booleans()[row] = 0
            if not is_present(out, row):
                continue
            whole, piece = &text.strings()[row * st], &part.strings()[row * sp]
            if piece.size <= whole.size:
                out.booleans()[row] = piece.size == 0 or find_text(whole.data, whole.size, piece) != NULL
    return out


def length(Column text not None):
    """The number of code points, as BIGINT. O(bytes)."""
    expect(text, K_STRING)
    cdef Column out = result1(K_BIGINT, text)
    cdef Py_ssize_t row
    with nogil:
        for row in range(out.stored()):
            out.longs()[row] = _code_points(&text.strings()[row]) if is_present(out, row) else 0
    return out


# --- Parts ---


def substr(Column text not None, Column position not None, Column size not None):
    """Spark's substr: positions count from 1 (0 means 1), negative ones from the end; a start before the
    text eats into `size`. O(bytes)."""
    expect(text, K_STRING)
    expect(position, K_BIGINT)
    expect(size, K_BIGINT)
    cdef Column out = result_of(K_STRING, [text, position, size])
    cdef Py_ssize_t row
    out.owners = text.owners
    with nogil:
        for row in range(out.stored()):
            out.strings()[row] = EMPTY
            if is_present(out, row):
                out.strings()[row] = _substr(
                    &text.strings()[row * text.step()], position.longs()[row * position.step()],
                    size.longs()[row * size.step()],
                )
    return out


cdef StringRef _substr(const StringRef* text, int64_t position, int64_t size) noexcept nogil:
    cdef const char* end = text.data + text.size
    cdef const char* at
    cdef int64_t start = 0, stop
    if position > 0:
        start = position - 1
    elif position < 0:
        start = _code_points(text) + position
    # A sum that overflows means "to the end"; start < 0 with size > 0 cannot overflow.
    stop = INT64_MAX if size > 0 and start > INT64_MAX - size else start + size
    if size <= 0 or stop <= 0:
        return EMPTY
    if start < 0:
        start = 0
    at = skip_code_points(text.data, end, start)
    return slice_of(at, skip_code_points(at, end, stop - start))


TRIM_BOTH = 0
TRIM_LEFT = 1
TRIM_RIGHT = 2


def trim(Column text not None, Column characters not None, int side):
    """`text` without the code points of `characters` at its start (TRIM_LEFT), its end (TRIM_RIGHT) or both
    (TRIM_BOTH). O(trimmed x characters)."""
    expect(text, K_STRING)
    expect(characters, K_STRING)
    cdef Column out = result2(K_STRING, text, characters)
    cdef Py_ssize_t row
    cdef StringRef* set_
    out.owners = text.owners
    with nogil:
        for row in range(out.stored()):
            out.strings()[row] = EMPTY
            if is_present(out, row):
                set_ = &characters.strings()[row * characters.step()]
                out.strings()[row] = _trim(&text.strings()[row * text.step()], set_, side)
    return out


cdef StringRef _trim(const StringRef* text, const StringRef* characters, int side) noexcept nogil:
    cdef const char* start = text.data
    cdef const char* end = start + text.size
    cdef const char* other
    if side != 2:
        while start < end:
            other = skip_code_points(start, end, 1)
            if not _has_character(characters, start, other - start):
                break
            start = other
    if side != 1:
        while start < end:
            other = end - 1
            while other > start and is_continuation(other[0]):
                other -= 1
            if not _has_character(characters, other, end - other):
                break
            end = other
    return slice_of(start, end)


cdef bint _has_character(const StringRef* characters, const char* at, Py_ssize_t size) noexcept nogil:
    cdef const char* here = characters.data
    cdef const char* end = here + characters.size
    cdef const char* behind
    while here < end:
        behind = skip_code_points(here, end, 1)
        if behind - here == size and memcmp(here, at, size) == 0:
            return True
        here = behind
    return False


def split_part(Column text not None, Column separator not None, Column number not None, Failures failures not None):
    """Part `number` of `text` cut at every `separator`, from 1; negative from the end; "" where there is
    none; part 0 fails. An empty separator cuts nothing. O(bytes)."""
    expect(text, K_STRING)
    expect(separator, K_STRING)
    expect(number, K_BIGINT)
    cdef Column out = result_of(K_STRING, [text, separator, number])
    cdef Py_ssize_t row
    cdef bint failed = False
    cdef int64_t wanted
    out.owners = text.owners
    with nogil:
        for row in range(out.stored()):
            out.strings()[row] = EMPTY
            if not is_present(out, row):
                continue
            wanted = number.longs()[row * number.step()]
            if wanted == 0:
                failed = True
                _mark_failed(out, row)
            else:
                out.strings()[row] = _split_part(
                    &text.strings()[row * text.step()], &separator.strings()[row * separator.step()], wanted
                )
    if failed:
        failures.add(out, [text, separator, number])
    return out


cdef StringRef _split_part(const StringRef* text, const StringRef* separator, int64_t number) noexcept nogil:
    cdef const char* start = text.data
    cdef const char* end = start + text.size
    cdef const char* hit
    cdef int64_t parts
    if number < 0:
        parts = 1
        while separator.size:
            hit = find_text(start, end - start, separator)
            if hit == NULL:
                break
            start = hit + separator.size
            parts += 1
        start = text.data
        number = parts + number + 1
        if number < 1:
            return EMPTY
    while True:
        hit = find_text(start, end - start, separator) if separator.size else NULL
        if number == 1:
            return slice_of(start, end if hit == NULL else hit)
        if hit == NULL:
            return EMPTY
        start = hit + separator.size
        number -= 1


# --- New text ---


def concat(list parts not None, Failures failures not None):
    """The parts one behind the other; NULL where one is. O(bytes)."""
    cdef Column part, out
    for part in parts:
        expect(part, K_STRING)
    out = result_of(K_STRING, parts)
    cdef Py_ssize_t row, n = out.stored()
    cdef uint64_t total = 0, size
    cdef bint failed = False
    cdef StringRef* piece
    for row in range(n):
        out.strings()[row] = EMPTY
    for part in parts:
        with nogil:
            for row in range(n):
                if is_present(out, row):
                    size = <uint64_t>out.strings()[row].size + part.strings()[row * part.step()].size
                    if size > RESULT_MAX:
                        failed = True
                        _mark_failed(out, row)
                    else:
                        out.strings()[row].size = <uint32_t>size
    for row in range(n):
        total += out.strings()[row].size
    memory = new_bytes(total)
    out.owners = [memory]
    cdef char* at = PyBytes_AS_STRING(memory)
    for row in range(n):
        if is_present(out, row):
            out.strings()[row].data = at
            at += out.strings()[row].size
            out.strings()[row].size = 0
    for part in parts:
        with nogil:
            for row in range(n):
                if is_present(out, row):
                    piece = &part.strings()[row * part.step()]
                    memcpy(<char*>out.strings()[row].data + out.strings()[row].size, piece.data, piece.size)
                    out.strings()[row].size += piece.size
    if failed:
        failures.add(out, parts)
    return out


def replace(Column text not None, Column search not None, Column by not None, Failures failures not None):
    """`text` with every `search`, from left to right and not overlapping, replaced `by`; an empty search
    changes nothing. O(bytes)."""
    expect(text, K_STRING)
    expect(search, K_STRING)
    expect(by, K_STRING)
    cdef Column out = result_of(K_STRING, [text, search, by])
    cdef Py_ssize_t row
    cdef uint64_t total = 0, size
    cdef bint failed = False
    cdef char* at
    with nogil:
        for row in range(out.stored()):
            out.strings()[row] = EMPTY
            if is_present(out, row):
                size = _replaced_size(
                    &text.strings()[row * text.step()], &search.strings()[row * search.step()],
                    &by.strings()[row * by.step()],
                )
                if size > RESULT_MAX:
                    failed = True
                    _mark_failed(out, row)
                else:
                    total += size
    memory = new_bytes(total)
    at = PyBytes_AS_STRING(memory)
    out.owners = [memory]
    with nogil:
        for row in range(out.stored()):
            if is_present(out, row):
                out.strings()[row] = _replace_into(
                    at, &text.strings()[row * text.step()], &search.strings()[row * search.step()],
                    &by.strings()[row * by.step()],
                )
                at += out.strings()[row].size
    if failed:
        failures.add(out, [text, search, by])
    return out


cdef uint64_t _replaced_size(const StringRef* text, const StringRef* search, const StringRef* by) noexcept nogil:
    cdef const char* start = text.data
    cdef const char* end = start + text.size
    cdef const char* hit
    cdef uint64_t size = text.size
    while search.size:
        hit = find_text(start, end - start, search)
        if hit == NULL:
            break
        size += by.size
        size -= search.size
        start = hit + search.size
    return size


cdef StringRef _replace_into(
    char* to, const StringRef* text, const StringRef* search, const StringRef* by
) noexcept nogil:
    cdef const char* start = text.data
    cdef const char* end = start + text.size
    cdef const char* hit
    cdef char* at = to
    while search.size:
        hit = find_text(start, end - start, search)
        if hit == NULL:
            break
        memcpy(at, start, hit - start)
        at += hit - start
        memcpy(at, by.data, by.size)
        at += by.size
        start = hit + search.size
    memcpy(at, start, end - start)
    return slice_of(to, at + (end - start))


def change_case(Column text not None, bint upper):
    """(lower or upper case, rows left): ASCII rows are done here; the second is None or a BOOLEAN column
    that marks the rows with other characters, which the caller must do. O(bytes)."""
    expect(text, K_STRING)
    cdef Column out = result1(K_STRING, text), left = None
    cdef Py_ssize_t row, n = out.stored()
    cdef uint64_t total = 0
    cdef uint8_t first = 97 if upper else 65, high = 0
    cdef char* at
    for row in range(n):
        if is_present(out, row):
            total += text.strings()[row].size
    memory = new_bytes(total)
    at = PyBytes_AS_STRING(memory)
    out.owners = [memory]
    left = new_column(K_BOOLEAN, out.length, out.constant, False)
    with nogil:
        for row in range(n):
            left.booleans()[row] = 0
            if not is_present(out, row):
                out.strings()[row] = EMPTY
                continue
            left.booleans()[row] = _swap_case(&text.strings()[row], <uint8_t*>at, first)
            high |= left.booleans()[row]
            out.strings()[row] = slice_of(at, at + text.strings()[row].size)
            at += text.strings()[row].size
    return out, left if high else None


cdef uint8_t _swap_case(const StringRef* text, uint8_t* to, uint8_t first) noexcept nogil:
    cdef const uint8_t* of = <const uint8_t*>text.data
    cdef uint8_t high = 0, byte
    cdef uint32_t i
    for i in range(text.size):
        byte = of[i]
        high |= byte
        to[i] = byte ^ (<uint8_t>(<uint8_t>(byte - first) < 26) << 5)
    return high >> 7
