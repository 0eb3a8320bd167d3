"""The format `json`: any object per line.

Keys that web logs are known to use are fields under their canonical name and type, whichever of the usual names the
writer chose (nginx's variables, the Elastic Common Schema, OpenTelemetry). They are guesses, so a value that does not fit
is NULL and no reason to reject the line. Every other key is a STRING, nested ones by dots.
"""

from __future__ import annotations

from msgspec.structs import replace

from job.formats.fields import integer, moment, seconds, text, uri
from job.formats.json_documents import program, split_path
from job.formats.program import Content, JsonPath, JsonProgram

_KEYS = (
    (
        moment("time", b"%+"),
        "time timestamp @timestamp ts datetime date time_iso8601 time_local msec start_time",
    ),
    (text("remote_addr"), "remote_addr client_ip remote_ip clientip client.address client.ip source.ip ip"),
    (integer("remote_port"), "remote_port client.port source.port"),
    (text("user"), "user remote_user user.name"),
    (text("method"), "method request_method http.request.method verb"),
    (uri("uri"), "uri request_uri url.original"),
    (text("protocol"), "protocol server_protocol"),
    (integer("status"), "status status_code http.response.status_code response_code"),
    (integer("bytes"), "bytes body_bytes_sent http.response.body.bytes http.response.body.size bytes_sent size"),
    (integer("bytes_received"), "bytes_received request_length http.request.bytes http.request.size"),
    (text("referer"), "referer http_referer referrer http.request.referrer"),
    (text("user_agent"), "user_agent http_user_agent user_agent.original agent"),
    (text("xff"), "xff http_x_forwarded_for x_forwarded_for"),
    (text("vhost"), "vhost host http_host server_name url.domain server.address"),
    (integer("server_port"), "server_port server.port url.port"),
    (text("scheme"), "scheme url.scheme"),
    (seconds("request_time"), "request_time"),
    (integer("duration_ms"), "duration_ms"),
)
_OVERRIDES = (("path", "path url.path"), ("query", "query args query_string url.query"))
"""Parts of the target that a document may log on their own; without them they are cut from `uri`."""


def build() -> JsonProgram:
    """The program of the format."""
    guessed = program(tuple((replace(meaning, lenient=True), _paths(keys)) for meaning, keys in _KEYS))
    parts = tuple(
        JsonPath(tuple(map(split_path, _paths(keys))), Content.TEXT, (name,), overrides=True)
        for name, keys in _OVERRIDES
    )
    return replace(guessed, values=guessed.values + parts)


def _paths(keys: str) -> tuple[str, ...]:
    """Each key as it stands, and one with dots also as the literal key of a flat document."""
    found: list[str] = []
    for key in keys.split():
        found.append(key)
        if "." in key:
            found.append(key.replace(".", "\\."))
    return tuple(found)
