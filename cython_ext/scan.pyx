"""Blocks of log lines to columns: runs a scan program (job.formats.program) over whole blocks, without the GIL.

docs/SCAN.md says what every step means. A line is good or it is rejected with a reason, whatever columns are wanted; only
wanted columns are written. Strings are addresses into the block, which the columns keep alive.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_RawFree, PyMem_RawMalloc, PyMem_RawRealloc
from cython_ext.column cimport K_STRING, Arena, Column, new_column, value_size
from cython_ext.scan_code cimport *
from cython_ext.scan_json cimport Capture, JsonCode
from cython_ext.scan_line cimport LineCode
from libc.string cimport memchr, memcmp, memset

from cython_ext.scan_code import REASONS
from typing import NamedTuple

LINE_BYTES_MAX = 4 << 20
SAMPLES_MAX = 8
BLOCK_BYTES_MAX = 0xFFFFFFFF
"""Bytes that one call of `scan` takes: so the rows of a block can be numbered by 32 bits."""

cdef enum:
    ROWS_SPARE = 16
    LINE_BYTES_GUESS = 128  # before the first block has shown how long lines are

cdef struct Sample:
    Py_ssize_t offset
    Py_ssize_t size
    Py_ssize_t position
    int reason

cdef struct Tally:          # what a block held
    Py_ssize_t lines
    Py_ssize_t directives
    Py_ssize_t rejected[REASON_COUNT]
    Py_ssize_t samples_count
    Py_ssize_t samples_room
    Py_ssize_t samples_max
    Sample* samples
    const uint8_t* consumed
    const uint8_t* directive  # the #Fields line that ended the scan, or NULL
    const uint8_t* directive_end


class Reject(NamedTuple):
    offset: int
    size: int
    reason: str
    position: int


class TraceStep(NamedTuple):
    step: int
    start: int
    end: int


class Trace(NamedTuple):
    ok: bool
    reason: str
    position: int
    steps: list
    values: dict


cdef class Batch:
    cdef readonly tuple columns
    cdef readonly Py_ssize_t rows
    cdef readonly Py_ssize_t lines
    cdef readonly Py_ssize_t directives
    cdef readonly dict rejected
    cdef readonly list samples
    cdef readonly Py_ssize_t consumed
    cdef readonly bytes directive


cdef class Workspace:
    """The memory of one scan call: freed with it, except what has become columns."""
    cdef Run run
    cdef Tally tally
    cdef Capture* captures

    def __cinit__(self):
        memset(&self.run, 0, sizeof(Run))
        memset(&self.tally, 0, sizeof(Tally))
        self.captures = NULL

    def __dealloc__(self):
        cdef int i
        if self.run.sinks != NULL:
            for i in range(self.run.sinks_count):
                PyMem_RawFree(self.run.sinks[i].data)
                PyMem_RawFree(self.run.sinks[i].valid)
        PyMem_RawFree(self.run.sinks)
        PyMem_RawFree(self.run.memos)
        PyMem_RawFree(self.run.moments)
        PyMem_RawFree(self.run.marks)
        PyMem_RawFree(self.captures)
        PyMem_RawFree(self.tally.samples)


cdef void* allocate(size_t size) except NULL:
    cdef void* memory = PyMem_RawMalloc(size + 1)
    if memory == NULL:
        raise MemoryError(f"{size} bytes to scan a block")
    memset(memory, 0, size + 1)
    return memory


cdef int resize(void** memory, size_t size) except -1 nogil:
    cdef void* grown = PyMem_RawRealloc(memory[0], size + 1)
    if grown == NULL:
        with gil:
            raise MemoryError(f"{size} bytes to scan a block")
    memory[0] = grown
    return 0


cdef int set_capacity(Run* run, Py_ssize_t rows) except -1 nogil:
    cdef int i
    for i in range(run.sinks_count):
        resize(&run.sinks[i].data, <size_t>rows * value_size(run.sinks[i].kind))
        resize(<void**>&run.sinks[i].valid, <size_t>rows)
    run.capacity = rows
    return 0


cdef int reject(Tally* tally, Sample sample) except -1 nogil:
    cdef Py_ssize_t room
    tally.rejected[sample.reason] += 1
    if tally.samples_count == tally.samples_max:
        return 0
    if tally.samples_count == tally.samples_room:
        room = tally.samples_room * 2 + 8
        resize(<void**>&tally.samples, <size_t>room * sizeof(Sample))
        tally.samples_room = room
    tally.samples[tally.samples_count] = sample
    tally.samples_count += 1
    return 0


cdef class Scanner:
    """Cuts blocks of bytes into columns; made once for a program and the wanted columns, safe to share among threads."""
    cdef LineCode line_code
    cdef JsonCode json_code
    cdef Schema schema
    cdef Py_ssize_t samples_max
    cdef Py_ssize_t line_bytes_max
    cdef Py_ssize_t row_bytes  # of lines seen so far, to guess how many rows a block has

    def __init__(self, program, wanted, samples_max=SAMPLES_MAX, line_bytes_max=LINE_BYTES_MAX):
        if hasattr(program, "steps"):
            self.line_code = LineCode(program, wanted)
            self.schema = self.line_code.schema
        else:
            self.json_code = JsonCode(program, wanted)
            self.schema = self.json_code.schema
        if samples_max < 0 or not 0 < line_bytes_max <= LINE_BYTES_MAX:
            raise ValueError(f"samples_max {samples_max} or line_bytes_max {line_bytes_max} out of range")
        self.samples_max = samples_max
        self.line_bytes_max = line_bytes_max
        self.row_bytes = LINE_BYTES_GUESS

    def scan(self, bytes block not None, Py_ssize_t start=0, Py_ssize_t stop=-1):
        cdef Py_ssize_t size = PyBytes_GET_SIZE(block)
        cdef const uint8_t* data = <const uint8_t*>PyBytes_AS_STRING(block)
        cdef Arena arena = Arena()
        cdef Workspace space
        if stop < 0:
            stop = size
        if not 0 <= start <= stop <= size:
            raise ValueError(f"no range [{start}, {stop}) in a block of {size} bytes")
        if stop - start > BLOCK_BYTES_MAX:
            raise ValueError(f"{stop - start} bytes in one go; cut them into blocks of {BLOCK_BYTES_MAX} at most")
        space = self.workspace((stop - start) // self.row_bytes + ROWS_SPARE)
        space.run.safe = data + size
        with nogil:
            self.scan_lines(space, data, data + start, data + stop, arena)
        if space.run.row > 0:
            self.row_bytes = max(1, (stop - start) * 15 // 16 // space.run.row)
        return self.batch(space, block, arena)

    def trace(self, bytes line not None):
        cdef Py_ssize_t size = PyBytes_GET_SIZE(line), i
        cdef const uint8_t* data = <const uint8_t*>PyBytes_AS_STRING(line)
        cdef Arena arena = Arena()
        cdef Workspace space = self.workspace(1)
        cdef int reason
        cdef int steps_max = 1 + (self.json_code.values_count if self.line_code is None else self.line_code.steps_count)
        space.run.safe = data + size
        space.run.marks = <Mark*>allocate(<size_t>steps_max * sizeof(Mark))
        if size > 0 and data[size - 1] == c"\n":
            size -= 1
        if size > 0 and data[size - 1] == c"\r":
            size -= 1
        space.run.place = data
        if size == 0:
            reason = R_BLANK
        elif size > self.line_bytes_max:
            reason = R_TOO_LONG
        else:
            reason = self.read_line(space, data, data + size, arena)
        steps = [
            TraceStep(space.run.marks[i].step, space.run.marks[i].start - data, space.run.marks[i].end - data)
            for i in range(space.run.marks_count)
        ]
        position = size if reason == R_OK else space.run.place - data
        if reason == R_OK:
            space.run.row = 1
        columns = self.columns(space, line, arena)
        values = {name: column.to_list()[0] for name, column in zip(self.schema.wanted, columns) if reason == R_OK}
        return Trace(reason == R_OK, REASONS[reason - 1] if reason != R_OK else "", position, steps, values)

    cdef Workspace workspace(self, Py_ssize_t rows):
        cdef Workspace space = Workspace()
        cdef Run* run = &space.run
        cdef Py_ssize_t i, count = len(self.schema.kinds), moments = len(self.schema.moments)
        run.sinks = <Sink*>allocate(<size_t>count * sizeof(Sink))
        for i in range(count):
            run.sinks[i].kind = self.schema.kinds[i]
        run.sinks_count = <int>count
        run.memos = <Memo*>allocate(<size_t>self.schema.memos_count * sizeof(Memo))
        run.moments = <Moment*>allocate(<size_t>moments * sizeof(Moment))
        run.moments_count = <int>moments
        if self.json_code is not None:
            space.captures = <Capture*>allocate(<size_t>self.json_code.captures_count * sizeof(Capture))
        space.tally.samples_max = self.samples_max
        set_capacity(run, rows)
        return space

    cdef int read_line(self, Workspace space, const uint8_t* p, const uint8_t* end, Arena arena) except -1 nogil:
        if space.run.moments_count > 0:
            memset(space.run.moments, 0, <size_t>space.run.moments_count * sizeof(Moment))
        if self.line_code is not None:
            return self.line_code.read(&space.run, p, end, arena)
        return self.json_code.read(&space.run, space.captures, p, end, arena)

    cdef int scan_lines(self, Workspace space, const uint8_t* data, const uint8_t* p, const uint8_t* stop,
                        Arena arena) except -1 nogil:
        cdef Run* run = &space.run
        cdef Tally* tally = &space.tally
        cdef const uint8_t* line_end
        cdef const uint8_t* end
        cdef Sample sample
        cdef int reason
        cdef bint directives = self.line_code is not None and self.line_code.directives
        while p < stop:
            line_end = <const uint8_t*>memchr(p, c"\n", stop - p)
            if line_end == NULL:
                line_end = stop
            end = line_end - 1 if line_end > p and (line_end - 1)[0] == c"\r" else line_end
            tally.lines += 1
            run.place = p
            if end - p > self.line_bytes_max:
                reason = R_TOO_LONG
            elif end == p:
                reason = R_BLANK
            elif directives and p[0] == c"#":
                tally.directives += 1
                if end - p >= 8 and memcmp(p, b"#Fields:", 8) == 0:
                    tally.directive = p
                    tally.directive_end = end
                    p = line_end + 1 if line_end < stop else stop
                    break
                p = line_end + 1
                continue
            else:
                reason = self.read_line(space, p, end, arena)
            if reason == R_OK:
                run.row += 1
                if run.row == run.capacity:
                    set_capacity(run, run.capacity * 2)
            else:
                sample.offset = p - data
                sample.size = end - p
                sample.position = run.place - p
                sample.reason = reason
                reject(tally, sample)
            p = line_end + 1
        tally.consumed = p if p < stop else stop
        return 0

    cdef tuple columns(self, Workspace space, bytes block, Arena arena):
        cdef Run* run = &space.run
        cdef Column column
        cdef int i
        made = []
        for i in range(run.sinks_count):
            if not self.schema.written[i]:
                column = new_column(run.sinks[i].kind, run.row, True, True)
                if run.row > 0:
                    memset(column.data, 0, value_size(column.kind))
                    column.valid[0] = 0
                made.append(column)
                continue
            if run.capacity > 2 * run.row + ROWS_SPARE:
                resize(&run.sinks[i].data, <size_t>run.row * value_size(run.sinks[i].kind))
            column = Column.__new__(Column)
            column.kind = run.sinks[i].kind
            column.length = run.row
            column.constant = False
            column.data = run.sinks[i].data
            run.sinks[i].data = NULL
            if run.row > 0 and memchr(run.sinks[i].valid, 0, run.row) != NULL:
                column.valid = run.sinks[i].valid
                run.sinks[i].valid = NULL
            if column.kind == K_STRING:
                column.owners = [block, arena]
            made.append(column)
        return tuple([made[place] for place in self.schema.places])

    cdef Batch batch(self, Workspace space, bytes block, Arena arena):
        cdef Tally* tally = &space.tally
        cdef Batch batch = Batch()
        cdef Py_ssize_t i, start
        cdef const uint8_t* data = <const uint8_t*>PyBytes_AS_STRING(block)
        batch.columns = self.columns(space, block, arena)
        batch.rows = space.run.row
        batch.lines = tally.lines
        batch.directives = tally.directives
        batch.rejected = {REASONS[i - 1]: tally.rejected[i] for i in range(1, REASON_COUNT) if tally.rejected[i]}
        batch.samples = [
            Reject(tally.samples[i].offset, tally.samples[i].size, REASONS[tally.samples[i].reason - 1],
                   tally.samples[i].position)
            for i in range(tally.samples_count)
        ]
        batch.consumed = tally.consumed - data
        if tally.directive != NULL:
            start = tally.directive - data
            batch.directive = block[start : start + (tally.directive_end - tally.directive)]
        return batch
