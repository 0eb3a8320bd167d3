"""Envoy's access log format strings: `%COMMAND_OPERATORS%` between literal text, compiled to a scan program.

https://www.envoyproxy.io/docs/envoy/latest/configuration/observability/access_log/usage lists the operators. Text
formats do not escape values; a missing value is `-`.
"""

from __future__ import annotations

from job.errors import FormatError
from job.formats.assembly import Quoting, assemble
from job.formats.boundaries import Piece
from job.formats.fields import (
    Meaning,
    address_port,
    identifier,
    integer,
    moment,
    request_header,
    response_header,
    text,
    uri,
    word,
)
from job.formats.program import LineProgram
from job.formats.strftime import to_layout
from job.formats.templates import pieces_at

DEFAULT = (
    '[%START_TIME%] "%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%" %RESPONSE_CODE% %RESPONSE_FLAGS% '
    "%BYTES_RECEIVED% %BYTES_SENT% %DURATION% %RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% "
    '"%REQ(X-FORWARDED-FOR)%" "%REQ(USER-AGENT)%" "%REQ(X-REQUEST-ID)%" "%REQ(:AUTHORITY)%" "%UPSTREAM_HOST%"'
)
"""The format of an access log that configures none."""
ISTIO = (
    '[%START_TIME%] "%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%" %RESPONSE_CODE% %RESPONSE_FLAGS% '
    '%RESPONSE_CODE_DETAILS% %CONNECTION_TERMINATION_DETAILS% "%UPSTREAM_TRANSPORT_FAILURE_REASON%" '
    "%BYTES_RECEIVED% %BYTES_SENT% %DURATION% %RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% "
    '"%REQ(X-FORWARDED-FOR)%" "%REQ(USER-AGENT)%" "%REQ(X-REQUEST-ID)%" "%REQ(:AUTHORITY)%" "%UPSTREAM_HOST%" '
    "%UPSTREAM_CLUSTER_RAW% %UPSTREAM_LOCAL_ADDRESS% %DOWNSTREAM_LOCAL_ADDRESS% %DOWNSTREAM_REMOTE_ADDRESS% "
    "%REQUESTED_SERVER_NAME% %ROUTE_NAME%"
)
"""What Istio configures: https://istio.io/latest/docs/tasks/observability/logs/access-log/"""

_START_TIME = "%Y-%m-%dT%H:%M:%S.%f%z"
# The code is 0 when no response was sent, so it is not always of three digits.
_MEANINGS = (
    integer("response_code", "status"),
    word("protocol"),
    word("response_flags"),
    integer("bytes_received"),
    integer("bytes_sent", "bytes"),
    integer("duration", "duration_ms"),
    integer("request_duration", "request_duration_ms"),
    integer("request_tx_duration", "request_tx_duration_ms"),
    integer("response_duration", "response_duration_ms"),
    integer("response_tx_duration", "response_tx_duration_ms"),
    integer("connection_id"),
    integer("upstream_request_attempt_count"),
    word("upstream_host", "upstream_addr"),
    word("upstream_remote_address"),
    word("upstream_local_address"),
    word("upstream_cluster"),
    word("upstream_cluster_raw"),
    word("response_code_details"),
    word("route_name"),
    word("downstream_local_address", "server_address"),
    word("downstream_local_address_without_port", "server_addr"),
    integer("downstream_local_port", "server_port"),
    integer("downstream_remote_port", "remote_port"),
    text("downstream_tls_version", "ssl_protocol"),
    text("downstream_tls_cipher", "ssl_cipher"),
    text("requested_server_name"),
    *(
        integer(f"{side}_wire_bytes_{way}")
        for side in ("upstream", "downstream")
        for way in ("sent", "received")
    ),
)
_OPERATORS = {meaning.name: meaning for meaning in _MEANINGS}
_ADDRESSES = {
    "downstream_remote_address": address_port("remote_addr", "remote_port"),
    "downstream_remote_address_without_port": word("downstream_remote_address", "remote_addr"),
    "downstream_direct_remote_address": address_port("direct_addr", "direct_port"),
    "downstream_direct_remote_address_without_port": word("direct_addr"),
}
_REQUEST = {
    ":method": word("request_method", "method"),
    ":path": uri("request_path"),
    "x_envoy_original_path": uri("request_path"),
    ":authority": text("authority", "vhost"),
    ":scheme": text("request_scheme", "scheme"),
}


def compile_format(format_text: str) -> LineProgram:
    """The program for a verbatim format string. Raises FormatError."""
    template = format_text.strip("\r\n")
    return assemble(pieces_of(template.removesuffix("\\n").replace("\\n", "\n")), Quoting.NONE_DASH)


def pieces_of(template: str) -> list[Piece]:
    """Literals and meanings of a template. Raises FormatError for an operator that does not end."""
    return pieces_at("%", template, _operator)


def _operator(template: str, percent: int) -> tuple[list[Piece], int]:
    """What the operator at `percent` means, and the index behind it."""
    if template[percent : percent + 2] == "%%":
        return [b"%"], percent + 2
    end = _operator_end(template, percent)
    return [meaning_of(template[percent + 1 : end]).labelled(template[percent : end + 1], percent + 1)], end + 1


def _operator_end(template: str, percent: int) -> int:
    """The index of the percent sign that ends the operator; those in its parentheses do not count."""
    depth = 0
    for index in range(percent + 1, len(template)):
        letter = template[index]
        depth += (letter == "(") - (letter == ")")
        if letter == "%" and depth <= 0:
            return index
    raise FormatError(f"column {percent + 1} of the format: the operator is not closed by a percent sign")


def meaning_of(operator: str) -> Meaning:
    """What the operator between two percent signs stands for; one that is not known is a text under its own name."""
    name, _, argument = operator.partition("(")
    argument = argument.partition(")")[0]
    name = name.partition(":")[0].lower()
    if name == "start_time":
        layout = to_layout(_from_envoy(argument)) if argument else _START_TIME
        return moment("start_time", layout.encode())
    if name == "req":
        return _request_header(argument)
    if name == "resp":
        if identifier(argument) == "x_envoy_upstream_service_time":
            return integer("upstream_service_time_ms")
        return response_header(argument)
    if argument:
        return text(identifier(f"{name}_{argument}"))
    return _ADDRESSES.get(name) or _OPERATORS.get(name) or text(identifier(name))


def _request_header(argument: str) -> Meaning:
    """REQ(FIRST?SECOND): the header that is logged when it is there, else the second one."""
    for header in argument.split("?"):
        name = header.lower() if header.startswith(":") else identifier(header)
        if name in _REQUEST:
            return _REQUEST[name]
    return request_header(argument.split("?")[-1])


def _from_envoy(text: str) -> str:
    """START_TIME's own directives for fractions in those of strftime."""
    for digits in "123456789":
        text = text.replace(f"%{digits}f", "%f").replace(f"%E{digits}S", "%S.%f")
    text = text.replace("%E*S", "%S.%f").replace("%E*f", "%f").replace("%Ez", "%z")
    return text.replace("%s.%f", "%s")
