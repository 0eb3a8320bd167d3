# Numbers of log lines. Each reads from p; *stop is the byte behind the number, or where it went wrong. They answer a
# reason of scan_code: R_OK, R_BAD_NUMBER, R_BAD_STATUS or R_OVERFLOW.
from libc.stdint cimport int64_t, uint8_t

cdef int parse_integer(const uint8_t* p, const uint8_t* end, const uint8_t** stop, int64_t* value) noexcept nogil
# `prefix`: a fourth digit belongs to what follows.
cdef int parse_status(const uint8_t* p, const uint8_t* end, bint prefix, const uint8_t** stop,
                      int64_t* value) noexcept nogil
cdef int parse_timer(const uint8_t* p, const uint8_t* end, const uint8_t** stop, int64_t* value,
                     bint* negative) noexcept nogil
# `power`: of ten, from the logged unit to the millionths that *value counts.
cdef int parse_decimal(const uint8_t* p, const uint8_t* end, int power, const uint8_t** stop, int64_t* value,
                       bint* negative) noexcept nogil
cdef int parse_float(const uint8_t* p, const uint8_t* end, const uint8_t** stop, double* value) except -1 nogil
# Also the grammar of JSON numbers: the byte behind it, or where it went wrong with *good False.
cdef const uint8_t* skip_json_number(const uint8_t* p, const uint8_t* end, bint* good) noexcept nogil
