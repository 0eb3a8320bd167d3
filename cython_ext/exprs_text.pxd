# Small steps over UTF-8 texts that the text kernels share.
from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memchr

from cython_ext.column cimport Column, StringRef

cdef extern from "<string.h>" nogil:
    void* memmem(const void* haystack, size_t haystack_size, const void* needle, size_t needle_size)

cdef extern from "loops.h" nogil:
    const char* find_in_short(const char* text, size_t size, const char* needle, size_t needle_size)

cdef enum:
    SHORT_TEXT_BYTES = 64  # beyond, memmem's preparation pays


cdef inline bint is_present(Column column, Py_ssize_t row) noexcept nogil:
    return column.valid == NULL or column.valid[row] != 0


cdef inline const char* find_text(const char* text, size_t size, const StringRef* needle) noexcept nogil:
    if needle.size == 1:
        return <const char*>memchr(text, needle.data[0], size)
    if size <= SHORT_TEXT_BYTES and needle.size > 1:
        return find_in_short(text, size, needle.data, needle.size)
    return <const char*>memmem(text, size, needle.data, needle.size)


cdef inline bint is_continuation(char byte) noexcept nogil:
    return (byte & 0xC0) == 0x80


cdef inline const char* skip_code_points(const char* at, const char* end, int64_t count) noexcept nogil:
    """`count` code points further, at most to `end`."""
    while count > 0 and at < end:
        at += 1
        while at < end and is_continuation(at[0]):
            at += 1
        count -= 1
    return at


cdef inline StringRef slice_of(const char* start, const char* end) noexcept nogil:
    cdef StringRef out
    out.data = start
    out.size = <uint32_t>(end - start)
    out.reserved = 0
    return out
