"""Further names of fields: what nginx, Apache, W3C logs, the Elastic Common Schema and OpenTelemetry call them.

docs/FORMATS.md has the table, which a test compares with this one.
"""

from __future__ import annotations

from collections.abc import Collection

_BY_FIELD = {
    "remote_addr": "remote_host c_ip client_ip source.ip client.address",
    "remote_port": "c_port source.port client.port",
    "ident": "remote_logname",
    "user": "remote_user cs_username user.name",
    "time": "time_local time_iso8601 msec @timestamp",
    "request": "request_line",
    "method": "request_method cs_method http.request.method",
    "uri": "request_uri url.original",
    "path": "cs_uri_stem url_path url.path",
    "query": "args query_string cs_uri_query url.query",
    "protocol": "server_protocol request_protocol cs_version",
    "status": "sc_status status_code http.response.status_code",
    "bytes": "body_bytes_sent sc_bytes http.response.body.bytes http.response.body.size",
    "bytes_received": "request_length cs_bytes http.request.bytes http.request.size",
    "referer": "http_referer referrer http.request.referrer",
    "user_agent": "http_user_agent user_agent.original",
    "vhost": "host http_host cs_host server_name url.domain",
    "server_addr": "s_ip",
    "server_port": "s_port url.port",
    "scheme": "url.scheme",
    "xff": "http_x_forwarded_for x_forwarded_for",
    "cookie": "http_cookie",
    "duration_ms": "time_taken_ms",
}
ALIASES = {alias: field for field, aliases in _BY_FIELD.items() for alias in aliases.split()}
"""Alias to canonical name."""


def aliases_of(fields: Collection[str]) -> dict[str, str]:
    """The aliases that mean something where `fields` are the fields; a field of that very name goes before."""
    return {alias: field for alias, field in ALIASES.items() if field in fields and alias not in fields}
