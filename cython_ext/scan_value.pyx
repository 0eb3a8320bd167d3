"""What the text of a field means: texts, requests, addresses, numbers, times.

All functions here look at one field, [p, end), and write at most one row. Strings stay where they are in the block
unless bytes must change: JSON escapes, and bytes that are no UTF-8, which become \\xHH.
"""

from cython_ext.column cimport StringRef, i128_from_i64, i128
from cython_ext.scan_code cimport *
from cython_ext.scan_number cimport parse_decimal, parse_float, parse_integer, parse_status, parse_timer
from cython_ext.scan_time cimport MICROS_MAX, MICROS_MIN, TIME_OK, TIME_SHORT, read_layout, to_utc
from libc.string cimport memcmp, memcpy

cdef extern from "byte_search.h" nogil:
    const uint8_t* find_high(const uint8_t* p, const uint8_t* end, const uint8_t* safe)
    const uint8_t* find_byte_far(const uint8_t* p, const uint8_t* end, uint8_t c)

cdef extern from *:
    """
    /* tchar of RFC 9110: what a method is made of. */
    static const uint8_t scan_token[256] = {
        ['!'] = 1, ['#'] = 1, ['$'] = 1, ['%'] = 1, ['&'] = 1, ['\\''] = 1, ['*'] = 1, ['+'] = 1, ['-'] = 1, ['.'] = 1,
        ['^'] = 1, ['_'] = 1, ['`'] = 1, ['|'] = 1, ['~'] = 1, ['0' ... '9'] = 1, ['A' ... 'Z'] = 1, ['a' ... 'z'] = 1};
    static const char scan_hex[] = "0123456789abcdef";
    """
    const uint8_t* TOKEN "scan_token"
    const char* HEX "scan_hex"


cdef inline uint8_t* room(Arena arena, size_t size) except NULL nogil:
    if arena.cursor == NULL or size > arena.left:
        return <uint8_t*>arena.grow(size)
    return <uint8_t*>arena.cursor


cdef inline void put_null(Run* run, int sink) noexcept nogil:
    if sink >= 0:
        run.sinks[sink].valid[run.row] = 0


cdef inline void put_long(Run* run, int sink, int64_t value) noexcept nogil:
    if sink >= 0:
        (<int64_t*>run.sinks[sink].data)[run.row] = value
        run.sinks[sink].valid[run.row] = 1


cdef int sequence_size(const uint8_t* p, const uint8_t* end) noexcept nogil:
    # Bytes of the well-formed UTF-8 sequence at p, 0 when there is none (The Unicode Standard, table 3-7).
    cdef uint8_t lead = p[0], low = 0x80, high = 0xBF
    cdef int size, i
    if lead < 0x80:
        return 1
    if lead < 0xC2 or lead > 0xF4:
        return 0
    size = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
    if end - p < size:
        return 0
    if lead == 0xE0:
        low = 0xA0
    elif lead == 0xED:
        high = 0x9F
    elif lead == 0xF0:
        low = 0x90
    elif lead == 0xF4:
        high = 0x8F
    if p[1] < low or p[1] > high:
        return 0
    for i in range(2, size):
        if p[i] < 0x80 or p[i] > 0xBF:
            return 0
    return size


cdef const uint8_t* find_ill_formed(const uint8_t* p, const uint8_t* end) noexcept nogil:
    cdef int size
    while p < end:
        size = sequence_size(p, end)
        if size == 0:
            return p
        p += size
    return end


cdef uint8_t* escape_ill_formed(const uint8_t* p, const uint8_t* end, uint8_t* out) noexcept nogil:
    # Copies, with each byte that is no UTF-8 as \xHH. Needs four bytes of room for each.
    cdef int size
    while p < end:
        size = sequence_size(p, end)
        if size == 0:
            out[0], out[1], out[2], out[3] = c"\\", c"x", HEX[p[0] >> 4], HEX[p[0] & 15]
            out += 4
            p += 1
        else:
            memcpy(out, p, size)
            out += size
            p += size
    return out


def escape_bytes(bytes text):
    """`text` with each byte that is no UTF-8 written as \\xHH: what a string column holds for it."""
    cdef const uint8_t* p = <const uint8_t*><const char*>text
    cdef bytearray out = bytearray(4 * len(text) + 1)
    cdef uint8_t* start = <uint8_t*><char*>out
    cdef uint8_t* stop = escape_ill_formed(p, p + len(text), start)
    return bytes(out[: stop - start])


cdef int put_odd_string(Run* run, StringRef* ref, const uint8_t* p, const uint8_t* end, const uint8_t* high,
                        Arena arena) except -1 nogil:
    # A string with bytes >= 0x80, the first at `high`.
    cdef uint8_t* out
    cdef uint8_t* stop
    if find_ill_formed(high, end) == end:
        return 0
    out = room(arena, 4 * <size_t>(end - p))
    stop = escape_ill_formed(p, end, out)
    arena.commit(stop - out)
    ref.data = <const char*>out
    ref.size = <uint32_t>(stop - out)
    return 0


cdef inline int put_string(Run* run, int sink, const uint8_t* p, const uint8_t* end, const uint8_t* safe,
                           Arena arena) except -1 nogil:
    cdef StringRef* ref
    cdef const uint8_t* high
    if sink < 0:
        return 0
    ref = (<StringRef*>run.sinks[sink].data) + run.row
    ref.data = <const char*>p
    ref.size = <uint32_t>(end - p)
    ref.reserved = 0
    run.sinks[sink].valid[run.row] = 1
    high = find_high(p, end, safe)
    if high != end:
        put_odd_string(run, ref, p, end, high, arena)
    return 0


cdef void take_null(const Field* field, Run* run) noexcept nogil:
    cdef int i
    if field.moment >= 0:  # a part is missing: the sum of parts stays NULL
        return
    if field.single:
        put_null(run, field.outputs[0])
        return
    for i in range(ROLES_MAX):
        put_null(run, field.outputs[i])


# Requests and targets

cdef int put_target(const int* outputs, Run* run, const uint8_t* p, const uint8_t* end, const uint8_t* safe,
                    Arena arena) except -1 nogil:
    # uri, path, query: the three roles from outputs[0].
    cdef const uint8_t* mark
    put_string(run, outputs[0], p, end, safe, arena)
    if outputs[1] < 0 and outputs[2] < 0:
        return 0
    mark = find_byte_far(p, end, c"?")
    put_string(run, outputs[1], p, mark, safe, arena)
    if mark < end:
        put_string(run, outputs[2], mark + 1, end, safe, arena)
    else:
        put_null(run, outputs[2])
    return 0


cdef inline bint is_digit(uint8_t c) noexcept nogil:
    return <uint8_t>(c - 48) <= 9


cdef inline const uint8_t* protocol_start(const uint8_t* p, const uint8_t* end) noexcept nogil:
    # Where the final HTTP/d.d, HTTP/d or HTTP d.d starts if a blank is in front of it; NULL without. p: end of the method.
    if end - p >= 10 and (end - 9)[0] == c" " and memcmp(end - 8, b"HTTP", 4) == 0:
        if (end - 4)[0] == c"/" or (end - 4)[0] == c" ":
            if is_digit((end - 3)[0]) and (end - 2)[0] == c"." and is_digit((end - 1)[0]):
                return end - 8
    if end - p >= 8 and (end - 7)[0] == c" " and memcmp(end - 6, b"HTTP/", 5) == 0 and is_digit((end - 1)[0]):
        return end - 6
    return NULL


cdef int put_request(const Field* field, Run* run, const uint8_t* p, const uint8_t* end, const uint8_t* safe,
                     Arena arena) except -1 nogil:
    cdef const uint8_t* method_end = p
    cdef const uint8_t* protocol
    cdef int i
    put_string(run, field.outputs[0], p, end, safe, arena)
    if field.single:
        return 0
    while method_end < end and TOKEN[method_end[0]]:
        method_end += 1
    if method_end > p and end - method_end >= 2 and method_end[0] == c" ":
        protocol = protocol_start(method_end, end)
        if protocol != NULL and protocol - method_end >= 3:
            put_string(run, field.outputs[1], p, method_end, safe, arena)
            put_target(&field.outputs[2], run, method_end + 1, protocol - 1, safe, arena)
            return put_string(run, field.outputs[5], protocol, end, safe, arena)
        if find_byte_far(method_end + 1, end, c" ") == end:
            put_string(run, field.outputs[1], p, method_end, safe, arena)
            put_null(run, field.outputs[5])
            return put_target(&field.outputs[2], run, method_end + 1, end, safe, arena)
    for i in range(1, ROLES_MAX):
        put_null(run, field.outputs[i])
    return 0


cdef inline bint is_dash(const Field* field, const uint8_t* p, const uint8_t* end) noexcept nogil:
    return field.dash_null and end - p == 1 and p[0] == c"-"


cdef int put_address(const Field* field, Run* run, const uint8_t* p, const uint8_t* end, const uint8_t* safe,
                     Arena arena) except -1 nogil:
    # The last colon separates the port, if what follows it is one.
    cdef const uint8_t* colon = end
    cdef int port = 0, count = 0, scale = 1
    while colon > p and count < 5 and is_digit((colon - 1)[0]):
        colon -= 1
        port += (colon[0] - 48) * scale
        scale *= 10
        count += 1
    if count == 0 or colon == p or (colon - 1)[0] != c":" or port > 65535:
        put_null(run, field.outputs[1])
        return put_string(run, field.outputs[0], p, end, safe, arena)
    put_long(run, field.outputs[1], port)
    return put_string(run, field.outputs[0], p, colon - 1, safe, arena)


cdef const uint8_t* target_start(const uint8_t* p, const uint8_t* end) noexcept nogil:
    # Where the target behind a host starts; `end` where there is none.
    cdef const uint8_t* q = p
    while q < end and q[0] != c"/" and q[0] != c"?":
        q += 1
    return end - 1 if q == end and end > p and (end - 1)[0] == c"*" else q


cdef int put_location(const Field* field, Run* run, const uint8_t* p, const uint8_t* end, const uint8_t* safe,
                      Arena arena) except -1 nogil:
    cdef const uint8_t* stop = target_start(p, end)
    cdef int i
    if stop < end:
        put_target(&field.outputs[2], run, stop, end, safe, arena)
    else:
        for i in range(2, 5):
            put_null(run, field.outputs[i])
        if field.dash_null and end > p and (end - 1)[0] == c"-":  # a target that is missing
            stop = end - 1
    if is_dash(field, p, stop):
        put_null(run, field.outputs[0])
        put_null(run, field.outputs[1])
        return 0
    if field.argument != 0:
        return put_address(field, run, p, stop, safe, arena)
    put_null(run, field.outputs[1])
    return put_string(run, field.outputs[0], p, stop, safe, arena)


# Values that know their own length: each reads from p and leaves the byte behind it in run.place

cdef int read_time(const Field* field, Run* run, const uint8_t* p, const uint8_t* end, int64_t* micros) noexcept nogil:
    cdef Memo* memo = NULL
    cdef int result
    cdef bint zoned = False
    if field.memo >= 0 and field.layout.fixed:
        memo = &run.memos[field.memo]
        if memo.size > 0 and end - p >= memo.size and memcmp(p, memo.text, memo.size) == 0:
            run.place = p + memo.size
            micros[0] = memo.value
            return R_OK
    result = read_layout(field.layout, p, end, &run.place, micros, &zoned)
    if result != TIME_OK:
        return R_TRUNCATED if result == TIME_SHORT else R_BAD_TIME
    if field.moment >= 0:
        return R_OK
    if not zoned:
        micros[0] = to_utc(field.zone, micros[0])
    if micros[0] < MICROS_MIN or micros[0] > MICROS_MAX:
        return R_BAD_TIME
    if memo != NULL and run.place - p <= MEMO_BYTES:
        memo.size = <int>(run.place - p)
        memo.value = micros[0]
        memcpy(memo.text, p, memo.size)
    return R_OK


cdef int take_time(const Field* field, Run* run, const uint8_t* p, const uint8_t* end) noexcept nogil:
    cdef int64_t micros = 0
    cdef int reason = read_time(field, run, p, end, &micros)
    if reason != R_OK:
        return reason
    if field.moment < 0:
        put_long(run, field.outputs[0], micros)
        return R_OK
    run.moments[field.moment].value += micros
    run.moments[field.moment].parts += 1
    run.moments[field.moment].place = run.start
    return R_OK


cdef int take_moments(const MomentPlan* plans, int count, Run* run) noexcept nogil:
    cdef int i
    cdef int64_t value
    for i in range(count):
        if run.moments[i].parts != plans[i].parts:
            put_null(run, plans[i].sink)
            continue
        value = run.moments[i].value
        if plans[i].zone != NULL:
            value = to_utc(plans[i].zone, value)
        if value < MICROS_MIN or value > MICROS_MAX:
            run.place = run.moments[i].place
            return R_BAD_TIME
        put_long(run, plans[i].sink, value)
    return R_OK


cdef int take_flag(const Field* field, Run* run, const uint8_t* p, const uint8_t* end) noexcept nogil:
    cdef int sink = field.outputs[0]
    cdef bint value
    if end - p >= 4 and memcmp(p, b"true", 4) == 0:
        value = True
        run.place = p + 4
    elif end - p >= 5 and memcmp(p, b"false", 5) == 0:
        value = False
        run.place = p + 5
    else:
        run.place = p
        return R_MISMATCH
    if sink >= 0:
        (<uint8_t*>run.sinks[sink].data)[run.row] = value
        run.sinks[sink].valid[run.row] = 1
    return R_OK


cdef int take_float(const Field* field, Run* run, const uint8_t* p, const uint8_t* end) except -1 nogil:
    cdef double value = 0
    cdef int reason = parse_float(p, end, &run.place, &value)
    if reason == R_OK and field.outputs[0] >= 0:
        (<double*>run.sinks[field.outputs[0]].data)[run.row] = value
        run.sinks[field.outputs[0]].valid[run.row] = 1
    return reason


cdef int take_number(const Field* field, Run* run, const uint8_t* p, const uint8_t* end) except -1 nogil:
    cdef int64_t value = 0
    cdef bint negative = False
    cdef int reason, sink = field.outputs[0]
    if field.content == C_INTEGER:
        reason = parse_integer(p, end, &run.place, &value)
    elif field.content == C_STATUS:
        reason = parse_status(p, end, field.argument != 0, &run.place, &value)
    elif field.content == C_TIMER:
        reason = parse_timer(p, end, &run.place, &value, &negative)
    else:
        reason = parse_decimal(p, end, field.argument, &run.place, &value, &negative)
        if reason == R_OK and sink >= 0 and not negative:
            (<i128*>run.sinks[sink].data)[run.row] = i128_from_i64(value)
            run.sinks[sink].valid[run.row] = 1
            return R_OK
    if reason == R_OK:
        if negative:
            put_null(run, sink)
        else:
            put_long(run, sink, value)
    return reason


cdef int take_value(const Field* field, Run* run, const uint8_t* p, const uint8_t* end) except -1 nogil:
    # A value at the start of [p, end); run.place is the byte behind it, or the place where reading stopped.
    cdef int content = field.content
    if content == C_TIME or content == C_DATE or content == C_CLOCK:
        return take_time(field, run, p, end)
    if content == C_FLAG:
        return take_flag(field, run, p, end)
    if content == C_FLOAT:
        return take_float(field, run, p, end)
    return take_number(field, run, p, end)


cdef int reason_of(int content) noexcept nogil:
    # Why a text is refused that starts with a good value but goes on.
    if content == C_TIME or content == C_DATE or content == C_CLOCK:
        return R_BAD_TIME
    if content == C_STATUS:
        return R_BAD_STATUS
    return R_MISMATCH if content == C_FLAG else R_BAD_NUMBER


cdef inline bint is_null_text(const Field* field, const uint8_t* p, const uint8_t* end) noexcept nogil:
    cdef int i
    if is_dash(field, p, end):
        return True
    for i in range(field.nulls_count):
        if end - p == field.nulls[i].size and memcmp(p, field.nulls[i].data, end - p) == 0:
            return True
    return False


cdef int take_text(const Field* field, Run* run, const uint8_t* p, const uint8_t* end, const uint8_t* safe,
                   Arena arena) except -1 nogil:
    cdef int content = field.content, reason
    if field.idle:
        return R_OK
    if field.json_escaped and find_byte_far(p, end, c"\\") != end:
        return take_escaped(field, run, p, end, arena)
    if is_null_text(field, p, end):
        take_null(field, run)
        return R_OK
    if content == C_TEXT:
        return put_string(run, field.outputs[0], p, end, safe, arena)
    if content == C_REQUEST:
        return put_request(field, run, p, end, safe, arena)
    if content == C_URI:
        return put_target(&field.outputs[0], run, p, end, safe, arena)
    if content == C_ADDRESS_PORT:
        return put_address(field, run, p, end, safe, arena)
    if content == C_LOCATION:
        return put_location(field, run, p, end, safe, arena)
    if content == C_URI_STEM:
        put_string(run, field.outputs[0], p, end, safe, arena)
        return put_string(run, field.outputs[1], p, end, safe, arena)
    reason = take_value(field, run, p, end)
    if reason == R_OK and run.place != end:
        reason = reason_of(content)
        if field.moment >= 0:  # it was no time after all
            run.moments[field.moment].parts -= 1
    if reason == R_TRUNCATED:  # the field ended, not the line
        reason = reason_of(content)
    return reason


cdef int take_escaped(const Field* field, Run* run, const uint8_t* p, const uint8_t* end, Arena arena) except -1 nogil:
    cdef Field plain
    cdef uint8_t* text
    cdef uint8_t* stop
    if field.idle:
        return R_OK
    text = room(arena, <size_t>(end - p))
    stop = unescape(p, end, text)
    arena.commit(stop - text)
    plain = field[0]
    plain.json_escaped = False
    return take_text(&plain, run, text, stop, stop, arena)


cdef int take_self(const Field* field, const Literal* until, Run* run, const uint8_t* p, const uint8_t* end) except -1 nogil:
    cdef int i, reason
    cdef Py_ssize_t size, left
    if p == end:
        run.place = p
        return R_TRUNCATED
    if p[0] == c"-" and field.dash_null:
        if end - p == 1 or not is_digit(p[1]):
            run.place = p + 1
            take_null(field, run)
            return R_OK
    for i in range(field.nulls_count):
        size = field.nulls[i].size
        left = end - p - size
        if left >= 0 and memcmp(p, field.nulls[i].data, size) == 0:
            if left == 0 or p[size] == c" " or p[size] == c"\t" or (until.size > 0 and p[size] == until.data[0]):
                run.place = p + size
                take_null(field, run)
                return R_OK
    reason = take_value(field, run, p, end)
    if (reason == R_BAD_NUMBER or reason == R_BAD_STATUS) and run.place == end:
        reason = R_TRUNCATED
    return reason


# JSON escapes

cdef inline int hex_value(uint8_t c) noexcept nogil:
    if is_digit(c):
        return c - 48
    c |= 0x20
    return c - 87 if c"a" <= c <= c"f" else -1


cdef int unicode_escape(const uint8_t* p, const uint8_t* end) noexcept nogil:
    # The code unit of the \uHHHH at p, -1 when there is none.
    cdef int i, digit, value = 0
    if end - p < 6 or p[0] != c"\\" or p[1] != c"u":
        return -1
    for i in range(2, 6):
        digit = hex_value(p[i])
        if digit < 0:
            return -1
        value = value * 16 + digit
    return value


cdef uint8_t* write_code_point(uint8_t* out, uint32_t code) noexcept nogil:
    if code < 0x80:
        out[0] = <uint8_t>code
        return out + 1
    if code < 0x800:
        out[0] = <uint8_t>(0xC0 | (code >> 6))
        out[1] = <uint8_t>(0x80 | (code & 0x3F))
        return out + 2
    if code < 0x10000:
        out[0] = <uint8_t>(0xE0 | (code >> 12))
        out[1] = <uint8_t>(0x80 | ((code >> 6) & 0x3F))
        out[2] = <uint8_t>(0x80 | (code & 0x3F))
        return out + 3
    out[0] = <uint8_t>(0xF0 | (code >> 18))
    out[1] = <uint8_t>(0x80 | ((code >> 12) & 0x3F))
    out[2] = <uint8_t>(0x80 | ((code >> 6) & 0x3F))
    out[3] = <uint8_t>(0x80 | (code & 0x3F))
    return out + 4


cdef inline int simple_escape(uint8_t c) noexcept nogil:  # what a backslash and c stand for, -1: nothing
    if c == c'"' or c == c"\\" or c == c"/":
        return c
    if c == c"b":
        return 8
    if c == c"f":
        return 12
    if c == c"n":
        return 10
    if c == c"r":
        return 13
    if c == c"t":
        return 9
    return -1


cdef uint8_t* unescape(const uint8_t* p, const uint8_t* end, uint8_t* out) noexcept nogil:
    # A lone surrogate, and a backslash that starts no escape, stay as they are. Never longer than the text.
    cdef int unit, low, simple
    while p < end:
        if p[0] != c"\\" or end - p < 2:
            out[0] = p[0]
            out += 1
            p += 1
            continue
        simple = simple_escape(p[1])
        unit = unicode_escape(p, end)
        if simple >= 0:
            out[0] = <uint8_t>simple
            out += 1
            p += 2
        elif unit < 0:
            out[0] = p[0]
            out += 1
            p += 1
        elif unit < 0xD800 or unit > 0xDFFF:
            out = write_code_point(out, <uint32_t>unit)
            p += 6
        else:
            low = unicode_escape(p + 6, end) if unit < 0xDC00 else -1
            if 0xDC00 <= low <= 0xDFFF:
                out = write_code_point(out, 0x10000 + ((<uint32_t>unit - 0xD800) << 10) + <uint32_t>(low - 0xDC00))
                p += 12
            else:
                memcpy(out, p, 6)
                out += 6
                p += 6
    return out
