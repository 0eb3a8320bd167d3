# What the text of a field means: from bytes to values in columns.
from cython_ext.column cimport Arena
from cython_ext.scan_code cimport Field, Literal, MomentPlan, Run
from libc.stdint cimport int64_t, uint8_t

# Reads the whole of [p, end) and writes its values into the run's row; a reason, R_OK where it is good. [p, end) must
# outlive the columns unless the field is idle.
cdef int take_text(const Field* field, Run* run, const uint8_t* p, const uint8_t* end, const uint8_t* safe,
                   Arena arena) except -1 nogil
# Reads a value that knows its own length from the start of [p, end) and leaves the byte behind it in run.place.
cdef int take_self(const Field* field, const Literal* until, Run* run, const uint8_t* p, const uint8_t* end) except -1 nogil
# As take_text, for the inside of a JSON string whose escapes are still to be decoded.
cdef int take_escaped(const Field* field, Run* run, const uint8_t* p, const uint8_t* end, Arena arena) except -1 nogil
cdef void take_null(const Field* field, Run* run) noexcept nogil
# Adds up the times that DATE and CLOCK fields gave; a reason.
cdef int take_moments(const MomentPlan* plans, int count, Run* run) noexcept nogil
# Decodes JSON escapes into `out`, which has room for as many bytes as the text; the byte behind the last one written.
cdef uint8_t* unescape(const uint8_t* p, const uint8_t* end, uint8_t* out) noexcept nogil
