"""From what people write to a format: a name, a verbatim format string, or a name in the server's own configuration."""

from __future__ import annotations

import difflib
from pathlib import Path

from msgspec.structs import replace

from cython_ext.scan import Scanner
from job.errors import FormatError
from job.formats import apache, catalogue, envoy, nginx, server_config, w3c
from job.formats.format import Format
from job.formats.program import Program
from job.formats.timezones import find_zone

TEXT_BYTES_MAX = 64 << 10
_APACHE_KEYWORDS = ("logformat", "customlog")
_NGINX_KEYWORD = "log_format"


def find(text: str, *, server_config: Path | None = None) -> Format:
    """The format that `text` names or spells out.

    A name of the catalogue (any case), a verbatim nginx log_format, Apache LogFormat or Envoy string, the whole directive
    of either server, or a `#Fields:` line. With `server_config`, `text` is the name of a format in that file or in one it
    includes. Raises FormatError, which says what to write instead.
    """
    if not text.strip():
        raise FormatError("the format is empty; write a name such as combined, or the server's format string")
    if len(text) > TEXT_BYTES_MAX:
        raise FormatError(f"the format is longer than {TEXT_BYTES_MAX} bytes")
    _check_encoding(text)
    if server_config is not None:
        return _in_configuration(text.strip(), server_config)
    if w3c.is_directive(text):
        return Format("w3c", w3c.compile_format(text), text, title="W3C extended, columns as given")
    if "$" in text or "%" in text or _keyword(text) in (*_APACHE_KEYWORDS, _NGINX_KEYWORD):
        return _runnable(_verbatim(text))
    name = catalogue.entry_name(text)
    if name is None:
        raise FormatError(_unknown(text.strip()))
    return catalogue.named(name)


def in_zone(format: Format, timezone: str) -> Format:
    """`format` for logs whose times say no offset and are of `timezone` (see `timezones.find_zone`). Raises FormatError."""
    zone = find_zone(timezone)
    if not format.needs_zone:
        raise FormatError(
            f"every time of the format {format.name} says its offset from UTC, so a time zone would change nothing; "
            f"leave it out"
        )
    return replace(format, zone=zone)


def names() -> list[Format]:
    """The catalogue, every format with a sample line."""
    return [catalogue.named(name) for name in catalogue.ENTRIES]


def _unknown(text: str) -> str:
    near = difflib.get_close_matches(catalogue.key(text), catalogue.NAMES, n=3, cutoff=0.6)
    meant = f" Did you mean {' or '.join(near)}?" if near else ""
    return (
        f"there is no format called {text!r}.{meant} Known are {', '.join(catalogue.ENTRIES)}; or give the server's "
        f"format string itself, such as '$remote_addr [$time_local] \"$request\" $status'"
    )


def _verbatim(text: str) -> Format:
    syntax = _syntax(text)
    if syntax == "Envoy":
        program: Program = envoy.compile_format(text)
        return Format("envoy format", program, text, title="an Envoy format string")
    if syntax == "nginx":
        return Format("nginx log_format", nginx.compile_format(text), text, title="an nginx log_format")
    return _apache("Apache LogFormat", text, "an Apache LogFormat")


def _apache(name: str, text: str, title: str) -> Format:
    program = apache.compile_format(text)
    taken = "request_time" in program.fields and "duration_s" not in program.fields
    return Format(name, program, text, title=title, twins={"duration_s": "request_time"} if taken else {})


def _keyword(text: str) -> str:
    return text.split(None, 1)[0].lower()


def _syntax(text: str) -> str:
    """Whose format string this is: by its directive, else by how many of its variables each would find."""
    if _keyword(text) in _APACHE_KEYWORDS:
        return "Apache"
    if _keyword(text) == _NGINX_KEYWORD or text.startswith("escape="):
        return "nginx"
    if text.count("$") > text.count("%"):
        return "nginx"
    operators = text.split("%")[1::2]
    if operators and any(_is_operator(operator) for operator in operators):
        return "Envoy"
    return "Apache" if "%" in text else "nginx"


def _is_operator(text: str) -> bool:
    name = text.partition("(")[0].partition(":")[0]
    return len(name) >= 3 and name.isascii() and name.replace("_", "").isalnum() and name.isupper()


def _runnable(format: Format) -> Format:
    """`format`, unless it goes beyond a limit of the scan (the length of a literal, the parts of a time)."""
    try:
        Scanner(format.program, [])
    except ValueError as error:
        raise FormatError(f"the format cannot be run: {error}") from error
    return format


def _check_encoding(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise FormatError(f"the format is not UTF-8 at character {error.start + 1}") from error


def _in_configuration(name: str, path: Path) -> Format:
    found = server_config.find(path, name)
    title = f"{found.server}'s {found.name} of {found.where}"
    try:
        _check_encoding(found.template)
        if found.server == "nginx":
            program = nginx.compile_template(found.template, found.escape)
            return _runnable(Format(found.name, program, found.template, title=title))
        return _runnable(_apache(found.name, found.template, title))
    except FormatError as error:
        raise FormatError(f"{found.where}: {error}") from error
