"""Programs and lines to try the scan kernel with: those of real formats, and random ones from a seed."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from msgspec.structs import replace

from job.formats.program import Content, Extent, JsonPath, JsonProgram, LineProgram, Program, Step
from job.types import BIGINT, BOOLEAN, DOUBLE, SECONDS, STRING, TIMESTAMP, Type

CLF_TIME = b"%d/%b/%Y:%H:%M:%S %z"
REQUEST_FIELDS = ("request", "method", "uri", "path", "query", "protocol")
ROLES: dict[Content, tuple[Type, ...]] = {
    Content.TEXT: (STRING,),
    Content.REQUEST: (STRING,) * 6,
    Content.URI: (STRING,) * 3,
    Content.ADDRESS_PORT: (STRING, BIGINT),
    Content.INTEGER: (BIGINT,),
    Content.TIMER: (BIGINT,),
    Content.DECIMAL: (SECONDS,),
    Content.STATUS: (BIGINT,),
    Content.TIME: (TIMESTAMP,),
    Content.DATE: (TIMESTAMP,),
    Content.CLOCK: (TIMESTAMP,),
    Content.FLAG: (BOOLEAN,),
    Content.FLOAT: (DOUBLE,),
    Content.URI_STEM: (STRING, STRING),
    Content.LOCATION: (STRING, BIGINT, STRING, STRING, STRING),
}


@dataclass(frozen=True)
class Case:
    program: Program
    lines: tuple[bytes, ...]


def word(name: str | None, until: bytes, **more: Any) -> Step:
    return Step(Extent.WORD, Content.TEXT, (name,), until, **more)


def fields_of(sources: tuple[Any, ...]) -> dict[str, Type]:
    return {
        name: type_
        for source in sources
        for name, type_ in zip(source.outputs, ROLES[Content(source.content)], strict=False)
        if name is not None
    }


def line_program(*steps: Step, **more: Any) -> LineProgram:
    return LineProgram(fields_of(steps), steps, **more)


def json_program(*values: JsonPath, **more: Any) -> JsonProgram:
    return JsonProgram(fields_of(values), values, **more)


_COMMON = (
    word("remote_addr", b" "),
    word("ident", b" "),
    Step(Extent.TEXT, Content.TEXT, ("user",), b" ["),
    Step(Extent.SELF, Content.TIME, ("time",), b'] "', layout=CLF_TIME),
    Step(Extent.QUOTED, Content.REQUEST, REQUEST_FIELDS, b'" '),
    Step(Extent.SELF, Content.STATUS, ("status",), b" "),
)
COMBINED = line_program(
    *_COMMON,
    Step(Extent.SELF, Content.INTEGER, ("bytes",), b' "'),
    Step(Extent.QUOTED, Content.TEXT, ("referer",), b'" "'),
    Step(Extent.QUOTED, Content.TEXT, ("user_agent",), b'"'),
)
COMMON = line_program(*_COMMON, Step(Extent.SELF, Content.INTEGER, ("bytes",)))
W3C = line_program(
    Step(Extent.WORD, Content.DATE, ("time",), b" ", layout=b"%Y-%m-%d"),
    Step(Extent.WORD, Content.CLOCK, ("time",), b" ", layout=b"%T"),
    word("remote_addr", b" "),
    Step(Extent.WORD, Content.URI_STEM, ("uri", "path"), b" "),
    word("query", b" "),
    Step(Extent.WORD, Content.STATUS, ("status",), b" "),
    Step(Extent.WORD, Content.DECIMAL, ("request_time",), argument=3),
    blank_run=True,
    directives=True,
)
HAPROXY = line_program(
    Step(Extent.SYSLOG, Content.TEXT, (None,)),
    Step(Extent.WORD, Content.ADDRESS_PORT, ("remote_addr", "remote_port"), b" ["),
    Step(Extent.SELF, Content.TIME, ("time",), b"] ", layout=b"%d/%b/%Y:%H:%M:%S.%f"),
    word("backend", b"/"),
    word("server", b" ", nulls=(b"<NOSRV>",)),
    Step(Extent.SELF, Content.TIMER, ("queue_ms",), b"/"),
    Step(Extent.SELF, Content.TIMER, ("total_ms",), b" "),
    Step(Extent.SELF, Content.STATUS, ("status",), b" "),
    Step(Extent.BRACES, Content.TEXT, ("captured",), b"} "),
    # Nothing may stand between the braces, which may be absent, and the opening quote.
    Step(Extent.TEXT, Content.INTEGER, (None,), b'"', dash_null=False, nulls=(b"",)),
    Step(Extent.QUOTED, Content.REQUEST, REQUEST_FIELDS, b'"', nulls=(b"<BADREQ>",)),
    zone_offset_s=3600,
)
GROWN = line_program(
    word("type", b" "),
    Step(Extent.SELF, Content.TIME, ("time",), b" ", layout=b"%Y-%m-%dT%H:%M:%S.%f%z"),
    Step(Extent.SELF, Content.DECIMAL, ("request_time",), b' "', argument=6),
    Step(Extent.QUOTED, Content.REQUEST, ("request", None, "uri"), b'" "'),
    Step(Extent.QUOTED, Content.TEXT, ("user_agent",), b'" '),
    word("cipher", b" "),
    word("tls", b""),
    required=4,
    open_end=True,
)
ESCAPED = line_program(
    Step(Extent.QUOTED, Content.TEXT, ("time_text",), b'","r":"', json_escaped=True),
    Step(Extent.QUOTED, Content.REQUEST, REQUEST_FIELDS, b'","b":', json_escaped=True),
    Step(Extent.SELF, Content.INTEGER, ("bytes",), b',"f":'),
    Step(Extent.SELF, Content.FLAG, ("cached",), b',"x":'),
    Step(Extent.SELF, Content.FLOAT, ("ratio",), b"}"),
    prefix=b'{"t":"',
)
JSON = json_program(
    JsonPath((("ts",), ("time",)), Content.TIME, ("time",), layout=b"%s"),
    JsonPath((("day",),), Content.DATE, ("stamp",), layout=b"%d %B %Y"),
    JsonPath((("clock",),), Content.CLOCK, ("stamp",), layout=b"%I:%M %p"),
    JsonPath((("request", "uri"), ("uri",)), Content.URI, ("uri", "path", "query")),
    JsonPath((("request", "headers", "User-Agent"),), Content.TEXT, ("user_agent",)),
    JsonPath((("status",), ("resp", "status")), Content.STATUS, ("status",)),
    JsonPath((("duration",),), Content.DECIMAL, ("request_time",), argument=6),
    JsonPath((("cached",),), Content.FLAG, ("cached",)),
    JsonPath((("ratio",),), Content.FLOAT, ("ratio",)),
    open_fields=True,
    zone_offset_s=-7200,
)
OPEN_NAMES = ("request", "request.headers", "tags", "a.b", "a\\.b", "b.a\\.b", "ü", "resp.status")

_CLF = b'192.0.2.9 - bob [28/Feb/2016:23:59:60 +0530] "%s" 200 '
CASES = {
    "combined": Case(
        COMBINED,
        (
            _CLF % b"GET /a?b=c?d HTTP/1.1" + b'512 "http://e.example/\\"q\\"" "Mozilla/5.0 \xe9\xff\xc3\xa9"',
            _CLF % b"\\x16\\x03" + b'- "-" "-"',
            _CLF % b"GET /a b HTTP 1.1" + b'0 "" ""\r',
        ),
    ),
    "common": Case(COMMON, (_CLF % b"GET /x" + b"9223372036854775807", _CLF % b"-" + b"-")),
    "w3c": Case(
        W3C,
        (
            b"#Version: 1.0",
            b"2022-01-05 09:15:27 198.51.100.171 /q4.aspx year=2021 200 312",
            b"2020-02-29\t00:00:00 \t::1  /  - 304\t0.5",
        ),
    ),
    "haproxy": Case(
        HAPROXY,
        (
            b"Nov 30 07:44:01 lb1 haproxy[640]: 2001:db8::1:50 [30/Nov/2023:07:44:00.870] www/<NOSRV> 3/-1 503 "
            b'"GET /basket HTTP/1.1"',
            b'192.0.2.1:65535 [30/Nov/2023:07:44:00.870123456] a/b +1/0 200 {x|y} "<BADREQ>"',
        ),
    ),
    "grown": Case(
        GROWN,
        (
            b'h2 2024-02-20T11:09:55.120433Z 0.003 "GET http://a.example:80/ HTTP/1.1"',
            b'h2 2024-02-20T11:09:55.1-01:30 12.5e-3 "GET / HTTP/2.0" "x" AES TLS1 more "columns"',
        ),
    ),
    "escaped": Case(
        ESCAPED,
        (
            b'{"t":"a\\u00e9\\ud83d\\ude00\\ud800","r":"GET \\/x HTTP\\/1.1","b":12,"f":true,"x":-1.5e-7}',
            b'{"t":"","r":"-","b":-,"f":false,"x":0.1}',
        ),
    ),
    "json": Case(
        JSON,
        (
            b'{"ts":1719830102.25,"status":200,"request":{"uri":"/n?d=1","headers":{"User-Agent":["x\\"y"]}},"ratio":1e3}',
            b' {"time":"-","uri":"\\u002fa","cached":true,"duration":0.125,"tags":["a",{"b":[]}],"a":[{"b":null}],"a.b":7}',
            b'{"day":"29 February 2016","clock":"12:05 PM","resp":{"status":"404"},"\\u00fc":"\xff","status":null}',
        ),
    ),
}


def wanted_of(program: Program) -> list[str]:
    return [*program.fields, *(OPEN_NAMES if isinstance(program, JsonProgram) and program.open_fields else ())]


# Random programs and the lines that nearly fit them

_LAYOUTS = (
    CLF_TIME, b"%Y-%m-%dT%H:%M:%S%z", b"%Y-%m-%d %T.%f", b"%s", b"%L", b"%U", b"%b %e %H:%M:%S", b"%d.%m.%y",
    b"%a, %d %b %Y %I:%M %p", b"%A %j %Y", b"%H:%M", b"%%%d %B %Y", b"%+",
    b"%Y-%m-%d %T%N",
)  # fmt: skip
_UNTILS = (b" ", b'" ', b'"', b"} ", b"}", b",", b"|", b" [", b'] "', b'" "', b"\t", b" - ", b"ab", b"aab", b"::::::::::")
_SELF = [content for content in Content if Content.INTEGER <= content <= Content.FLOAT]
_POOL = (
    b"-", b"", b"/", b"?", b"GET", b"GET /a?b HTTP/1.1", b"GET / HTTP/2", b"x y", b"\xff", b"\xc3\xa9", b"\xed\xa0\x80",
    b"\xf0\x9f\x98\x80", b"\xe2\x82", b"\\", b'\\"', b"\\u00e9", b"\\ud83d\\ude00", b"\0", b"10.0.0.1:80", b"::1", b"{",
    b"}", b"true", b"N/A", b"abababa", b"a" * 40, b"]: ", b"a.b", b"a.b:80/c", b"*",
)  # fmt: skip
_NUMBERS = (
    b"0", b"7", b"200", b"404", b"2000", b"-1", b"+5", b"9223372036854775807", b"9223372036854775808", b"1" * 30, b"0.5",
    b"1.", b".5", b"1e5", b"1e-400", b"1e400", b"12.3456789", b"999999999999.9999999", b"00012", b"0.1",
    b"1.7976931348623157e308", b"3e", b"1e99999999999", b"123456789012345678901234567890e-20",
)  # fmt: skip


_TIME_PARTS = {
    "d": ("01", "09", "28", "29", "30", "31"), "m": ("01", "02", "04", "12", "13"), "b": ("Feb", "Jan", "Dec"),
    "B": ("February", "May"), "Y": ("2016", "1900", "2023", "0001", "9999"), "y": ("68", "69"), "H": ("00", "23", "24"),
    "M": ("00", "59"), "S": ("00", "60", "61"), "f": ("1", "123456789", ""), "L": ("0", "1719830102250"),
    "z": ("+0000", "-2359", "Z", "+05:30", "+2400"), "s": ("0", "1719830102", "253402300800", "5.", "1.25"),
    "U": ("1719830102250001",), "a": ("Tue",), "A": ("Sunday",), "T": ("12:34:56",), "p": ("AM", "PM", "XM"),
    "I": ("12", "01", "13"), "e": (" 5", "15", "5"), "j": ("366", "001", "365"), "%": ("%",),
    "N": ("", ".5", ".123456789", "."),
    "+": ("2024-03-14T09:26:53Z", "2024-03-14 09:26:53.5+01:00", "2024-03-14", "2024-03-14T09:26:53", "2024-3-14",
          "2024/03/14 09:26:53.5", "2024/03/14", "2024/03-14",
          "14/Mar/2024:09:26:53 -0100", "1710408413", "1710408413.589", "1710408413589", "1710408413589793.5",
          "1710408413589793238", "17104084135897932380", "171040841358979323801", "99999999999", "2024", "14/"),
}  # fmt: skip


def time_text(random: Random, layout: bytes) -> bytes:
    letters = iter(layout.decode())
    parts = (random.choice(_TIME_PARTS[next(letters)]) if letter == "%" else letter for letter in letters)
    return "".join(parts).encode()


def text_of(random: Random, field: Any) -> bytes:
    content = Content(field.content)
    if random.random() < 0.1:
        nulls: tuple[bytes, ...] = field.nulls
        return random.choice([b"-", *nulls])
    if content in (Content.TIME, Content.DATE, Content.CLOCK):
        return time_text(random, field.layout)
    if content is Content.FLAG:
        return random.choice([b"true", b"false", b"tru"])
    if content in _SELF:
        return random.choice(_NUMBERS)
    return b"".join(random.choices(_POOL, k=random.randint(1, 2)))


def _random_field(random: Random, content: Content, number: int) -> dict[str, Any]:
    outputs = [f"f{number}_{role}" if random.random() < 0.8 else None for role in range(len(ROLES[content]))]
    more: dict[str, Any] = {"dash_null": random.random() < 0.7, "argument": random.choice([6, 3, 0, -3])}
    if random.random() < 0.2:
        more["nulls"] = (b"N/A", b"-1")
    if content in (Content.TIME, Content.DATE, Content.CLOCK):
        more["layout"] = random.choice(_LAYOUTS)
        if content is not Content.TIME and random.random() < 0.7:
            outputs = ["moment"]
    return {"content": content, "outputs": tuple(outputs), **more}


def random_zone(random: Random) -> dict[str, Any]:
    """A clock that changes around the times that random lines have."""
    offsets = [0, 3600, 7200, -45000, 20_700]
    changes = []
    if random.random() < 0.5:
        for day in (-719_000, 0, 11_015, 16_860, 16_862, 19_000, 19_904, 2_932_890):
            if random.random() < 0.7:
                at_s = day * 86_400 + random.choice([0, 3600, 45_296, 79_200])
                changes.append((at_s * 1_000_000, random.choice(offsets)))
    return {"zone_offset_s": random.choice(offsets), "zone_changes": tuple(changes)}


def random_line_program(random: Random) -> LineProgram:
    steps = []
    count = random.randint(1, 6)
    for number in range(count):
        extent = random.choice(list(Extent))
        content = random.choice(_SELF if extent is Extent.SELF else list(Content))
        until = b"" if number == count - 1 and random.random() < 0.5 else random.choice(_UNTILS)
        if extent is Extent.QUOTED and not until:
            until = b'"'
        field = _random_field(random, content, number)
        steps.append(Step(extent=extent, until=until, json_escaped=random.random() < 0.2, **field))
    return line_program(
        *steps,
        prefix=random.choice([b"", b"", b"[", b"a b"]),
        blank_run=random.random() < 0.4,
        required=random.choice([0, 0, random.randint(1, count)]),
        open_end=random.random() < 0.3,
        directives=random.random() < 0.3,
        **random_zone(random),
    )


def random_line(random: Random, program: LineProgram) -> bytes:
    """A line that fits the program more or less."""
    out = program.prefix
    stop = random.randint(1, len(program.steps)) if random.random() < 0.2 else len(program.steps)
    for step in program.steps[:stop]:
        text = text_of(random, step)
        if step.extent is Extent.BRACES and random.random() < 0.6:
            text = b"{" + text + (b"" if step.until.startswith(b"}") else b"}")
        out += text + step.until
    if program.blank_run and random.random() < 0.5:
        out = out.replace(b" ", random.choice([b"  ", b"\t", b" \t "]))
    return out + random.choice([b"", b"", b" more", b"x"] if program.open_end else [b""])


def random_json_program(random: Random) -> JsonProgram:
    keys = ["a", "b", "c", "é", "a.b"]
    values = []
    for number in range(random.randint(1, 6)):
        content = random.choice(list(Content))
        paths = tuple(
            tuple(random.choices(keys, k=random.randint(1, 3))) for _ in range(random.choice([1, 1, 2]))
        )
        flags = {flag: random.random() < 0.1 for flag in ("required", "lenient")}
        values.append(JsonPath(paths=paths, **flags, **_random_field(random, content, number)))
        if content not in (Content.DATE, Content.CLOCK) and random.random() < 0.3:
            values.append(replace(values[-1], paths=((random.choice(keys),),), overrides=True))
    return json_program(*values, open_fields=random.random() < 0.7, **random_zone(random))


_KEYS = (b"a", b"b", b"c", b"\xc3\xa9", b"\\u00E9", b"\\u0061", b"a.b")


def random_document(random: Random, program: JsonProgram) -> bytes:
    space = random.choice([b"", b"", b" ", b"\t"])

    def value(depth: int) -> bytes:
        kind = random.random()
        if depth > 0 and kind < 0.35:
            members = (
                b'"%s":%s%s' % (random.choice(_KEYS), space, value(depth - 1)) for _ in range(random.randint(0, 4))
            )
            return b"{" + space + (b"," + space).join(members) + b"}"
        if depth > 0 and kind < 0.5:
            return b"[" + b",".join(value(depth - 1) for _ in range(random.randint(0, 3))) + space + b"]"
        if kind < 0.6:
            return random.choice([b"null", b"true", b"false"])
        text = text_of(random, random.choice(program.values))
        if kind < 0.75 and text in _NUMBERS:
            return text
        return b'"' + text.replace(b'"', b'\\"') + b'"'

    member = b",".join(b'"%s":%s' % (random.choice([b"a", b"b", b"c"]), value(3)) for _ in range(3))
    return space + b"{" + member + b"}" + space


def mutate(random: Random, line: bytes) -> bytes:
    """The line with a few bytes cut, doubled, changed or put in."""
    out = bytearray(line)
    for _ in range(random.choice([0, 0, 1, 1, 2, 5])):
        at = random.randint(0, len(out))
        kind = random.randrange(5)
        if kind == 0:
            del out[at:]
        elif kind == 1:
            del out[at : at + random.randint(1, 4)]
        elif kind == 2:
            out[at:at] = random.choice(_POOL + _UNTILS)
        elif kind == 3:
            out[at : at + 1] = bytes([random.getrandbits(8)])
        else:
            out[at:at] = out[at : at + random.randint(1, 8)]
    return bytes(out)
