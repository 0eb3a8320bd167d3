"""LIKE: patterns compiled once, matched over whole columns."""

from libc.stdint cimport uint8_t, uint32_t

from cython_ext.column cimport K_BOOLEAN, K_STRING, Column, StringRef
from cython_ext.exprs_compare cimport equal_bytes
from cython_ext.exprs_result cimport expect, result1
from cython_ext.exprs_text cimport find_text, is_continuation, is_present, skip_code_points, slice_of


cdef class LikePattern:
    """A LIKE pattern, compiled once: `%` is any text, `_` one code point, `escape` makes `%`, `_` or itself
    literal.

    The pattern falls into segments between the `%`; the first is tied to the start, the last to the end,
    and those between are found one behind the other, so a match is O(bytes) unless `_` follows a `%`.
    Raises ValueError for an escape before any other character or at the end.
    """

    cdef list memory        # the owners of the texts of the segments
    cdef bytes table
    cdef Segment* segments
    cdef Py_ssize_t count
    cdef bint exact         # no % at all
    cdef bint prefix        # text%

    def __init__(self, str pattern not None, str escape not None="\\"):
        cdef list segments = _like_segments(pattern, escape)
        cdef Py_ssize_t k
        self.count = len(segments)
        self.exact = self.count == 1
        self.memory = []
        self.table = bytes(self.count * sizeof(Segment))
        self.segments = <Segment*><char*>self.table
        for k in range(self.count):
            text, wild = segments[k]
            self.memory += [text, wild]
            self.segments[k].text = slice_of(<char*>text, <char*>text + len(text))
            self.segments[k].wild = <uint8_t*><char*>wild if any(wild) else NULL
        self.prefix = self.count == 2 and self.segments[0].wild == NULL and self.segments[1].text.size == 0

    def test(self, Column text not None):
        """True where the whole text matches. O(bytes)."""
        expect(text, K_STRING)
        cdef Column out = result1(K_BOOLEAN, text)
        cdef Py_ssize_t row
        with nogil:
            if self.prefix:
                self._test_prefix(text, out)
            else:
                for row in range(out.stored()):
                    out.booleans()[row] = 0
                    if is_present(out, row):
                        out.booleans()[row] = self._matches(&text.strings()[row])
        return out

    cdef void _test_prefix(self, Column text, Column out) noexcept nogil:
        cdef Py_ssize_t row
        cdef const char* prefix = self.segments[0].text.data
        cdef size_t size = self.segments[0].text.size
        cdef StringRef* of = text.strings()
        for row in range(out.stored()):
            out.booleans()[row] = 0
            if is_present(out, row) and of[row].size >= size:
                out.booleans()[row] = equal_bytes(of[row].data, prefix, size)

    cdef bint _matches(self, const StringRef* text) noexcept nogil:
        cdef const char* start = text.data
        cdef const char* end = start + text.size
        cdef Py_ssize_t k
        cdef Segment* last = &self.segments[self.count - 1]
        start = _match_here(&self.segments[0], start, end)
        if start == NULL:
            return False
        if self.exact:
            return start == end
        for k in range(1, self.count - 1):
            start = _match_somewhere(&self.segments[k], start, end)
            if start == NULL:
                return False
        return _match_at_end(last, start, end)


cdef struct Segment:
    StringRef text
    const uint8_t* wild  # NULL: no wildcard; else a byte per byte of text, 1 where `_` stands


def _like_segments(str pattern, str escape):
    """[(bytes, wild flags)] between the `%`, with the escapes resolved."""
    text, wilds = bytearray(), bytearray()
    cdef list segments = [(text, wilds)]
    cdef Py_ssize_t at = 0, size = len(pattern)
    if len(escape) != 1:
        raise ValueError(f"the escape of a LIKE pattern is one character, not {escape!r}")
    while at < size:
        character = pattern[at]
        wild = 0
        if character == escape:
            at += 1
            if at == size or pattern[at] not in ("%", "_", escape):
                raise ValueError(f"in the LIKE pattern {pattern!r} the escape {escape!r} must stand before %, _ or itself")
            character = pattern[at]
        elif character == "%":
            if len(segments) == 1 or text:
                text, wilds = bytearray(), bytearray()
                segments.append((text, wilds))
            at += 1
            continue
        elif character == "_":
            wild = 1
        encoded = character.encode()
        text.extend(encoded)
        wilds.extend(bytes([wild]) * len(encoded))
        at += 1
    return [(bytes(part), bytes(flags)) for part, flags in segments]


cdef const char* _match_here(const Segment* segment, const char* at, const char* end) noexcept nogil:
    """Where the segment ends when it starts at `at`; NULL when it does not match there."""
    cdef uint32_t i
    if segment.wild == NULL:
        if <size_t>(end - at) < segment.text.size:
            return NULL
        if not equal_bytes(at, segment.text.data, segment.text.size):
            return NULL
        return at + segment.text.size
    for i in range(segment.text.size):
        if at == end:
            return NULL
        if segment.wild[i]:
            at = skip_code_points(at, end, 1)
        elif at[0] == segment.text.data[i]:
            at += 1
        else:
            return NULL
    return at


cdef const char* _match_somewhere(const Segment* segment, const char* at, const char* end) noexcept nogil:
    """Behind the first place from `at` on where the segment matches; NULL when there is none."""
    cdef const char* hit
    if segment.wild == NULL:
        if segment.text.size == 0:
            return at
        hit = find_text(at, end - at, &segment.text)
        if hit != NULL:
            hit += segment.text.size
        return hit
    while True:
        hit = _match_here(segment, at, end)
        if hit != NULL:
            return hit
        if at == end:
            return NULL
        at = skip_code_points(at, end, 1)


cdef bint _match_at_end(const Segment* segment, const char* at, const char* end) noexcept nogil:
    """Whether the segment matches the last bytes of at..end."""
    cdef uint32_t i
    if segment.wild == NULL:
        if <size_t>(end - at) < segment.text.size:
            return False
        return equal_bytes(end - segment.text.size, segment.text.data, segment.text.size)
    for i in range(segment.text.size, 0, -1):
        if at == end:
            return False
        end -= 1
        if segment.wild[i - 1]:
            while end > at and is_continuation(end[0]):
                end -= 1
        elif end[0] != segment.text.data[i - 1]:
            return False
    return True
