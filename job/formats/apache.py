"""Apache's LogFormat, verbatim: `%` directives between literal text, compiled to a scan program.

https://httpd.apache.org/docs/current/mod/mod_log_config.html#formats lists the directives. Values that a client can
influence are escaped with backslashes (a quote is `\\"`), a missing value is `-`.
"""

from __future__ import annotations

from typing import NamedTuple

from job.errors import FormatError
from job.formats.assembly import assemble
from job.formats.boundaries import Piece
from job.formats.fields import (
    CLF_TIME,
    Meaning,
    identifier,
    integer,
    moment,
    person,
    request,
    request_header,
    response_header,
    seconds,
    status,
    text,
    timer,
    uri,
    word,
)
from job.formats.program import Content, LineProgram
from job.formats.strftime import complement, names_a_day, to_layout
from job.formats.templates import pieces_at

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "'": "'"}

_PLAIN = {
    "a": word("client_addr", "remote_addr"),
    "A": word("server_addr"),
    "b": integer("body_bytes", "bytes"),
    "B": integer("body_bytes", "bytes"),
    "D": timer("duration_us"),
    "f": text("filename"),
    "h": word("remote_host", "remote_addr"),
    "H": word("request_protocol", "protocol"),
    "I": integer("bytes_received"),
    "k": integer("keepalive_count"),
    "l": word("ident"),
    "L": word("log_id"),
    "m": word("request_method", "method"),
    "O": integer("bytes_sent"),
    "p": integer("server_port"),
    "P": integer("pid"),
    "q": Meaning("query_string", Content.URI, (None, None, "query")),
    "r": request(),
    "R": text("handler"),
    "s": status("status_original", "status"),
    "S": integer("bytes_transferred"),
    "T": seconds("duration_s", "request_time"),
    "u": person("user"),
    "U": text("url_path", "path"),
    "v": word("server_name", "vhost"),
    "V": word("server_name_used", "vhost"),
    "X": word("connection_status"),
}
_WITH_ARGUMENT = {
    ("a", "c"): word("peer_addr"),
    ("h", "c"): word("peer_host"),
    ("p", "canonical"): integer("server_port"),
    ("p", "local"): integer("local_port"),
    ("p", "remote"): integer("remote_port"),
    ("P", "pid"): integer("pid"),
    ("P", "tid"): integer("tid"),
    ("P", "hextid"): word("tid"),
    ("T", "s"): seconds("duration_s", "request_time"),
    ("T", "ms"): timer("duration_ms"),
    ("T", "us"): timer("duration_us"),
}
_NAMED = {
    "C": "cookie",
    "e": "env",
    "n": "note",
    "^ti": "trailer",
    "^to": "sent_trailer",
}
_TIMES = {"sec": "%s", "msec": "%L", "usec": "%U", "msec_frac": "%f", "usec_frac": "%f", "": ""}


class _Time(NamedTuple):
    """A %t in the making: layouts that complete each other become one field."""

    layout: str
    label: str
    column: int


def compile_format(format_text: str) -> LineProgram:
    """The program for a verbatim LogFormat: the bare string, the quoted string, or the whole directive.

    Raises FormatError.
    """
    template = read_directive(format_text)
    return assemble(_times_joined(pieces_of(template.rstrip("\r\n"))))


def read_directive(format_text: str) -> str:
    """The format string of a LogFormat in any of the ways people copy it. Raises FormatError."""
    stripped = format_text.strip()
    keyword = stripped.split(None, 1)
    if keyword and keyword[0].lower() in ("logformat", "customlog") and len(keyword) == 2:
        words = split_words(keyword[1])
        index = 1 if keyword[0].lower() == "customlog" else 0
        if len(words) <= index or "%" not in words[index]:
            raise FormatError('a LogFormat directive is: LogFormat "FORMAT" NAME')
        return unescape(words[index])
    if stripped[:1] == '"' and stripped[-1:] == '"' and '\\"' in stripped:
        return unescape(split_words(stripped)[0])
    return unescape(format_text)


def split_words(line: str) -> list[str]:
    """The words of a directive; those in quotes may have blanks, and a backslash keeps the next character."""
    words: list[str] = []
    index = 0
    while index < len(line):
        if line[index].isspace():
            index += 1
            continue
        quote = line[index] if line[index] in "\"'" else ""
        start = index = index + len(quote)
        while index < len(line) and not (line[index] == quote if quote else line[index].isspace()):
            index += 2 if line[index] == "\\" else 1
        words.append(line[start:index])
        index += len(quote)
    return words


def unescape(template: str) -> str:
    """`template` with Apache's backslash escapes resolved; a backslash before another character stays."""
    parts: list[str] = []
    index = 0
    while index < len(template):
        letter, following = template[index], template[index + 1 : index + 2]
        if letter == "\\" and following in _ESCAPES:
            parts.append(_ESCAPES[following])
            index += 2
        else:
            parts.append(letter)
            index += 1
    return "".join(parts)


def pieces_of(template: str) -> list[Piece | _Time]:
    """Literals, meanings and times of a template. Raises FormatError for a directive Apache does not have."""
    pieces: list[Piece | _Time] = []
    for piece in pieces_at("%", template, _directive):
        match [*pieces[-1:], piece]:
            case [Meaning(label="%U", column=column), Meaning(label="%q")]:
                pieces[-1] = uri("url_path").labelled("%U%q", column)
            case _:
                pieces.append(piece)
    return pieces


def _directive(template: str, percent: int) -> tuple[list[Piece | _Time], int]:
    """What the directive at `percent` stands for, and the index behind it."""
    index = percent + 1
    while index < len(template) and (template[index] in "!<>," or template[index].isdigit()):
        index += 1  # which request, and for which statuses: otherwise `-` is logged
    argument = None
    if template[index : index + 1] == "{":
        end = template.find("}", index)
        if end < 0:
            raise FormatError(f"column {index + 1} of the LogFormat: the brace is not closed")
        argument, index = template[index + 1 : end], end + 1
    letter = template[index : index + 1]
    if letter == "^":
        letter = template[index : index + 3]
    index += len(letter)
    label = template[percent:index]
    if letter == "%":
        return [b"%"], index
    if letter == "t":
        return _time(argument, label, percent + 1), index
    meaning = _meaning(letter, argument)
    if meaning is None:
        raise FormatError(f"column {percent + 1} of the LogFormat: Apache has no directive {label!r}")
    if ">" in label and letter == "s":
        meaning = status("status_final", "status")
    return [meaning.labelled(label, percent + 1)], index


def _meaning(letter: str, argument: str | None) -> Meaning | None:
    if argument is None:
        return timer("first_byte_us") if letter == "^FB" else _PLAIN.get(letter)
    if letter == "i":
        return request_header(argument)
    if letter == "o":
        return response_header(argument)
    if letter == "x":  # a variable of mod_ssl, such as SSL_PROTOCOL
        return text(identifier(argument))
    if letter in _NAMED:
        return text(f"{_NAMED[letter]}_{identifier(argument)}")
    return _WITH_ARGUMENT.get((letter, argument))


def _time(argument: str | None, label: str, column: int) -> list[Piece | _Time]:
    if argument is None:
        return [b"[", _Time(CLF_TIME.decode(), label, column), b"]"]
    for moment_of in ("begin:", "end:"):
        argument = argument.removeprefix(moment_of)
    if argument in _TIMES:
        layout = _TIMES[argument]
        return [_Time(layout, label, column)] if layout else [b"[", _Time(CLF_TIME.decode(), label, column), b"]"]
    return [_Time(to_layout(argument), label, column)]


def _times_joined(pieces: list[Piece | _Time]) -> list[Piece]:
    """Makes one field of times that complete each other, such as `%{%F %T}t.%{msec_frac}t`."""
    joined: list[Piece | _Time] = []
    for piece in pieces:
        if isinstance(piece, _Time) and joined:
            between = joined[-1] if isinstance(joined[-1], bytes) else b""
            place = -2 if between else -1
            earlier = joined[place] if len(joined) >= -place else None
            if isinstance(earlier, _Time):
                layout = complement(earlier.layout, between.decode(), piece.layout)
                if layout is not None:
                    joined[place:] = [_Time(layout, earlier.label + between.decode() + piece.label, earlier.column)]
                    continue
        joined.append(piece)
    return [_as_meaning(piece) if isinstance(piece, _Time) else piece for piece in joined]


def _as_meaning(piece: _Time) -> Meaning:
    if not names_a_day(piece.layout):
        return text("time_text").labelled(piece.label, piece.column)
    return moment("time_2", piece.layout.encode()).labelled(piece.label, piece.column)
