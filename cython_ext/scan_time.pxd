# Times of log lines: a layout is compiled once, then read without looking at its text again.
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcmp

cdef enum:
    TIME_OPS_MAX = 64
    CLF_BYTES = 26  # 10/Oct/2000:13:55:36 -0700

cdef enum TimeResult:
    TIME_OK = 0
    TIME_BAD = 1    # no such time
    TIME_SHORT = 2  # the text ended first

cdef extern from *:
    """
    #define SCAN_MICROS_MIN (-62135596800000000LL) /* 0001-01-01T00:00:00Z */
    #define SCAN_MICROS_MAX 253402300799999999LL   /* 9999-12-31T23:59:59.999999Z */
    #define SCAN_SECOND_US 1000000LL
    #define SCAN_DAY_US 86400000000LL
    """
    const int64_t MICROS_MIN "SCAN_MICROS_MIN"
    const int64_t MICROS_MAX "SCAN_MICROS_MAX"
    const int64_t MICROS "SCAN_SECOND_US"
    const int64_t DAY_US "SCAN_DAY_US"

cdef struct TimeLayout:
    uint8_t ops[TIME_OPS_MAX]       # a directive's letter, or 0: the byte in `literals` must stand there
    uint8_t literals[TIME_OPS_MAX]
    int count
    bint fixed     # how long the text is follows from the text itself, so equal bytes are equal times
    bint clf
    bint has_zone  # names an instant by itself, or may (%+)

cdef struct Zone:              # what the clock showed that wrote times without an offset
    int64_t first_us           # offset before the first change
    int count
    int64_t* starts            # by change: the clock's own time from which on its offset holds; increasing
    int64_t* offsets_us

cdef int64_t to_utc(const Zone* zone, int64_t micros) noexcept nogil
cdef int compile_layout(bytes layout, TimeLayout* out) except -1
# Reads one time that starts at p; *stop is the byte behind it, or where it went wrong. *micros is UTC where the text names
# an instant (*zoned), else as on the logged clock.
cdef TimeResult read_layout(const TimeLayout* layout, const uint8_t* p, const uint8_t* end, const uint8_t** stop,
                            int64_t* micros, bint* zoned) noexcept nogil
cdef int64_t days_from_civil(int64_t year, int month, int day) noexcept nogil
