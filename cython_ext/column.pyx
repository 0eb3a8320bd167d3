"""Columns, selections and arenas: the memory that all other kernels read and write.

A `Column` holds the values of one expression for all rows of a block. Kernels never own Python objects per
row; a STRING is an address and a size into bytes that `owners` keeps alive (the block itself, an `Arena`).
Not thread-safe; each thread works on blocks of its own.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_RawFree, PyMem_RawMalloc
from libc.string cimport memcpy, memset

import decimal as _decimal

BLOCK_ROWS_MAX = 0xFFFFFFFF
STRING_BYTES_MAX = 0xFFFFFFFF

cdef size_t CHUNK_BYTES = 64 * 1024
# 38 digits, and no signal: values arrive here already checked.
_CONTEXT = _decimal.Context(prec=60)


cdef class Arena:
    def __cinit__(self):
        self.chunks = []
        self.cursor = NULL
        self.left = 0
        self.size = 0

    cdef char* reserve(self, size_t size) except NULL:
        if self.cursor == NULL or size > self.left:
            return self.grow(size)
        return self.cursor

    cdef char* grow(self, size_t size) except NULL with gil:
        cdef size_t want = size if size > CHUNK_BYTES else CHUNK_BYTES
        chunk = bytearray(want)
        self.chunks.append(chunk)
        self.cursor = <char*>chunk
        self.left = want
        self.size += want
        return self.cursor

    cdef void commit(self, size_t size) noexcept nogil:
        self.cursor += size
        self.left -= size


cdef size_t value_size(int kind) noexcept nogil:
    if kind == K_BOOLEAN:
        return 1
    if kind == K_DECIMAL:
        return sizeof(i128)
    if kind == K_STRING:
        return sizeof(StringRef)
    return 8


cdef void* _allocate(size_t size) except NULL:
    cdef void* memory = PyMem_RawMalloc(size if size else 1)
    if memory == NULL:
        raise MemoryError(f"{size} bytes for a column")
    return memory


cdef class Column:
    def __cinit__(self):
        self.valid = NULL
        self.data = NULL
        self.owners = []

    def __dealloc__(self):
        PyMem_RawFree(self.valid)
        PyMem_RawFree(self.data)

    cdef int need_valid(self) except -1:
        if self.valid == NULL:
            self.valid = <uint8_t*>_allocate(self.stored())
            memset(self.valid, 1, self.stored())
        return 0

    def __len__(self):
        return self.length

    @property
    def has_nulls(self):
        cdef Py_ssize_t row
        if self.valid == NULL:
            return False
        for row in range(self.stored()):
            if not self.valid[row]:
                return True
        return False

    @staticmethod
    def from_list(int kind, values, bint constant=False, Py_ssize_t length=-1):
        """A column of Python values: None, bool, int, float, str or bytes by kind; DECIMAL takes the scaled
        int.

        `constant` stores the only value of `values` once for `length` rows. Raises OverflowError for
        integers that do not fit and texts beyond STRING_BYTES_MAX, TypeError for values of another kind.
        """
        cdef Py_ssize_t count = len(values), row
        cdef Column column
        if constant and count != 1:
            raise ValueError("a constant column holds one value")
        column = new_column(kind, (length if length >= 0 else 1) if constant else count, constant, None in values)
        if constant and column.length == 0:
            return column
        for row in range(count):
            value = values[row]
            if value is None:
                column.valid[row] = 0
                memset(<char*>column.data + row * value_size(kind), 0, value_size(kind))
            else:
                _store(column, row, value)
        return column

    @staticmethod
    def from_buffer(int kind, bytes data not None, Py_ssize_t width=8):
        """A column without NULLs of what lies in `data`: BIGINT, TIMESTAMP and DOUBLE take 8 bytes a value, which are copied;
        STRING has values of `width` bytes each, which stay where they are. O(values)."""
        cdef Column column
        cdef Py_ssize_t row
        cdef const char* at = PyBytes_AS_STRING(data)
        if kind != K_STRING and kind != K_BIGINT and kind != K_TIMESTAMP and kind != K_DOUBLE:
            raise TypeError(f"no buffer holds values of kind {kind}")
        if width < 1 or (kind != K_STRING and width != 8) or PyBytes_GET_SIZE(data) % width:
            raise ValueError(f"{len(data)} bytes are no values of {width} bytes")
        column = new_column(kind, PyBytes_GET_SIZE(data) // width, False, False)
        if kind != K_STRING:
            memcpy(column.data, at, PyBytes_GET_SIZE(data))
            return column
        column.owners.append(data)
        for row in range(column.length):
            column.strings()[row].data = at + row * width
            column.strings()[row].size = <uint32_t>width
            column.strings()[row].reserved = 0
        return column

    def to_list(self, int scale=-1):
        """The values as Python objects: None, bool, int, float, str. TIMESTAMP is int microseconds; DECIMAL
        the scaled int, or with `scale` >= 0 a decimal.Decimal. O(rows)."""
        cdef list out = [None] * self.length
        cdef Py_ssize_t row
        for row in range(self.length):
            if not self.is_null(row):
                out[row] = _load(self, row * self.step(), scale)
        return out

    def take(self, Selection selection not None):
        """The column of the selected rows, in the order of the selection. O(selected)."""
        return gather(self, selection)

    @staticmethod
    def joined(columns):
        """The values of columns of one kind, one column after another. Texts stay where they are. O(rows).

        Raises ValueError for no columns, or such of several kinds.
        """
        return _joined(list(columns))

    def detached(self):
        """The same values in memory of their own: texts are copied, so that they keep nothing else alive. O(bytes)."""
        return self if self.kind != K_STRING else _with_own_texts(self)

    @property
    def text_bytes(self):
        """Bytes of the texts, one that several rows have counted for each. O(rows)."""
        cdef Py_ssize_t row
        cdef size_t size = 0
        if self.kind == K_STRING:
            for row in range(self.stored()):
                if not self.is_null(row):
                    size += self.strings()[row].size
        return size

    @property
    def memory_bytes(self):
        """Bytes of the values as `detached` has them. O(rows)."""
        return self.stored() * (value_size(self.kind) + (self.valid != NULL)) + self.text_bytes

    def repeat(self, Py_ssize_t length):
        """The same constant for `length` rows. Raises ValueError unless the column is a constant that holds
        a value. O(1)."""
        return constant_of(self, length)

    def selection(self):
        """The rows where this BOOLEAN column is true (neither false nor NULL). O(rows)."""
        cdef Py_ssize_t row, n = 0, step = self.step()
        cdef uint8_t* flags = self.booleans()
        if self.kind != K_BOOLEAN:
            raise TypeError("only a BOOLEAN column selects rows")
        cdef Selection out = new_selection(self.length)
        with nogil:
            if step == 0 and self.length and (flags[0] == 0 or self.is_null(0)):
                n = 0
            elif step == 0:
                for row in range(self.length):
                    out.rows[row] = <uint32_t>row
                n = self.length
            else:
                n = _select(flags, self.valid, self.length, out.rows)
        out.length = n
        return out


cdef inline Py_ssize_t _taken(const uint8_t* flags, const uint8_t* valid, Py_ssize_t row) noexcept nogil:
    if valid == NULL:
        return flags[row] != 0
    return flags[row] & valid[row]


cdef Py_ssize_t _select(const uint8_t* flags, const uint8_t* valid, Py_ssize_t length, uint32_t* rows) noexcept nogil:
    """The rows whose flag is set and which are valid, eight flags at a time: conditions are mostly false or mostly true
    for long runs of rows."""
    cdef Py_ssize_t row = 0, k, n = 0
    cdef uint64_t word, mask
    while row + 8 <= length:
        memcpy(&word, flags + row, 8)
        if valid != NULL:
            memcpy(&mask, valid + row, 8)
            word &= mask
        if word != 0:
            for k in range(8):
                rows[n] = <uint32_t>(row + k)
                n += _taken(flags, valid, row + k)
        row += 8
    while row < length:
        rows[n] = <uint32_t>row
        n += _taken(flags, valid, row)
        row += 1
    return n


cdef int _store(Column column, Py_ssize_t row, object value) except -1:
    cdef int kind = column.kind
    cdef object low
    cdef bytes text
    if kind == K_BOOLEAN:
        column.booleans()[row] = 1 if value else 0
    elif kind == K_BIGINT or kind == K_TIMESTAMP:
        column.longs()[row] = value
    elif kind == K_DOUBLE:
        column.doubles()[row] = value
    elif kind == K_DECIMAL:
        low = value & 0xFFFFFFFFFFFFFFFF
        column.decimals()[row] = i128_make(value >> 64, low)
    elif kind == K_STRING:
        text = value.encode() if isinstance(value, str) else value
        if PyBytes_GET_SIZE(text) > STRING_BYTES_MAX:
            raise OverflowError(f"a text of {PyBytes_GET_SIZE(text)} bytes; a STRING has {STRING_BYTES_MAX} at most")
        column.owners.append(text)
        column.strings()[row].data = PyBytes_AS_STRING(text)
        column.strings()[row].size = <uint32_t>PyBytes_GET_SIZE(text)
        column.strings()[row].reserved = 0
    else:
        raise TypeError(f"no column of kind {kind} holds values")
    return 0


cdef object _load(Column column, Py_ssize_t row, int scale):
    cdef int kind = column.kind
    cdef i128 wide
    if kind == K_BOOLEAN:
        return bool(column.booleans()[row])
    if kind == K_BIGINT or kind == K_TIMESTAMP:
        return column.longs()[row]
    if kind == K_DOUBLE:
        return column.doubles()[row]
    if kind == K_DECIMAL:
        wide = column.decimals()[row]
        number = (<object>i128_high(wide) << 64) | <object>i128_low(wide)
        return number if scale < 0 else _decimal.Decimal(number).scaleb(-scale, _CONTEXT)
    if kind == K_STRING:
        return column.strings()[row].data[: column.strings()[row].size].decode("utf-8", "backslashreplace")
    return None


cdef class Selection:
    def __cinit__(self):
        self.rows = NULL
        self.length = 0

    def __dealloc__(self):
        PyMem_RawFree(self.rows)

    def __len__(self):
        return self.length

    @staticmethod
    def from_list(rows):
        cdef Selection out = new_selection(len(rows))
        cdef Py_ssize_t i
        for i in range(out.length):
            out.rows[i] = rows[i]
        return out

    def to_list(self):
        cdef Py_ssize_t i
        return [self.rows[i] for i in range(self.length)]

    def take(self, Selection selection not None):
        """The selected ones of these rows: `self[i]` for each i of `selection`. O(selected)."""
        cdef Selection out = new_selection(selection.length)
        cdef Py_ssize_t i
        for i in range(selection.length):
            if selection.rows[i] >= self.length:
                raise IndexError(f"row {selection.rows[i]} of {self.length}")
            out.rows[i] = self.rows[selection.rows[i]]
        return out


cdef Column new_column(int kind, Py_ssize_t length, bint constant, bint nullable):
    cdef Column column = Column.__new__(Column)
    if not K_NULL <= kind <= K_TIMESTAMP:
        raise ValueError(f"no column kind {kind}")
    if not 0 <= length <= BLOCK_ROWS_MAX:
        raise ValueError(f"{length} rows in a column")
    column.kind = kind
    column.length = length
    column.constant = constant
    column.data = _allocate(column.stored() * value_size(kind))
    if nullable:
        column.need_valid()
    return column


cdef Selection new_selection(Py_ssize_t length):
    cdef Selection out = Selection.__new__(Selection)
    out.rows = <uint32_t*>_allocate(length * sizeof(uint32_t))
    out.length = length
    return out


cdef Column gather(Column column, Selection selection):
    cdef Py_ssize_t i, n = selection.length
    cdef uint32_t* rows = selection.rows
    cdef size_t size = value_size(column.kind)
    cdef Column out
    if column.constant:
        if n and column.length == 0:
            raise IndexError(f"row {rows[0]} of 0")
        out = new_column(column.kind, n, True, column.valid != NULL)
        if n:
            memcpy(out.data, column.data, size)
            if column.valid != NULL:
                out.valid[0] = column.valid[0]
        out.owners = list(column.owners)
        return out
    out = new_column(column.kind, n, False, column.valid != NULL)
    out.owners = list(column.owners)
    for i in range(n):
        if rows[i] >= column.length:
            raise IndexError(f"row {rows[i]} of {column.length}")
    with nogil:
        if size == 1:
            for i in range(n):
                out.booleans()[i] = column.booleans()[rows[i]]
        elif size == 8:
            for i in range(n):
                out.longs()[i] = column.longs()[rows[i]]
        else:
            for i in range(n):
                out.decimals()[i] = column.decimals()[rows[i]]
        if column.valid != NULL:
            for i in range(n):
                out.valid[i] = column.valid[rows[i]]
    return out


cdef Column constant_of(Column column, Py_ssize_t length):
    cdef Column out
    if not column.constant or column.length == 0:
        raise ValueError("only a constant column that holds its value can be repeated")
    out = new_column(column.kind, length, True, column.valid != NULL)
    out.owners = column.owners
    if length:
        memcpy(out.data, column.data, value_size(column.kind))
        if column.valid != NULL:
            out.valid[0] = column.valid[0]
    return out


cdef Column _joined(list columns):
    cdef Column column, out
    cdef Py_ssize_t at = 0, row, length = 0
    cdef size_t size
    cdef bint nullable = False
    if not columns:
        raise ValueError("no columns to join")
    out = columns[0]
    cdef int kind = out.kind
    for column in columns:
        if column.kind != kind:
            raise ValueError(f"a column of kind {column.kind} joined to one of kind {kind}")
        length += column.length
        nullable = nullable or column.valid != NULL
    size = value_size(kind)
    out = new_column(kind, length, False, nullable)
    for column in columns:
        for row in range(column.length if column.constant else 0):
            memcpy(<char*>out.data + (at + row) * size, column.data, size)
        if not column.constant:
            memcpy(<char*>out.data + at * size, column.data, column.length * size)
        if column.valid != NULL:
            for row in range(column.length):
                out.valid[at + row] = column.valid[row * column.step()]
        at += column.length
        out.owners += column.owners
    return out


cdef Column _with_own_texts(Column column):
    cdef Py_ssize_t row, stored = column.stored()
    cdef Column out = new_column(K_STRING, column.length, column.constant, column.valid != NULL)
    cdef bytes texts = PyBytes_FromStringAndSize(NULL, column.text_bytes)
    cdef char* at = PyBytes_AS_STRING(texts)
    cdef StringRef* text
    out.owners.append(texts)
    with nogil:
        if column.valid != NULL:
            memcpy(out.valid, column.valid, stored)
        for row in range(stored):
            text = &out.strings()[row]
            text.data = at
            text.size = 0 if column.is_null(row) else column.strings()[row].size
            text.reserved = 0
            if text.size:
                memcpy(at, column.strings()[row].data, text.size)
                at += text.size
    return out
