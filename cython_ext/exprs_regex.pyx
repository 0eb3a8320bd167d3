"""Regular expressions over the texts of a column: RE2 is called from C with the bytes where they lie.

`match` is what google-re2 calls for one text: match(anchor, text, 0, size) answers the spans of the whole match and of the
groups, in bytes, (-1, -1) where there is none. What a group matched is a slice of the text: nothing is copied or decoded.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint32_t

from cython_ext.column cimport K_BOOLEAN, K_STRING, Column, StringRef, new_column
from cython_ext.exprs_result cimport expect

cdef StringRef EMPTY
EMPTY.data, EMPTY.size = "", 0


cdef tuple _span(object match, object anchor, StringRef* text, int group):
    return match(anchor, PyBytes_FromStringAndSize(text.data, text.size), 0, text.size)[group]


cdef Column _result(int kind, Column text):
    expect(text, K_STRING)
    if text.constant:
        raise ValueError("the texts are a plain column")
    cdef Column out = new_column(kind, text.length + 1, False, True)
    out.valid[text.length] = 0
    return out


def found(Column text not None, object match not None, object anchor):
    """BOOLEAN: whether the pattern is found in each text, NULL for NULL. One row more, a NULL. O(bytes)."""
    cdef Column out = _result(K_BOOLEAN, text)
    cdef Py_ssize_t row
    out.booleans()[text.length] = 0
    for row in range(text.length):
        out.booleans()[row] = 0
        out.valid[row] = not text.is_null(row)
        if out.valid[row]:
            out.booleans()[row] = _span(match, anchor, &text.strings()[row], 0)[0] >= 0
    return out


def extracted(Column text not None, object match not None, object anchor, int group):
    """STRING: what `group` matched, "" for nothing, NULL for NULL. One row more, a NULL. O(bytes)."""
    cdef Column out = _result(K_STRING, text)
    cdef Py_ssize_t row, start, end
    out.owners = text.owners
    out.strings()[text.length] = EMPTY
    for row in range(text.length):
        out.strings()[row] = EMPTY
        out.valid[row] = not text.is_null(row)
        if out.valid[row]:
            start, end = _span(match, anchor, &text.strings()[row], group)
            if not -1 <= start <= end <= <Py_ssize_t>text.strings()[row].size:
                raise ValueError(f"a span from {start} to {end} in {text.strings()[row].size} bytes")
            if start >= 0:
                out.strings()[row].data = text.strings()[row].data + start
                out.strings()[row].size = <uint32_t>(end - start)
    return out
