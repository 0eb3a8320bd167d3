# Lines of columns: the steps of a LineProgram.
from cython_ext.column cimport Arena
from cython_ext.scan_code cimport Literal, MomentPlan, Run, Schema, Step
from libc.stdint cimport uint8_t


cdef class LineCode:
    cdef Schema schema
    cdef Step* steps
    cdef int steps_count
    cdef Literal prefix
    cdef MomentPlan* moments
    cdef bint blank_run
    cdef bint open_end
    cdef bint directives

    # Reads one line into the run's row; a reason, with the place of the mismatch in run.place.
    cdef int read(self, Run* run, const uint8_t* p, const uint8_t* end, Arena arena) except -1 nogil
    cdef int finish(self, Run* run, int done) noexcept nogil
