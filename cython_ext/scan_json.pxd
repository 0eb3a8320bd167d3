# Lines that are JSON documents: validation, and the values of the wanted paths.
from cython_ext.column cimport Arena
from cython_ext.scan_code cimport Field, Literal, MomentPlan, Run, Schema
from libc.stdint cimport uint8_t

cdef enum CaptureKind:
    V_ABSENT = 0
    V_NULL
    V_STRING   # between the quotes, as it is
    V_ESCAPED  # between the quotes, escapes to be decoded
    V_OTHER    # number, true, false, object, array: its text

cdef struct Capture:
    CaptureKind kind
    const uint8_t* start
    const uint8_t* end

cdef struct Node:        # a place in a document that a wanted path goes through
    Literal key
    int first            # its children are nodes[first : first + count]
    int count
    int slot             # capture of the value here, an array standing for its first element; -1: none
    int whole_slot       # capture of the value here, arrays as they are; -1: none
    int low              # captures of this place and all below: [low, high)
    int high

cdef struct Value:
    Field field
    int slots_count
    int* slots           # the first that is present and not null counts


cdef class JsonCode:
    cdef Schema schema
    cdef Node* nodes
    cdef Value* values
    cdef int values_count
    cdef readonly int captures_count
    cdef MomentPlan* moments

    cdef int take(self, const Value* value, int index, Run* run, const Capture* captures, Arena arena) except -1 nogil
    # Reads one document into the run's row; `captures` is room for captures_count of them. A reason, as in scan_line.
    cdef int read(self, Run* run, Capture* captures, const uint8_t* p, const uint8_t* end, Arena arena) except -1 nogil
