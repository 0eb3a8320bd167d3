"""Order of rows: sort by several columns, the first k of an order, rows by distinct value.

Every row gets a 64-bit prefix of its first sort column, monotone in the wanted order; only rows with equal prefixes
are compared column by column. DOUBLE orders as Spark does: NaN is the greatest, -0.0 equals 0.0.
"""

from libc.math cimport isnan
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy

from cython_ext.column cimport (Column, K_BIGINT, K_BOOLEAN, K_DECIMAL, K_DOUBLE, K_NULL, K_STRING, K_TIMESTAMP,
                                Selection, StringRef, i128, i128_compare, i128_high, i128_low, new_selection)

cdef enum:
    RUN_ROWS = 12    # runs of this many rows are sorted by insertion, then merged

cdef uint64_t TOP_BIT = <uint64_t>1 << 63

cdef struct SortColumn:
    int kind
    const char* data
    const uint8_t* valid
    Py_ssize_t step
    bint descending
    bint nulls_first

cdef struct SortRow:
    uint64_t prefix
    uint32_t row

cdef struct Ordering:
    const SortColumn* columns
    int count


# ---- comparing

cdef inline int _order_longs(int64_t a, int64_t b) noexcept nogil:
    return (a > b) - (a < b)


cdef inline int _order_doubles(double a, double b) noexcept nogil:
    if isnan(a) or isnan(b):
        return <int>isnan(a) - <int>isnan(b)
    return (a > b) - (a < b)


cdef inline int _order_texts(const StringRef* a, const StringRef* b) noexcept nogil:
    cdef uint32_t shared = min(a.size, b.size)
    cdef int order = memcmp(a.data, b.data, shared) if shared else 0
    return order if order else (a.size > b.size) - (a.size < b.size)


cdef int _order_column(const SortColumn* column, Py_ssize_t a, Py_ssize_t b) noexcept nogil:
    cdef int order
    cdef bint a_null, b_null
    a *= column.step
    b *= column.step
    if column.valid != NULL:
        a_null = not column.valid[a]
        b_null = not column.valid[b]
        if a_null or b_null:
            order = <int>b_null - <int>a_null
            return order if column.nulls_first else -order
    if column.kind == K_STRING:
        order = _order_texts(<const StringRef*>column.data + a, <const StringRef*>column.data + b)
    elif column.kind == K_DOUBLE:
        order = _order_doubles((<const double*>column.data)[a], (<const double*>column.data)[b])
    elif column.kind == K_DECIMAL:
        order = i128_compare((<const i128*>column.data)[a], (<const i128*>column.data)[b])
    elif column.kind == K_BOOLEAN:
        order = _order_longs((<const uint8_t*>column.data)[a], (<const uint8_t*>column.data)[b])
    elif column.kind == K_NULL:
        return 0
    else:
        order = _order_longs((<const int64_t*>column.data)[a], (<const int64_t*>column.data)[b])
    # memcmp may answer any int, and the least one has no negative
    if order == 0:
        return 0
    return -1 if (order < 0) != column.descending else 1


cdef inline bint _before(const Ordering* order, const SortRow* a, const SortRow* b) noexcept nogil:
    # Row numbers break ties, so the order is total and every algorithm is stable.
    cdef int c, result
    if a.prefix != b.prefix:
        return a.prefix < b.prefix
    for c in range(order.count):
        result = _order_column(&order.columns[c], a.row, b.row)
        if result:
            return result < 0
    return a.row < b.row


# ---- prefixes

cdef uint64_t _double_rank(double value) noexcept nogil:
    cdef uint64_t bits
    if isnan(value):
        return <uint64_t>0xFFFFFFFFFFFFFFFF
    value = value + 0.0
    memcpy(&bits, &value, 8)
    return ~bits if bits & TOP_BIT else bits | TOP_BIT


cdef uint64_t _decimal_rank(i128 value) noexcept nogil:
    # What fits 63 bits keeps its digits; what does not goes to the ends.
    cdef int64_t high = i128_high(value), low = <int64_t>i128_low(value)
    if high == 0 and low >= 0 or high == -1 and low < 0:
        return <uint64_t>low ^ TOP_BIT
    return 0 if high < 0 else <uint64_t>0xFFFFFFFFFFFFFFFF


cdef uint64_t _text_rank(const StringRef* text) noexcept nogil:
    cdef uint64_t rank = 0
    cdef uint32_t i
    for i in range(8):
        rank = (rank << 8) | (<uint8_t>text.data[i] if i < text.size else 0)
    return rank


cdef uint64_t _rank(const SortColumn* column, Py_ssize_t at) noexcept nogil:
    if column.kind == K_STRING:
        return _text_rank(<const StringRef*>column.data + at)
    if column.kind == K_DOUBLE:
        return _double_rank((<const double*>column.data)[at])
    if column.kind == K_DECIMAL:
        return _decimal_rank((<const i128*>column.data)[at])
    if column.kind == K_BOOLEAN:
        return <uint64_t>(<const uint8_t*>column.data)[at] << 63
    if column.kind == K_NULL:
        return 0
    return <uint64_t>(<const int64_t*>column.data)[at] ^ TOP_BIT


cdef inline uint64_t _prefix(const SortColumn* column, Py_ssize_t row) noexcept nogil:
    # Rows with equal prefixes are compared in full, so a value may share that of NULL or of its neighbour. The lowest
    # bit of the rank makes room for NULL last.
    cdef Py_ssize_t at = row * column.step
    cdef uint64_t rank
    if column.valid != NULL and not column.valid[at]:
        return 0 if column.nulls_first else <uint64_t>0xFFFFFFFFFFFFFFFF
    rank = _rank(column, at)
    if column.descending:
        rank = ~rank
    return rank >> 1


# ---- sorting

cdef void _insertion_sort(const Ordering* order, SortRow* rows, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i, j
    cdef SortRow row
    for i in range(1, n):
        row = rows[i]
        j = i
        while j > 0 and _before(order, &row, &rows[j - 1]):
            rows[j] = rows[j - 1]
            j -= 1
        rows[j] = row


cdef void _merge_runs(const Ordering* order, const SortRow* a, Py_ssize_t a_size, const SortRow* b, Py_ssize_t b_size,
                      SortRow* out) noexcept nogil:
    cdef Py_ssize_t i = 0, j = 0
    if a_size and b_size and not _before(order, b, a + a_size - 1):
        i = a_size
        memcpy(out, a, a_size * sizeof(SortRow))
    while i < a_size and j < b_size:
        if _before(order, b + j, a + i):
            out[i + j] = b[j]
            j += 1
        else:
            out[i + j] = a[i]
            i += 1
    memcpy(out + i + j, a + i, (a_size - i) * sizeof(SortRow))
    memcpy(out + a_size + j, b + j, (b_size - j) * sizeof(SortRow))


cdef SortRow* _merge_sort(const Ordering* order, SortRow* rows, SortRow* spare, Py_ssize_t n) noexcept nogil:
    # Bottom up; returns whichever of the two arrays holds the sorted rows.
    cdef Py_ssize_t start, width = RUN_ROWS, middle, end
    cdef SortRow* swap
    start = 0
    while start < n:
        _insertion_sort(order, rows + start, min(RUN_ROWS, n - start))
        start += RUN_ROWS
    while width < n:
        start = 0
        while start < n:
            middle = min(start + width, n)
            end = min(middle + width, n)
            _merge_runs(order, rows + start, middle - start, rows + middle, end - middle, spare + start)
            start = end
        swap = rows
        rows = spare
        spare = swap
        width *= 2
    return rows


cdef void _sift_down(const Ordering* order, SortRow* heap, Py_ssize_t at, Py_ssize_t n) noexcept nogil:
    # heap[0] is the last row of the heap in the wanted order
    cdef SortRow row = heap[at]
    cdef Py_ssize_t child = 2 * at + 1
    while child < n:
        if child + 1 < n and _before(order, &heap[child], &heap[child + 1]):
            child += 1
        if not _before(order, &row, &heap[child]):
            break
        heap[at] = heap[child]
        at = child
        child = 2 * at + 1
    heap[at] = row


cdef void _keep_first(const Ordering* order, SortRow* heap, Py_ssize_t limit, Py_ssize_t n) noexcept nogil:
    # Leaves the first `limit` of n rows, sorted, in heap[:limit]; only those rows are ever stored.
    cdef Py_ssize_t i
    cdef SortRow row
    for i in range(limit):
        heap[i].row = <uint32_t>i
        heap[i].prefix = _prefix(order.columns, i)
    for i in range(limit // 2 - 1, -1, -1):
        _sift_down(order, heap, i, limit)
    for i in range(limit, n):
        row.row = <uint32_t>i
        row.prefix = _prefix(order.columns, i)
        if row.prefix <= heap[0].prefix and _before(order, &row, heap):
            heap[0] = row
            _sift_down(order, heap, 0, limit)
    for i in range(limit - 1, 0, -1):
        row = heap[i]
        heap[i] = heap[0]
        heap[0] = row
        _sift_down(order, heap, 0, i)


cdef SortColumn* _refer_columns(columns, descending, nulls_first, Py_ssize_t* rows) except NULL:
    cdef Column column
    cdef int i
    cdef SortColumn* out
    if not len(columns) == len(descending) == len(nulls_first):
        raise ValueError("a direction and a place for NULLs is needed for each column")
    if not columns:
        raise ValueError("nothing to sort by")
    rows[0] = len(columns[0])
    out = <SortColumn*>malloc(sizeof(SortColumn) * <size_t>len(columns))
    if out == NULL:
        raise MemoryError("no memory to sort")
    try:
        for i in range(<int>len(columns)):
            column = columns[i]
            if column is None:
                raise TypeError("a column was expected, not None")
            if column.length != rows[0]:
                raise ValueError(f"a column of {column.length} rows beside one of {rows[0]}")
            out[i].kind = column.kind
            out[i].data = <const char*>column.data
            out[i].valid = column.valid
            out[i].step = column.step()
            out[i].descending = descending[i]
            out[i].nulls_first = nulls_first[i]
    except BaseException:
        free(out)
        raise
    return out


def sort_rows(columns, descending, nulls_first, Py_ssize_t limit=-1):
    cdef Py_ssize_t n = 0, wanted, i
    cdef Ordering order
    cdef Selection out
    cdef SortRow* rows
    cdef SortRow* first
    cdef bint partial
    order.count = len(columns)
    order.columns = _refer_columns(columns, descending, nulls_first, &n)
    wanted = n if limit < 0 else min(limit, n)
    # A heap of the first rows pays while it is small; a large one is slower than sorting all.
    partial = wanted <= n // 8
    rows = <SortRow*>malloc(sizeof(SortRow) * <size_t>max(1, wanted if partial else 2 * n))
    try:
        if rows == NULL:
            raise MemoryError(f"no memory to sort {n} rows")
        out = new_selection(wanted)
        with nogil:
            first = rows
            if partial:
                if wanted:
                    _keep_first(&order, rows, wanted, n)
            else:
                for i in range(n):
                    rows[i].row = <uint32_t>i
                    rows[i].prefix = _prefix(order.columns, i)
                first = _merge_sort(&order, rows, rows + n, n)
            for i in range(wanted):
                out.rows[i] = first[i].row
        return out
    finally:
        free(rows)
        free(<void*>order.columns)


# ---- splitting

cdef struct Part:
    int64_t value
    uint32_t number
    uint32_t rows     # how many; 0: a free slot


cdef class _Parts:
    """Distinct values in the order of their first row: an open-addressing map that doubles."""
    cdef Part* slots
    cdef int bits
    cdef uint32_t count

    def __cinit__(self):
        self.bits = 4
        self.slots = <Part*>calloc(1 << self.bits, sizeof(Part))
        if self.slots == NULL:
            raise MemoryError("no memory to split rows")

    def __dealloc__(self):
        free(self.slots)

    cdef Part* find(self, int64_t value) noexcept nogil:
        cdef size_t mask = (<size_t>1 << self.bits) - 1
        cdef size_t at = (<uint64_t>value * <uint64_t>0x9E3779B97F4A7C15) >> (64 - self.bits)
        while self.slots[at].rows and self.slots[at].value != value:
            at = (at + 1) & mask
        return &self.slots[at]

    cdef Part* add(self, int64_t value) noexcept nogil:
        # The part of the value with one more row; NULL without memory.
        cdef Part* part = self.find(value)
        if part.rows == 0:
            if 4 * <size_t>self.count >= 3 * (<size_t>1 << self.bits):
                if self.grow() < 0:
                    return NULL
                part = self.find(value)
            part.value = value
            part.number = self.count
            self.count += 1
        part.rows += 1
        return part

    cdef int grow(self) noexcept nogil:
        cdef Part* old = self.slots
        cdef size_t i, size = <size_t>1 << self.bits
        cdef Part* slots = <Part*>calloc(2 * size, sizeof(Part))
        if slots == NULL:
            return -1
        self.slots = slots
        self.bits += 1
        for i in range(size):
            if old[i].rows:
                self.find(old[i].value)[0] = old[i]
        free(old)
        return 0


cdef int _number_rows(Column column, _Parts parts, uint32_t* numbers) noexcept nogil:
    # numbers[row] = its part, or the largest uint32 for NULL; neighbours mostly fall into the same part.
    cdef Py_ssize_t row = 0, end, n = column.length, step = column.step()
    cdef const int64_t* values = column.longs()
    cdef const uint8_t* valid = column.valid
    cdef int64_t value
    cdef Part* part
    while row < n:
        if valid != NULL and not valid[row * step]:
            numbers[row] = <uint32_t>0xFFFFFFFF
            row += 1
            continue
        value = values[row * step]
        part = parts.add(value)
        if part == NULL:
            return -1
        end = row
        while True:
            numbers[end] = part.number
            end += 1
            if end == n or values[end * step] != value:
                break
            if valid != NULL and not valid[end * step]:
                break
        part.rows += <uint32_t>(end - row - 1)
        row = end
    return 0


def split_rows(Column column not None):
    cdef _Parts parts = _Parts.__new__(_Parts)
    cdef Py_ssize_t row, n = column.length
    cdef uint32_t i
    cdef size_t slot
    cdef int failed
    cdef Part* part
    cdef list out
    cdef Selection selection
    if column.kind != K_BIGINT and column.kind != K_TIMESTAMP:
        raise TypeError("only a BIGINT or TIMESTAMP column splits rows")
    cdef uint32_t* numbers = <uint32_t*>malloc(sizeof(uint32_t) * <size_t>max(1, n))
    cdef uint32_t** ends = NULL
    try:
        if numbers == NULL:
            raise MemoryError(f"no memory to split {n} rows")
        with nogil:
            failed = _number_rows(column, parts, numbers)
        if not failed:
            ends = <uint32_t**>malloc(sizeof(uint32_t*) * <size_t>(parts.count + 1))
        if ends == NULL:
            raise MemoryError(f"no memory to split {n} rows")
        out = []
        for slot in range(<size_t>1 << parts.bits):
            part = &parts.slots[slot]
            if part.rows:
                selection = new_selection(part.rows)
                ends[part.number] = selection.rows
                out.append((part.value, selection))
        with nogil:
            for row in range(n):
                i = numbers[row]
                if i != <uint32_t>0xFFFFFFFF:
                    ends[i][0] = <uint32_t>row
                    ends[i] += 1
        out.sort(key=_value_of)
        return out
    finally:
        free(numbers)
        free(ends)


def _value_of(part):
    return part[0]
