"""From a scan program (plain data, job.formats.program) to the C structs that the scan kernel runs.

Everything is copied; the program is not looked at again. What cannot be run is refused here with ValueError, so that
the loops need not check it.
"""

from cython_ext.column cimport K_BIGINT, K_BOOLEAN, K_DECIMAL, K_DOUBLE, K_STRING, K_TIMESTAMP
from cython_ext.scan_time cimport MICROS, MICROS_MAX, MICROS_MIN, compile_layout
from libc.string cimport memcpy

from enum import IntEnum

LITERAL_BYTES_MAX = 1024
STEPS_MAX = 4096
DECIMAL_ARGUMENT_MAX = 18
DECIMAL_SCALE = 6
ZONE_CHANGES_MAX = 4096
ZONE_OFFSET_S_MAX = 26 * 3600

REASONS = (
    "blank", "truncated", "mismatch", "trailing", "bad_time", "bad_status", "bad_number", "overflow", "bad_json",
    "not_object", "too_deep", "too_long", "no_fields",
)

ROLE_KINDS = {
    C_TEXT: (K_STRING,),
    C_REQUEST: (K_STRING,) * 6,
    C_URI: (K_STRING,) * 3,
    C_ADDRESS_PORT: (K_STRING, K_BIGINT),
    C_INTEGER: (K_BIGINT,),
    C_TIMER: (K_BIGINT,),
    C_DECIMAL: (K_DECIMAL,),
    C_STATUS: (K_BIGINT,),
    C_TIME: (K_TIMESTAMP,),
    C_DATE: (K_TIMESTAMP,),
    C_CLOCK: (K_TIMESTAMP,),
    C_FLAG: (K_BOOLEAN,),
    C_FLOAT: (K_DOUBLE,),
    C_URI_STEM: (K_STRING, K_STRING),
    C_LOCATION: (K_STRING, K_BIGINT, K_STRING, K_STRING, K_STRING),
}
NEVER_REFUSED = frozenset((C_TEXT, C_REQUEST, C_URI, C_ADDRESS_PORT, C_URI_STEM, C_LOCATION))


class KernelExtent(IntEnum):
    """What the kernel takes an Extent's number for; the tests hold it against job.formats.program."""

    TEXT = E_TEXT
    WORD = E_WORD
    QUOTED = E_QUOTED
    SELF = E_SELF
    BRACES = E_BRACES
    SYSLOG = E_SYSLOG
    MAYBE_QUOTED = E_MAYBE_QUOTED
    LIST = E_LIST
    NAME = E_NAME
    REQUEST = E_REQUEST


class KernelContent(IntEnum):
    """What the kernel takes a Content's number for; the tests hold it against job.formats.program."""

    TEXT = C_TEXT
    REQUEST = C_REQUEST
    URI = C_URI
    ADDRESS_PORT = C_ADDRESS_PORT
    INTEGER = C_INTEGER
    TIMER = C_TIMER
    DECIMAL = C_DECIMAL
    STATUS = C_STATUS
    TIME = C_TIME
    DATE = C_DATE
    CLOCK = C_CLOCK
    FLAG = C_FLAG
    FLOAT = C_FLOAT
    URI_STEM = C_URI_STEM
    LOCATION = C_LOCATION


cdef class Schema:
    def __init__(self, program, wanted, open_names=()):
        self.owners = []
        self.fields = {name: (int(type_.kind), type_.scale) for name, type_ in program.fields.items()}
        for name in open_names:
            self.fields[name] = (K_STRING, 0)
        self.sinks = {}
        for name in wanted:
            if name not in self.fields:
                raise ValueError(f"the format has no field {name!r}; it has {', '.join(self.fields)}")
            self.sinks.setdefault(name, len(self.sinks))
        self.wanted = tuple(wanted)
        self.places = tuple(self.sinks[name] for name in self.wanted)
        self.kinds = tuple(self.fields[name][0] for name in self.sinks)
        self.written = [False] * len(self.sinks)
        self.moments = []
        self.memos_count = 0
        self.set_zone(program.zone_offset_s, program.zone_changes)

    cdef void* memory(self, Py_ssize_t count, size_t size) except NULL:
        owner = bytearray(count * <Py_ssize_t>size + 1)
        self.owners.append(owner)
        return <void*><char*>owner

    cdef int set_zone(self, int64_t first_s, object changes) except -1:
        cdef Py_ssize_t i, count = len(changes)
        cdef int64_t offset_s, before_s = first_s
        if abs(first_s) > ZONE_OFFSET_S_MAX:
            raise ValueError(f"a time zone's offset of {first_s} s is more than {ZONE_OFFSET_S_MAX} s")
        if count > ZONE_CHANGES_MAX:
            raise ValueError(f"a time zone of {count} changes; it takes {ZONE_CHANGES_MAX}")
        self.zone = <Zone*>self.memory(1, sizeof(Zone))
        self.zone.first_us = first_s * MICROS
        self.zone.count = count
        self.zone.starts = <int64_t*>self.memory(count, sizeof(int64_t))
        self.zone.offsets_us = <int64_t*>self.memory(count, sizeof(int64_t))
        for i in range(count):
            at_us, offset_s = changes[i]
            if not MICROS_MIN <= at_us <= MICROS_MAX:
                raise ValueError(f"a time zone changes at {at_us}, out of the years 1 to 9999")
            if abs(offset_s) > ZONE_OFFSET_S_MAX:
                raise ValueError(f"a time zone's offset of {offset_s} s is more than {ZONE_OFFSET_S_MAX} s")
            self.zone.starts[i] = at_us + max(before_s, offset_s) * MICROS
            self.zone.offsets_us[i] = offset_s * MICROS
            before_s = offset_s
            if i > 0 and self.zone.starts[i] <= self.zone.starts[i - 1]:
                raise ValueError("the changes of a time zone must follow each other, farther apart than their offsets")
        return 0

    cdef int set_literal(self, Literal* literal, object text) except -1:
        cdef bytes stored = bytes(text)
        cdef char* word = <char*>&literal.word
        cdef char* mask = <char*>&literal.mask
        cdef Py_ssize_t i, size = len(stored)
        if size > LITERAL_BYTES_MAX:
            raise ValueError(f"a literal of {size} bytes is longer than {LITERAL_BYTES_MAX}")
        if b"\n" in stored:
            raise ValueError(f"the literal {stored!r} holds a line end")
        self.owners.append(stored)
        literal.data = <const uint8_t*><const char*>stored
        literal.size = size
        literal.word = 0
        literal.mask = 0
        for i in range(min(size, 8)):
            word[i] = (<const char*>stored)[i]
            mask[i] = -1
        return 0

    cdef int set_field(self, Field* field, object source) except -1:
        cdef int i, kind, sinks = 0
        content = int(source.content)
        if content not in ROLE_KINDS:
            raise ValueError(f"unknown content {source.content!r}")
        kinds = ROLE_KINDS[content]
        if len(source.outputs) > len(kinds):
            raise ValueError(f"{source.content!r} has {len(kinds)} roles, not {len(source.outputs)}")
        field.content = content
        field.dash_null = bool(source.dash_null)
        field.json_escaped = bool(getattr(source, "json_escaped", False))
        field.required = bool(getattr(source, "required", False))
        field.overrides = bool(getattr(source, "overrides", False))
        field.lenient = bool(getattr(source, "lenient", False))
        field.argument = source.argument
        field.single = True
        field.layout = NULL
        field.memo = field.moment = -1
        for i in range(ROLES_MAX):
            field.outputs[i] = -1
        for i, name in enumerate(source.outputs):
            if name is not None:
                self.check_output(name, source.content, kinds[i])
                field.outputs[i] = self.sinks.get(name, -1)
                if field.outputs[i] >= 0:
                    self.written[field.outputs[i]] = True
                    sinks += 1
                    field.single = field.single and i == 0
        field.idle = sinks == 0 and content in NEVER_REFUSED and not field.required
        if content == C_DECIMAL and abs(field.argument) > DECIMAL_ARGUMENT_MAX:
            raise ValueError(f"a unit of ten to the power of {field.argument} microseconds")
        field.nulls_count = len(source.nulls)
        field.nulls = <Literal*>self.memory(field.nulls_count, sizeof(Literal))
        for i in range(field.nulls_count):
            self.set_literal(&field.nulls[i], source.nulls[i])
        if content == C_TIME or content == C_DATE or content == C_CLOCK:
            self.set_time(field, source, sinks > 0)
        return 0

    def check_output(self, name, content, kind):
        if name not in self.fields:
            raise ValueError(f"the output {name!r} is no field of the format")
        declared, scale = self.fields[name]
        if declared != kind or (kind == K_DECIMAL and scale != DECIMAL_SCALE):
            raise ValueError(f"the field {name!r} has kind {declared} and scale {scale}, but {content!r} gives kind {kind}")

    cdef int set_time(self, Field* field, object source, bint wanted) except -1:
        field.layout = <TimeLayout*>self.memory(1, sizeof(TimeLayout))
        compile_layout(bytes(source.layout), field.layout)
        field.zone = self.zone
        if field.content == C_TIME:
            field.memo = self.memos_count
            self.memos_count += 1
            return 0
        name = source.outputs[0] if source.outputs else None
        for i in range(len(self.moments)):
            if self.moments[i][0] == name and name is not None:
                field.moment = i
        if field.moment < 0:
            field.moment = len(self.moments)
            self.moments.append([name, 0, False])
        self.moments[field.moment][1] += 1
        if field.layout.has_zone:
            self.moments[field.moment][2] = True
        return 0

    cdef MomentPlan* moment_plans(self) except NULL:
        cdef MomentPlan* plans = <MomentPlan*>self.memory(len(self.moments), sizeof(MomentPlan))
        cdef Py_ssize_t i
        for i in range(len(self.moments)):
            name, parts, has_zone = self.moments[i]
            plans[i].sink = self.sinks.get(name, -1)
            plans[i].parts = parts
            plans[i].zone = NULL if has_zone else self.zone
        return plans
