# The words that the parts of the scan kernel share: reasons, compiled fields, and the state of one scan call.
from cython_ext.column cimport Arena, Column
from cython_ext.scan_time cimport TimeLayout, Zone
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

cdef enum:  # why a line is rejected: 1 + its index in job.formats.program.REJECT_REASONS
    R_OK = 0
    R_BLANK
    R_TRUNCATED
    R_MISMATCH
    R_TRAILING
    R_BAD_TIME
    R_BAD_STATUS
    R_BAD_NUMBER
    R_OVERFLOW
    R_BAD_JSON
    R_NOT_OBJECT
    R_TOO_DEEP
    R_TOO_LONG
    R_NO_FIELDS
    REASON_COUNT

cdef enum:  # job.formats.program.Extent
    E_TEXT = 1
    E_WORD
    E_QUOTED
    E_SELF
    E_BRACES
    E_SYSLOG
    E_MAYBE_QUOTED
    E_LIST
    E_NAME
    E_REQUEST

cdef enum:  # job.formats.program.Content
    C_TEXT = 1
    C_REQUEST
    C_URI
    C_ADDRESS_PORT
    C_INTEGER
    C_TIMER
    C_DECIMAL
    C_STATUS
    C_TIME
    C_DATE
    C_CLOCK
    C_FLAG
    C_FLOAT
    C_URI_STEM
    C_LOCATION

cdef enum:
    ROLES_MAX = 6
    MEMO_BYTES = 40

cdef struct Literal:
    const uint8_t* data
    Py_ssize_t size
    uint64_t word  # the first 8 bytes, and which of them count: compared in one go
    uint64_t mask

cdef struct Field:  # what a text means and where its values go
    int content
    int argument
    bint dash_null
    bint json_escaped
    bint required        # JSON: a document without it is refused
    bint lenient         # JSON: what cannot be read is NULL
    bint overrides       # JSON: absent, it leaves what an earlier value wrote
    bint idle            # nobody wants it and it cannot be refused: need not be read
    bint single          # its only role is the first one
    int nulls_count
    Literal* nulls
    int outputs[ROLES_MAX]  # sink by role; -1: no one asked
    TimeLayout* layout
    const Zone* zone     # of times that log no offset
    int memo             # TIME: index of its memo
    int moment           # DATE, CLOCK: index of the moment they add to

cdef struct Step:
    Field field
    int extent
    Literal until
    bint may_end         # the line may end where `until` would begin

cdef struct Sink:        # a column being written
    void* data
    uint8_t* valid
    int kind

cdef struct Memo:        # the text of a time and its value: the next line mostly has the same
    int64_t value
    int size             # 0: empty
    uint8_t text[MEMO_BYTES]

cdef struct MomentPlan:  # a TIMESTAMP that DATE and CLOCK fields add up to
    int sink             # -1: nobody wants it, but it must be a time
    int parts
    const Zone* zone     # NULL: a part names the offset

cdef struct Moment:
    int64_t value
    int parts            # read so far, NULLs not counted
    const uint8_t* place

cdef struct Mark:        # where a step found its field
    int step
    const uint8_t* start
    const uint8_t* end

cdef struct Run:         # the state of one scan call
    const uint8_t* safe  # end of the bytes that may be read
    const uint8_t* place # where a line stopped matching
    const uint8_t* start # of the field being read, in the block
    Py_ssize_t row
    Py_ssize_t capacity
    Sink* sinks
    int sinks_count
    Memo* memos
    Moment* moments
    int moments_count
    Mark* marks          # NULL unless someone asked what each step matched
    int marks_count


cdef class Schema:
    """The wanted columns of a program, and the memory of everything compiled from it."""
    cdef list owners           # objects whose bytes the structs point at
    cdef readonly tuple kinds  # of the sinks
    cdef readonly tuple wanted # names of the columns, in the caller's order
    cdef readonly tuple places # sink of each wanted column
    cdef list written          # sinks that some field writes
    cdef dict fields           # name -> type
    cdef dict sinks            # name -> sink
    cdef list moments          # [name, parts, has zone] in the order of their index
    cdef int memos_count
    cdef Zone* zone

    cdef void* memory(self, Py_ssize_t count, size_t size) except NULL
    cdef int set_zone(self, int64_t first_s, object changes) except -1
    cdef int set_literal(self, Literal* literal, object text) except -1
    cdef int set_field(self, Field* field, object source) except -1
    cdef int set_time(self, Field* field, object source, bint wanted) except -1
    cdef MomentPlan* moment_plans(self) except NULL
