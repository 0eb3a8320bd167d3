"""Lines that are JSON documents (RFC 8259): validated in full, read without building anything.

The wanted paths make a small tree; while a document is read, the tree is walked along, and the value at a wanted place
is noted as a span of bytes. A key met again takes the place of what it held before.
"""

from cython_ext.scan_code cimport *
from cython_ext.scan_number cimport skip_json_number
from cython_ext.scan_value cimport take_escaped, take_moments, take_null, take_text, unescape
from libc.string cimport memcmp

from types import SimpleNamespace

cdef extern from "byte_search.h" nogil:
    const uint8_t* find_json_special(const uint8_t* p, const uint8_t* end, const uint8_t* safe)

cdef enum:
    DEPTH_MAX = 64
    KEY_BYTES_MAX = 1024           # of a wanted key
    ESCAPED_KEY_BYTES_MAX = 6144   # it may be written with six bytes for each

DEPTH_LIMIT = DEPTH_MAX

cdef struct Document:
    const Node* nodes
    Capture* captures
    const uint8_t* p
    const uint8_t* end
    const uint8_t* safe
    int depth


cdef inline int refuse_here(Document* d) noexcept nogil:
    return R_TRUNCATED if d.p == d.end else R_BAD_JSON


cdef inline void skip_space(Document* d) noexcept nogil:
    while d.p < d.end:
        if d.p[0] > c" ":
            return
        if d.p[0] != c" " and d.p[0] != c"\t" and d.p[0] != c"\r" and d.p[0] != c"\n":
            return
        d.p += 1


cdef inline bint is_hex(uint8_t c) noexcept nogil:
    return <uint8_t>(c - 48) <= 9 or c"a" <= (c | 0x20) <= c"f"


cdef int read_escape(Document* d) noexcept nogil:
    # d.p is behind the backslash.
    cdef uint8_t c
    cdef int i
    if d.p == d.end:
        return R_TRUNCATED
    c = d.p[0]
    if c == c"u":
        for i in range(4):
            d.p += 1
            if d.p == d.end or not is_hex(d.p[0]):
                return refuse_here(d)
        d.p += 1
        return R_OK
    if c == c'"' or c == c"\\" or c == c"/" or c == c"b" or c == c"f" or c == c"n" or c == c"r" or c == c"t":
        d.p += 1
        return R_OK
    return R_BAD_JSON


cdef inline int read_string(Document* d, bint* escaped) noexcept nogil:
    # d.p is behind the opening quote, and is left behind the closing one.
    cdef int reason
    escaped[0] = False
    while True:
        d.p = find_json_special(d.p, d.end, d.safe)
        if d.p == d.end:
            return R_TRUNCATED
        if d.p[0] == c'"':
            d.p += 1
            return R_OK
        if d.p[0] != c"\\":
            return R_BAD_JSON
        escaped[0] = True
        d.p += 1
        reason = read_escape(d)
        if reason != R_OK:
            return reason


cdef int read_word(Document* d, const char* word) noexcept nogil:
    cdef int i = 0
    while word[i] != 0:
        if d.p == d.end or d.p[0] != <uint8_t>word[i]:
            return refuse_here(d)
        d.p += 1
        i += 1
    return R_OK


cdef inline void capture(Document* d, int slot, CaptureKind kind, const uint8_t* start, const uint8_t* end) noexcept nogil:
    if slot >= 0:
        d.captures[slot].kind = kind
        d.captures[slot].start = start
        d.captures[slot].end = end


cdef inline void capture_value(Document* d, int node, CaptureKind kind, const uint8_t* start, const uint8_t* end) noexcept nogil:
    if node >= 0:
        capture(d, d.nodes[node].slot, kind, start, end)
        capture(d, d.nodes[node].whole_slot, kind, start, end)


cdef int find_child(Document* d, int node, const uint8_t* key, const uint8_t* end, int* turn) noexcept nogil:
    # The child of that key. Documents of one log mostly have the same order, so the search goes on where it last found.
    cdef const Node* parent = &d.nodes[node]
    cdef const Node* child
    cdef int i, place = turn[0]
    for i in range(parent.count):
        if place >= parent.count:
            place = 0
        child = &d.nodes[parent.first + place]
        place += 1
        if child.key.size == end - key and memcmp(child.key.data, key, end - key) == 0:
            turn[0] = place
            return parent.first + place - 1
    return -1


cdef int find_escaped_child(Document* d, int node, const uint8_t* key, const uint8_t* end, int* turn) noexcept nogil:
    cdef uint8_t decoded[ESCAPED_KEY_BYTES_MAX]
    if end - key > ESCAPED_KEY_BYTES_MAX:
        return -1
    return find_child(d, node, decoded, unescape(key, end, decoded), turn)


cdef int read_member(Document* d, int node, int* turn) noexcept nogil:
    # A key, the colon and its value. d.p is at the key's quote.
    cdef const uint8_t* key
    cdef int child = -1, slot, reason
    cdef bint escaped = False
    if d.p == d.end or d.p[0] != c'"':
        return refuse_here(d)
    d.p += 1
    key = d.p
    reason = read_string(d, &escaped)
    if reason != R_OK:
        return reason
    if node >= 0 and d.nodes[node].count > 0:
        if escaped:
            child = find_escaped_child(d, node, key, d.p - 1, turn)
        else:
            child = find_child(d, node, key, d.p - 1, turn)
    if child >= 0:
        for slot in range(d.nodes[child].low, d.nodes[child].high):
            d.captures[slot].kind = V_ABSENT
    skip_space(d)
    if d.p == d.end or d.p[0] != c":":
        return refuse_here(d)
    d.p += 1
    skip_space(d)
    return read_value(d, child)


cdef int read_object(Document* d, int node) noexcept nogil:
    cdef int reason, turn = 0
    d.p += 1
    skip_space(d)
    if d.p < d.end and d.p[0] == c"}":
        d.p += 1
        return R_OK
    while True:
        reason = read_member(d, node, &turn)
        if reason != R_OK:
            return reason
        skip_space(d)
        if d.p == d.end:
            return R_TRUNCATED
        if d.p[0] == c"}":
            d.p += 1
            return R_OK
        if d.p[0] != c",":
            return R_BAD_JSON
        d.p += 1
        skip_space(d)


cdef int read_array(Document* d, int node) noexcept nogil:
    cdef int reason
    d.p += 1
    skip_space(d)
    if d.p < d.end and d.p[0] == c"]":
        d.p += 1
        return R_OK
    while True:
        reason = read_value(d, node)
        if reason != R_OK:
            return reason
        node = -1
        skip_space(d)
        if d.p == d.end:
            return R_TRUNCATED
        if d.p[0] == c"]":
            d.p += 1
            return R_OK
        if d.p[0] != c",":
            return R_BAD_JSON
        d.p += 1
        skip_space(d)


cdef int read_nested(Document* d, int node) noexcept nogil:
    cdef const uint8_t* start = d.p
    cdef bint is_array = start[0] == c"["
    cdef int reason
    if d.depth == DEPTH_MAX:
        return R_TOO_DEEP
    d.depth += 1
    reason = read_array(d, node) if is_array else read_object(d, node)
    d.depth -= 1
    if reason == R_OK and node >= 0:
        capture(d, d.nodes[node].whole_slot, V_OTHER, start, d.p)
        if not is_array:
            capture(d, d.nodes[node].slot, V_OTHER, start, d.p)
    return reason


cdef int read_value(Document* d, int node) noexcept nogil:
    cdef const uint8_t* start = d.p
    cdef CaptureKind kind = V_OTHER
    cdef int reason
    cdef bint flag = False
    if d.p == d.end:
        return R_TRUNCATED
    if start[0] == c'"':
        d.p += 1
        reason = read_string(d, &flag)
        if reason == R_OK:
            capture_value(d, node, V_ESCAPED if flag else V_STRING, start + 1, d.p - 1)
        return reason
    if start[0] == c"{" or start[0] == c"[":
        return read_nested(d, node)
    if start[0] == c"t":
        reason = read_word(d, b"true")
    elif start[0] == c"f":
        reason = read_word(d, b"false")
    elif start[0] == c"n":
        reason = read_word(d, b"null")
        kind = V_NULL
    else:
        d.p = skip_json_number(d.p, d.end, &flag)
        reason = R_OK if flag else refuse_here(d)
    if reason == R_OK:
        capture_value(d, node, kind, start, d.p)
    return reason


cdef int read_document(Document* d) noexcept nogil:
    cdef bint is_object
    cdef int reason
    cdef const uint8_t* start
    skip_space(d)
    start = d.p
    is_object = d.p < d.end and d.p[0] == c"{"
    reason = read_value(d, 0 if is_object else -1)
    if reason != R_OK:
        return reason
    skip_space(d)
    if d.p < d.end:
        return R_BAD_JSON
    d.p = start
    return R_OK if is_object else R_NOT_OBJECT


class Place:
    """A place in a document while the tree of the wanted paths is built."""

    def __init__(self, key):
        self.key = key
        self.children = {}
        self.slot = self.whole_slot = False

    def descend(self, path):
        place = self
        for key in path:
            place = place.children.setdefault(key, Place(key))
        return place


def open_source(name):
    """What a dotted path that is no declared field stands for: the nested value, else the key with the dots in it.
    A dot behind a backslash belongs to its key."""
    nested = tuple(key.replace("\0", ".") for key in name.replace("\\.", "\0").split("."))
    paths = (nested,) if len(nested) == 1 else (nested, (name.replace("\\.", "."),))
    return SimpleNamespace(
        paths=paths, content=C_TEXT, outputs=(name,), layout=b"", argument=0, dash_null=True, nulls=(), whole=True
    )


def check_overrides(values):
    """An override leaves alone what an earlier value wrote, so there must be one. Raises ValueError."""
    written = set()
    for value in values:
        outputs = {name for name in value.outputs if name is not None}
        sums = int(value.content) in (C_DATE, C_CLOCK)
        if value.overrides and (sums or not outputs <= written):
            raise ValueError(f"no earlier value writes all of {', '.join(sorted(outputs))}, so nothing can override it")
        if not sums:
            written |= outputs


cdef class JsonCode:
    def __init__(self, program, wanted):
        cdef Schema schema
        open_names = [name for name in dict.fromkeys(wanted) if name not in program.fields]
        if open_names and not program.open_fields:
            raise ValueError(f"the format has no field {open_names[0]!r}; it has {', '.join(program.fields)}")
        check_overrides(program.values)
        schema = Schema(program, wanted, open_names)
        self.schema = schema
        sources = [*program.values, *map(open_source, open_names)]
        self.values_count = len(sources)
        self.values = <Value*>schema.memory(self.values_count, sizeof(Value))
        root = Place("")
        places = [self.plan_value(i, sources[i], root) for i in range(self.values_count)]
        self.captures_count = 0
        self.plan_nodes(root)
        for i in range(self.values_count):
            for k, (place, whole) in enumerate(places[i]):
                self.values[i].slots[k] = self.nodes[place.index].whole_slot if whole else self.nodes[place.index].slot
        self.moments = schema.moment_plans()

    def plan_value(self, int index, source, root):
        cdef Value* value = &self.values[index]
        whole = getattr(source, "whole", False)
        self.schema.set_field(&value.field, source)
        if value.field.idle:
            value.slots_count = 0
            return []
        value.slots_count = len(source.paths)
        value.slots = <int*>self.schema.memory(value.slots_count, sizeof(int))
        places = []
        for path in source.paths:
            if not path:
                raise ValueError("a JSON value needs a path of at least one key")
            place = root.descend(path)
            if whole:
                place.whole_slot = True
            else:
                place.slot = True
            places.append((place, whole))
        return places

    def plan_nodes(self, root):
        # Children side by side, captures in depth-first order: the captures below a node are one range.
        cdef Py_ssize_t i
        order = [root]
        for place in order:
            place.first = len(order)
            order.extend(place.children.values())
        self.nodes = <Node*>self.schema.memory(len(order), sizeof(Node))
        for i in range(len(order)):
            order[i].index = i
            self.schema.set_literal(&self.nodes[i].key, order[i].key.encode())
            if self.nodes[i].key.size > KEY_BYTES_MAX:
                raise ValueError(f"a JSON key of more than {KEY_BYTES_MAX} bytes")
            self.nodes[i].first = order[i].first
            self.nodes[i].count = len(order[i].children)
        self.number_captures(root)

    def number_captures(self, place):
        cdef Node* node = &self.nodes[<Py_ssize_t>place.index]
        node.low = self.captures_count
        node.slot = node.whole_slot = -1
        if place.slot:
            node.slot = self.captures_count
            self.captures_count += 1
        if place.whole_slot:
            node.whole_slot = self.captures_count
            self.captures_count += 1
        for child in place.children.values():
            self.number_captures(child)
        node.high = self.captures_count

    cdef int take(self, const Value* value, int index, Run* run, const Capture* captures, Arena arena) except -1 nogil:
        cdef const Capture* found = NULL
        cdef int i, reason
        for i in range(value.slots_count):
            if captures[value.slots[i]].kind > V_NULL:
                found = &captures[value.slots[i]]
                break
        if found == NULL:
            if value.field.required:
                return R_MISMATCH
            if not value.field.overrides:
                take_null(&value.field, run)
            return R_OK
        run.start = found.start
        if found.kind == V_ESCAPED:
            reason = take_escaped(&value.field, run, found.start, found.end, arena)
        else:
            reason = take_text(&value.field, run, found.start, found.end, run.safe, arena)
        if reason != R_OK and value.field.lenient:
            take_null(&value.field, run)
            return R_OK
        if reason != R_OK:
            run.place = found.start
        elif run.marks != NULL:
            run.marks[run.marks_count].step = index
            run.marks[run.marks_count].start = found.start
            run.marks[run.marks_count].end = found.end
            run.marks_count += 1
        return reason

    cdef int read(self, Run* run, Capture* captures, const uint8_t* p, const uint8_t* end, Arena arena) except -1 nogil:
        cdef Document document
        cdef int i, reason
        for i in range(self.captures_count):
            captures[i].kind = V_ABSENT
        document.nodes = self.nodes
        document.captures = captures
        document.p = p
        document.end = end
        document.safe = run.safe
        document.depth = 0
        reason = read_document(&document)
        run.place = document.p
        if reason != R_OK:
            return reason
        for i in range(self.values_count):
            run.place = p
            if not self.values[i].field.idle:
                reason = self.take(&self.values[i], i, run, captures, arena)
                if reason != R_OK:
                    return reason
        if run.moments_count > 0:
            return take_moments(self.moments, run.moments_count, run)
        return R_OK
