"""nginx's log_format, verbatim: `$variables` between literal text, compiled to a scan program.

https://nginx.org/en/docs/http/ngx_http_log_module.html#log_format says how values are escaped: by default a quote,
a backslash and bytes outside of printable ASCII become \\xHH and a missing value is `-`; with escape=json values are
JSON strings, with escape=none nothing is done, and in both a missing value is empty.
"""

from __future__ import annotations

from job.errors import FormatError
from job.formats import json_documents
from job.formats.assembly import Quoting, assemble
from job.formats.boundaries import Piece
from job.formats.fields import (
    CLF_TIME,
    ISO_TIME,
    Meaning,
    elements,
    integer,
    moment,
    person,
    request,
    request_header,
    seconds,
    status,
    text,
    uri,
    word,
)
from job.formats.nginx_conf import directives, unescape
from job.formats.program import Program
from job.formats.templates import pieces_at

_QUOTINGS = {"default": Quoting.BACKSLASH, "json": Quoting.JSON, "none": Quoting.NONE}

_MEANINGS = (
    word("remote_addr"),
    integer("remote_port"),
    person("remote_user", "user"),
    moment("time_local", CLF_TIME),
    moment("time_iso8601", ISO_TIME),
    moment("msec", b"%s"),
    request(),
    uri("request_uri"),
    text("uri", "nginx_uri"),
    text("document_uri", "nginx_uri"),
    text("args", "query"),
    text("query_string", "query"),
    word("request_method", "method"),
    word("server_protocol", "protocol"),
    status(),
    integer("body_bytes_sent", "bytes"),
    integer("bytes_sent"),
    integer("request_length", "bytes_received"),
    integer("bytes_received"),
    seconds("request_time"),
    seconds("session_time", "request_time"),
    text("host", "vhost"),
    word("server_addr"),
    integer("server_port"),
    word("scheme"),
    integer("connection"),
    integer("connection_requests"),
    seconds("connection_time"),
    seconds("gzip_ratio"),
    integer("pid"),
    word("request_id"),
    word("req_id", "request_id"),
    integer("tcpinfo_rtt"),
    integer("tcpinfo_rttvar"),
    integer("tcpinfo_snd_cwnd"),
    integer("tcpinfo_rcv_space"),
)
# $content_length is what the client claims, so it may be anything: a text, like all headers.
VARIABLES = {meaning.name: meaning for meaning in _MEANINGS}


def meaning_of(variable: str, column: int = 0) -> Meaning:
    """What nginx's `$variable` at that column stands for; one that is not known is a text under its own name."""
    name = variable.lower()
    known = VARIABLES.get(name)
    if known is None and name.startswith("http_"):
        known = request_header(name.removeprefix("http_"))
    if known is None and name.startswith("upstream_"):
        known = elements(name)
    return (known or text(name)).labelled("$" + variable, column)


def compile_format(format_text: str) -> Program:
    """The program for a verbatim log_format: the bare string, the quoted strings, or the whole directive.

    Raises FormatError.
    """
    escape, template = read_directive(format_text)
    return compile_template(template, escape)


def compile_template(template: str, escape: str = "default") -> Program:
    """The program for a format string whose quotes and backslashes are resolved. Raises FormatError."""
    quoting = _QUOTINGS.get(escape)
    if quoting is None:
        raise FormatError(f"escape={escape} is unknown to nginx; it takes default, json or none")
    pieces = pieces_of(template.rstrip("\r\n"))
    if quoting is Quoting.JSON:
        document = json_documents.from_template(pieces)
        if document is not None:
            return document
    return assemble(_with_arguments(pieces), quoting)


def read_directive(format_text: str) -> tuple[str, str]:
    """(escape, template) of a log_format in any of the ways people copy it. Raises FormatError."""
    stripped = format_text.strip()
    if stripped.startswith("log_format") and stripped[10:11].isspace():
        found = next(directives(stripped), None)
        if found is None or len(found.words) < 3:
            raise FormatError("a log_format directive is: log_format NAME [escape=...] 'TEXT' ...;")
        return from_words(found.words[2:])
    escape = "default"
    if stripped.startswith("escape="):
        first, _, rest = stripped.partition(" ")
        escape, format_text = first.removeprefix("escape="), rest.lstrip()
        stripped = rest.strip()
    if stripped[:1] == "'" and stripped.rstrip(";").rstrip().endswith("'"):
        words = next(directives(stripped)).words
        return escape, "".join(words)
    return escape, unescape(format_text)


def from_words(words: list[str]) -> tuple[str, str]:
    """(escape, template) of a log_format directive's words behind its name."""
    if words and words[0].startswith("escape="):
        return words[0].removeprefix("escape="), "".join(words[1:])
    return "default", "".join(words)


def pieces_of(template: str) -> list[Piece]:
    """Literals and meanings of a template. Raises FormatError for a dollar sign without a name."""
    return pieces_at("$", template, _meaning_at)


def _meaning_at(template: str, dollar: int) -> tuple[list[Piece], int]:
    name, end = _variable(template, dollar)
    return [meaning_of(name, dollar + 1)], end


def _variable(template: str, dollar: int) -> tuple[str, int]:
    start = dollar + 1
    if template[start : start + 1] == "{":
        end = template.find("}", start)
        name = template[start + 1 : end]
        if end < 0 or not (name.isascii() and name.replace("_", "a").isalnum()):
            raise FormatError(f"column {dollar + 1} of the log_format: ${{ needs a name and a closing brace")
        return template[start + 1 : end], end + 1
    end = start
    while end < len(template) and (template[end] == "_" or (template[end].isascii() and template[end].isalnum())):
        end += 1
    if end == start:
        raise FormatError(f"column {dollar + 1} of the log_format: a dollar sign without the name of a variable")
    return template[start:end], end


_TARGETS = frozenset(
    (path, "$is_args", arguments)
    for path in ("$uri", "$document_uri")
    for arguments in ("$args", "$query_string")
)


def _with_arguments(pieces: list[Piece]) -> list[Piece]:
    """Makes one field of `$uri$is_args$args`: where the arguments start is the first question mark."""
    names = [piece.label.lower() if isinstance(piece, Meaning) else "" for piece in pieces]
    joined: list[Piece] = []
    index = 0
    while index < len(pieces):
        if tuple(names[index : index + 3]) in _TARGETS:
            first = pieces[index]
            column = first.column if isinstance(first, Meaning) else 0
            joined.append(uri("nginx_uri").labelled("".join(names[index : index + 3]), column))
            index += 3
        else:
            joined.append(pieces[index])
            index += 1
    return joined
