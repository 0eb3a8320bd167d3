"""Lines of columns: runs the steps of a LineProgram over one line after another.

A step finds where its field ends, reads what the field means, and requires the literal behind it; each extent is a
small function that moves the cursor from the field's start to the byte behind the literal.
"""

from cython_ext.scan_code cimport *
from cython_ext.scan_code import STEPS_MAX
from cython_ext.scan_value cimport take_moments, take_null, take_self, take_text
from libc.string cimport memcmp

cdef extern from "byte_search.h" nogil:
    const uint8_t* find_byte(const uint8_t* p, const uint8_t* end, const uint8_t* safe, uint8_t c)
    const uint8_t* find_byte_far(const uint8_t* p, const uint8_t* end, uint8_t c)
    const uint8_t* find_word_end(const uint8_t* p, const uint8_t* end, const uint8_t* safe, uint8_t c)
    uint64_t load_word(const uint8_t* p)


cdef inline bint is_blank(uint8_t c) noexcept nogil:
    return c == c" " or c == c"\t"


# Literals

cdef const uint8_t* skip_slowly(const Literal* literal, bint blank_run, const uint8_t* p, const uint8_t* end,
                                const uint8_t** place) noexcept nogil:
    # Byte by byte; NULL with *place at the first byte that differs (`end`: the text was too short).
    cdef Py_ssize_t i
    for i in range(literal.size):
        if p < end and blank_run and literal.data[i] == c" " and is_blank(p[0]):
            while p < end and is_blank(p[0]):
                p += 1
        elif p < end and p[0] == literal.data[i]:
            p += 1
        else:
            place[0] = p
            return NULL
    return p


cdef inline bint stands(const Literal* literal, const uint8_t* p, const uint8_t* end, const uint8_t* safe) noexcept nogil:
    if end - p < literal.size:
        return False
    if literal.size <= 8 and safe - p >= 8:
        return (load_word(p) ^ literal.word) & literal.mask == 0
    return memcmp(p, literal.data, literal.size) == 0


cdef inline const uint8_t* skip_literal(const Literal* literal, bint blank_run, const uint8_t* p, const uint8_t* end,
                                        const uint8_t* safe, const uint8_t** place) noexcept nogil:
    # The byte behind the literal, NULL with *place where it does not stand at p.
    if not blank_run and stands(literal, p, end, safe):
        return p + literal.size
    return skip_slowly(literal, blank_run, p, end, place)


cdef const uint8_t* find_literal(const Literal* literal, bint blank_run, const uint8_t* p, const uint8_t* end,
                                 const uint8_t* safe, const uint8_t** behind) noexcept nogil:
    # The first place where the whole literal stands, with the byte behind it; `end` and NULL without.
    cdef const uint8_t* place = p
    while True:
        if blank_run and literal.data[0] == c" ":
            p = find_word_end(p, end, safe, c" ")
        else:
            p = find_byte(p, end, safe, literal.data[0])
        if p >= end:
            behind[0] = NULL
            return end
        behind[0] = skip_literal(literal, blank_run, p, end, safe, &place)
        if behind[0] != NULL:
            return p
        p += 1
        if blank_run and literal.data[0] == c" ":
            # The whole run was tried at its first blank: trying again at each of them would take quadratic time.
            while p < end and is_blank(p[0]):
                p += 1


cdef inline int reason_at(const uint8_t* place, const uint8_t* end) noexcept nogil:
    return R_TRUNCATED if place == end else R_MISMATCH


# Extents. Each answers a reason; *stop is the end of the field that starts at p, *behind the byte behind the literal
# that follows, or NULL where the line ended early and may. run.place is where a line stopped matching.

cdef inline int close_field(const Step* step, bint blank_run, Run* run, const uint8_t* stop, const uint8_t* end,
                            const uint8_t** behind) noexcept nogil:
    # Requires the literal right behind the field.
    behind[0] = NULL
    if stop == end and step.may_end:
        return R_OK
    behind[0] = skip_literal(&step.until, blank_run, stop, end, run.safe, &run.place)
    return R_OK if behind[0] != NULL else reason_at(run.place, end)


cdef inline int refuse(Run* run, const uint8_t* place, int reason) noexcept nogil:
    run.place = place
    return reason


cdef inline int find_text(const Step* step, bint blank_run, Run* run, const uint8_t* p, const uint8_t* end,
                   const uint8_t** stop, const uint8_t** behind) noexcept nogil:
    if step.until.size == 0:
        stop[0] = end
        return close_field(step, blank_run, run, end, end, behind)
    stop[0] = find_literal(&step.until, blank_run, p, end, run.safe, behind)
    if behind[0] == NULL and not step.may_end:
        return refuse(run, p, R_TRUNCATED)
    return R_OK


cdef inline int find_word(const Step* step, bint blank_run, Run* run, const uint8_t* p, const uint8_t* end,
                          const uint8_t** stop, const uint8_t** behind) noexcept nogil:
    cdef const uint8_t* q = p
    cdef uint8_t first = step.until.data[0] if step.until.size > 0 else c" "
    while True:
        q = find_word_end(q, end, run.safe, first)
        stop[0] = q
        behind[0] = NULL
        if q == end:
            if q > p:
                if step.may_end:
                    return R_OK
                if step.until.size == 0:
                    behind[0] = q
                    return R_OK
            return refuse(run, p, R_TRUNCATED)
        behind[0] = skip_literal(&step.until, blank_run, q, end, run.safe, &run.place)
        if behind[0] != NULL:
            return R_OK if q > p else refuse(run, p, R_MISMATCH)
        if is_blank(q[0]):
            return reason_at(run.place, end) if q > p else refuse(run, p, R_MISMATCH)
        q += 1


cdef inline const uint8_t* find_quote(const uint8_t* p, const uint8_t* end, uint8_t quote) noexcept nogil:
    # The first quote with an even number of backslashes in front of it, or `end`.
    cdef const uint8_t* q = p
    cdef const uint8_t* slashes
    while True:
        q = find_byte_far(q, end, quote)
        if q == end:
            return end
        slashes = q
        while slashes > p and (slashes - 1)[0] == c"\\":
            slashes -= 1
        if (q - slashes) % 2 == 0:
            return q
        q += 1


cdef inline int find_quoted(const Step* step, bint blank_run, Run* run, const uint8_t* p, const uint8_t* end,
                            const uint8_t** stop, const uint8_t** behind) noexcept nogil:
    cdef const uint8_t* q = find_quote(p, end, step.until.data[0])
    if q == end:
        return refuse(run, p, R_TRUNCATED)
    stop[0] = q
    if q + 1 == end and step.may_end:
        behind[0] = NULL
        return R_OK
    return close_field(step, blank_run, run, q, end, behind)


cdef int find_maybe_quoted(const Step* step, bint blank_run, Run* run, const uint8_t* p, const uint8_t* end,
                           const uint8_t** start, const uint8_t** stop, const uint8_t** behind) noexcept nogil:
    start[0] = p
    if p == end or p[0] != c'"':
        return find_word(step, blank_run, run, p, end, stop, behind)
    start[0] = p + 1
    stop[0] = find_quote(p + 1, end, c'"')
    if stop[0] == end:
        return refuse(run, p, R_TRUNCATED)
    return close_field(step, blank_run, run, stop[0] + 1, end, behind)


cdef int find_list(const Step* step, bint blank_run, Run* run, const uint8_t* p, const uint8_t* end,
                   const uint8_t** stop, const uint8_t** behind) noexcept nogil:
    cdef const uint8_t* q = p
    if step.until.size == 0 or step.until.data[0] != c" ":
        return find_text(step, blank_run, run, p, end, stop, behind)
    while True:
        q = find_literal(&step.until, blank_run, q, end, run.safe, behind)
        stop[0] = q
        if behind[0] == NULL:
            return R_OK if step.may_end else refuse(run, p, R_TRUNCATED)
        if not joins(q, p, end):
            return R_OK
        q += 1


cdef inline int find_name(const Step* step, bint blank_run, Run* run, const uint8_t* p, const uint8_t* end,
                          const uint8_t** stop, const uint8_t** behind) noexcept nogil:
    cdef int reason
    cdef const Literal* until = &step.until
    if end - p >= 2 and p[0] == c"-":
        if until.size > 0 and stands(until, p + 1, end, run.safe):
            if not blank_run and until.data[0] != c"-":  # nobody, as in most lines
                stop[0] = p + 1
                behind[0] = p + 1 + until.size
                return R_OK
        elif p[1] == c" ":
            return refuse(run, p, R_MISMATCH)
    reason = find_text(step, blank_run, run, p, end, stop, behind)
    if reason != R_OK or stop[0] == p:
        return reason
    if p[0] == c'"' or (stop[0] - p > 1 and find_quote(p, stop[0], c'"') != stop[0]):
        return refuse(run, p, R_MISMATCH)
    return R_OK


cdef inline bint ends_in_protocol(const uint8_t* p, const uint8_t* end) noexcept nogil:
    # Whether the text ends in a blank and HTTP/d or HTTP/d.d.
    if end - p < 7 or <uint8_t>((end - 1)[0] - 48) > 9:
        return False
    if memcmp(end - 7, b" HTTP/", 6) == 0:
        return True
    return end - p >= 9 and memcmp(end - 9, b" HTTP/", 6) == 0 and <uint8_t>((end - 3)[0] - 48) <= 9 and (end - 2)[0] == c"."


cdef int find_request(const Step* step, bint blank_run, Run* run, const uint8_t* p, const uint8_t* end,
                      const uint8_t** stop, const uint8_t** behind) noexcept nogil:
    cdef const uint8_t* q = p
    if step.until.size > 0 and not (end > p and p[0] == c"-"):
        while True:
            stop[0] = q = find_literal(&step.until, blank_run, q, end, run.safe, behind)
            if behind[0] == NULL:
                break
            if ends_in_protocol(p, q):
                return R_OK
            q += 1
    return find_text(step, blank_run, run, p, end, stop, behind)


cdef inline bint joins(const uint8_t* blank, const uint8_t* start, const uint8_t* end) noexcept nogil:
    # Whether the blank is one of those in `a, b` and `a : b`.
    if blank > start and (blank - 1)[0] == c",":
        return True
    if blank - start >= 2 and (blank - 1)[0] == c":" and (blank - 2)[0] == c" ":
        return True
    return end - blank >= 3 and blank[1] == c":" and blank[2] == c" "


cdef int find_braces(const Step* step, bint blank_run, Run* run, const uint8_t* p, const uint8_t* end,
                     const uint8_t** stop, const uint8_t** behind) noexcept nogil:
    # p is behind the opening brace; `until` may start with the closing one or follow it.
    cdef int reason
    if step.until.size > 0 and step.until.data[0] == c"}":
        stop[0] = find_literal(&step.until, blank_run, p, end, run.safe, behind)
        if behind[0] == NULL:
            if not step.may_end or end == p or (end - 1)[0] != c"}":
                return refuse(run, p - 1, R_TRUNCATED)
            stop[0] = end - 1
        reason = R_OK
    else:
        stop[0] = find_byte(p, end, run.safe, c"}")
        if stop[0] == end:
            return refuse(run, p - 1, R_TRUNCATED)
        reason = close_field(step, blank_run, run, stop[0] + 1, end, behind)
    if reason == R_OK and find_byte(p, stop[0], run.safe, c"{") < stop[0]:
        return refuse(run, p - 1, R_MISMATCH)
    return reason


cdef const uint8_t* find_header_end(const uint8_t* p, const uint8_t* end, const uint8_t* safe) noexcept nogil:
    # Behind the first "]: "; p without.
    cdef const uint8_t* q = p
    while True:
        q = find_byte(q, end, safe, c"]")
        if end - q < 3:
            return p
        if q[1] == c":" and q[2] == c" ":
            return q + 3
        q += 1


cdef int find_optional(const Step* step, bint blank_run, Run* run, const uint8_t* p, const uint8_t* end,
                       const uint8_t** start, const uint8_t** stop, const uint8_t** behind) noexcept nogil:
    # BRACES and SYSLOG: *start is NULL where the field is not there.
    start[0] = NULL
    stop[0] = p
    if step.extent == E_BRACES:
        if p == end or p[0] != c"{":
            behind[0] = p
            if p == end and step.may_end:
                behind[0] = NULL
            return R_OK
        start[0] = p + 1
        return find_braces(step, blank_run, run, p + 1, end, stop, behind)
    stop[0] = find_header_end(p, end, run.safe)
    if stop[0] > p:
        start[0] = p
    return close_field(step, blank_run, run, stop[0], end, behind)


cdef void mark(Run* run, int step, const uint8_t* start, const uint8_t* stop) noexcept nogil:
    run.marks[run.marks_count].step = step
    run.marks[run.marks_count].start = start
    run.marks[run.marks_count].end = stop
    run.marks_count += 1


cdef class LineCode:
    def __init__(self, program, wanted):
        cdef Schema schema = Schema(program, wanted)
        cdef Step* step
        cdef Py_ssize_t i, count = len(program.steps)
        if count > STEPS_MAX or (count == 0 and not program.directives):
            raise ValueError(f"a format of {count} steps; it takes 1 to {STEPS_MAX}")
        if not 0 <= program.required <= count:
            raise ValueError(f"{program.required} required steps of {count}")
        self.schema = schema
        self.steps = <Step*>schema.memory(count, sizeof(Step))
        self.steps_count = count
        for i in range(count):
            step = &self.steps[i]
            source = program.steps[i]
            schema.set_field(&step.field, source)
            schema.set_literal(&step.until, source.until)
            step.extent = int(source.extent)
            step.may_end = 0 < program.required <= i + 1
            if not E_TEXT <= step.extent <= E_REQUEST:
                raise ValueError(f"unknown extent {source.extent!r}")
            if step.extent == E_QUOTED and step.until.size == 0:
                raise ValueError("a quoted field needs the closing quote in `until`")
            if step.extent == E_SELF and not C_INTEGER <= step.field.content <= C_FLOAT:
                raise ValueError(f"{source.content!r} does not know its own length")
        schema.set_literal(&self.prefix, program.prefix)
        self.moments = schema.moment_plans()
        self.blank_run = bool(program.blank_run)
        self.open_end = bool(program.open_end)
        self.directives = bool(program.directives)

    cdef int read(self, Run* run, const uint8_t* p, const uint8_t* end, Arena arena) except -1 nogil:
        cdef const Step* step
        cdef const uint8_t* start
        cdef const uint8_t* stop = p
        cdef const uint8_t* behind = NULL
        cdef int i, reason
        cdef bint blank_run = self.blank_run
        if self.steps_count == 0:
            return refuse(run, p, R_NO_FIELDS)
        if self.prefix.size > 0:
            p = skip_literal(&self.prefix, blank_run, p, end, run.safe, &run.place)
            if p == NULL:
                return reason_at(run.place, end)
        for i in range(self.steps_count):
            step = &self.steps[i]
            start = run.start = p
            if step.extent == E_SELF:
                reason = take_self(&step.field, &step.until, run, p, end)
                if reason != R_OK:
                    return refuse(run, p, reason)
                stop = run.place
                reason = close_field(step, blank_run, run, stop, end, &behind)
            elif step.extent == E_WORD:
                reason = find_word(step, blank_run, run, p, end, &stop, &behind)
            elif step.extent == E_QUOTED:
                reason = find_quoted(step, blank_run, run, p, end, &stop, &behind)
            elif step.extent == E_TEXT:
                reason = find_text(step, blank_run, run, p, end, &stop, &behind)
            elif step.extent == E_NAME:
                reason = find_name(step, blank_run, run, p, end, &stop, &behind)
            elif step.extent == E_REQUEST:
                reason = find_request(step, blank_run, run, p, end, &stop, &behind)
            elif step.extent == E_MAYBE_QUOTED:
                reason = find_maybe_quoted(step, blank_run, run, p, end, &start, &stop, &behind)
            elif step.extent == E_LIST:
                reason = find_list(step, blank_run, run, p, end, &stop, &behind)
            else:
                reason = find_optional(step, blank_run, run, p, end, &start, &stop, &behind)
            if reason != R_OK:
                return reason
            if start == NULL:
                take_null(&step.field, run)
                start = p
            elif step.extent != E_SELF and not step.field.idle:
                run.start = start
                reason = take_text(&step.field, run, start, stop, run.safe, arena)
                if reason != R_OK:
                    return refuse(run, start, reason)
            if run.marks != NULL:
                mark(run, i, start, stop)
            if behind == NULL:
                return self.finish(run, i + 1)
            p = behind
        if p < end:
            step = &self.steps[self.steps_count - 1]
            if not self.open_end or (step.until.size == 0 and not is_blank(p[0])):
                return refuse(run, p, R_TRAILING)
        return self.finish(run, self.steps_count)

    cdef int finish(self, Run* run, int done) noexcept nogil:
        # The steps that an early end left out are NULL.
        cdef int i
        for i in range(done, self.steps_count):
            take_null(&self.steps[i].field, run)
        if run.moments_count > 0:
            return take_moments(self.moments, run.moments_count, run)
        return R_OK
