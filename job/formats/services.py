"""Formats that a service fixes: load balancers, CDNs and proxies whose columns nobody configures.

Each is a template of `{column}`s; a column without a meaning of its own is a text under its name. Columns that a service
has appended over the years may be missing, and ones it will append are no reason to reject a line.
"""

from __future__ import annotations

from msgspec.structs import replace

from job.formats import json_documents
from job.formats.assembly import assemble
from job.formats.boundaries import Piece
from job.formats.fields import (
    CLF_TIME,
    Meaning,
    address_port,
    integer,
    moment,
    person,
    request,
    seconds,
    status,
    text,
    timer,
    uri,
    word,
)
from job.formats.program import Content, Extent, JsonProgram, LineProgram, Step
from job.types import STRING

ISO_MICROS = b"%Y-%m-%dT%H:%M:%S.%f%z"


def _line(template: str, *meanings: Meaning) -> LineProgram:
    known = {meaning.name: meaning for meaning in meanings}
    pieces: list[Piece] = []
    for part in template.split("{"):
        column, brace, literal = part.partition("}")
        if brace:
            pieces.append(known.get(column) or word(column))
        pieces.append((literal if brace else column).encode())
    return assemble(pieces)


def _placed(program: LineProgram, output: str) -> int:
    """How many steps there are up to the field called `output`."""
    return 1 + next(index for index, step in enumerate(program.steps) if output in step.outputs)


def _growing(program: LineProgram, last_required: str) -> LineProgram:
    return replace(program, required=_placed(program, last_required), open_end=True)


_ELB_TIMES = [seconds(f"{who}_processing_time") for who in ("request", "target", "response")]
_ELB = (
    replace(address_port("remote_addr", "remote_port"), name="client"),
    *_ELB_TIMES,
    status(),
    status("target_status"),
    integer("bytes_received"),
    integer("bytes"),
    request(),
    text("user_agent"),
)
_ELB_COLUMNS = (
    "{elb} {client} {target} {request_processing_time} {target_processing_time} {response_processing_time} "
    '{status} {target_status} {bytes_received} {bytes} "{request}"'
)


def alb() -> LineProgram:
    """https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-access-logs.html"""
    program = _line(
        "{type} {time} " + _ELB_COLUMNS + ' "{user_agent}" {ssl_cipher} {ssl_protocol} {target_group_arn} '
        '"{trace_id}" "{vhost}" "{chosen_cert_arn}" {matched_rule_priority} {request_creation_time} '
        '"{actions_executed}" "{redirect_url}" "{error_reason}" "{targets}" "{target_statuses}" '
        '"{classification}" "{classification_reason}" {conn_trace_id} '
        '"{transformed_host}" "{transformed_uri}" "{request_transform_status}"',
        *_ELB,
        moment("time", ISO_MICROS),
        moment("request_creation_time", ISO_MICROS, "request_creation_time"),
        timer("matched_rule_priority"),
    )
    return _growing(program, "trace_id")


def elb() -> LineProgram:
    """https://docs.aws.amazon.com/elasticloadbalancing/latest/classic/access-log-collection.html"""
    program = _line(
        "{time} " + _ELB_COLUMNS + ' "{user_agent}" {ssl_cipher} {ssl_protocol}', *_ELB, moment("time", ISO_MICROS)
    )
    return replace(program, required=_placed(program, "request"))  # the service is frozen: its columns grow no more


def s3() -> LineProgram:
    """https://docs.aws.amazon.com/AmazonS3/latest/userguide/LogFormat.html"""
    program = _line(
        "{bucket_owner} {bucket} [{time}] {remote_addr} {user} {request_id} {operation} {key} {request} "
        "{status} {error_code} {bytes} {object_size} {total_time_ms} {turn_around_time_ms} "
        "{referer} {user_agent} {version_id} {host_id} {signature_version} {ssl_cipher} "
        "{authentication_type} {vhost} {ssl_protocol} {access_point_arn} {acl_required}",
        moment("time", CLF_TIME),
        *(replace(meaning, loose=True) for meaning in (request(), text("referer"), text("user_agent"))),
        status(),
        integer("bytes"),
        integer("object_size"),
        timer("total_time_ms"),
        timer("turn_around_time_ms"),
    )
    return _growing(program, "user_agent")


def _haproxy(template: str) -> LineProgram:
    program = _line(
        template,
        replace(address_port("remote_addr", "remote_port"), name="client"),
        moment("time", b"%d/%b/%Y:%H:%M:%S.%f"),
        replace(word("server"), nulls=(b"<NOSRV>",)),
        timer("status"),  # -1: none was sent
        timer("bytes"),  # +1: at least so many, with option logasap
        replace(request(), nulls=(b"<BADREQ>",)),
        *(timer(name) for name in ("tq_ms", "tw_ms", "tc_ms", "tr_ms", "tt_ms")),
        *(
            timer(name)
            for name in ("actconn", "feconn", "beconn", "srv_conn", "retries", "srv_queue", "backend_queue")
        ),
    )
    header = Step(Extent.SYSLOG, Content.TEXT, (None,), dash_null=False)
    return replace(program, steps=(header, *program.steps))


_HAPROXY_HTTPS = (
    "{fc_err}/{ssl_fc_err}/{ssl_c_err}/{ssl_c_ca_err}/{ssl_fc_is_resumed} "
    "{requested_server_name}/{ssl_protocol}/{ssl_cipher}"
)
_HAPROXY_CONNECTIONS = "{actconn}/{feconn}/{beconn}/{srv_conn}/{retries} {srv_queue}/{backend_queue}"


def haproxy_http() -> LineProgram:
    """https://docs.haproxy.org/3.0/configuration.html#8.2.3"""
    program = _haproxy(
        "{client} [{time}] {frontend} {backend}/{server} {tq_ms}/{tw_ms}/{tc_ms}/{tr_ms}/{tt_ms} {status} {bytes} "
        "{captured_request_cookie} {captured_response_cookie} {termination_state} "
        + _HAPROXY_CONNECTIONS + ' "{request}"'
    )
    captures = ("captured_request_headers", "captured_response_headers")
    braces = [Step(Extent.BRACES, Content.TEXT, (name,), b" ", dash_null=False) for name in captures]
    # The captures may be absent, so the request's opening quote needs a step of its own: nothing may stand before it.
    quote = Step(Extent.TEXT, Content.INTEGER, (None,), b'"', dash_null=False, nulls=(b"",))
    *columns, request_line = program.steps
    columns[-1] = replace(columns[-1], until=b" ")
    https = _line(_HAPROXY_HTTPS)  # what `option httpslog` writes behind the request
    steps = (*columns, *braces, quote, replace(request_line, until=b'" '))
    fields = {**program.fields, **dict.fromkeys(captures, STRING), **https.fields}
    return replace(program, fields=fields, steps=(*steps, *https.steps), required=len(steps))


def haproxy_tcp() -> LineProgram:
    """https://docs.haproxy.org/3.0/configuration.html#8.2.2"""
    return _haproxy(
        "{client} [{time}] {frontend} {backend}/{server} {tw_ms}/{tc_ms}/{tt_ms} {bytes} {termination_state} "
        + _HAPROXY_CONNECTIONS
    )


def squid() -> LineProgram:
    """https://wiki.squid-cache.org/Features/LogFormat, its native format: columns are padded with blanks."""
    program = _line(
        "{time} {duration_ms} {remote_addr} {result}/{status} {bytes} {method} {uri} {user} "
        "{hierarchy}/{peer} {content_type}",
        moment("time", b"%s"),
        timer("duration_ms"),
        status(),
        integer("bytes"),
        replace(uri("uri"), word=True),
    )
    return replace(program, blank_run=True)


def traefik() -> LineProgram:
    """https://doc.traefik.io/traefik/observability/access-logs/, its common log format."""
    return _line(
        '{remote_addr} {ident} {user} [{time}] "{request}" {status} {bytes} "{referer}" "{user_agent}" '
        '{request_count} "{router}" "{backend_url}" {duration_ms}ms',
        person("user"),
        moment("time", CLF_TIME),
        request(),
        integer("status"),  # 0: none was sent
        integer("bytes"),
        integer("request_count"),
        timer("duration_ms"),
    )


def cloud_storage() -> LineProgram:
    """https://cloud.google.com/storage/docs/access-logs#format"""
    columns = (
        "time remote_addr ip_type ip_region method uri status bytes_received bytes time_taken_us vhost referer "
        "user_agent request_id operation bucket key"
    )
    program = _line(
        '"' + '","'.join("{" + column + "}" for column in columns.split()) + '"',
        moment("time", b"%U"),
        uri("uri"),
        status(),
        integer("bytes_received"),
        integer("bytes"),
        timer("time_taken_us", "duration_us"),
    )
    return replace(program, open_end=False)


def caddy() -> JsonProgram:
    """https://caddyserver.com/docs/logging; a value of a header is the first one."""
    return json_documents.program(
        (
            (moment("ts", b"%+"), ("ts",)),
            (replace(seconds("time_unix"), lenient=True), ("ts",)),  # a text with another time_format
            (word("remote_addr"), ("request.remote_ip",)),
            (integer("remote_port"), ("request.remote_port",)),
            (word("client_ip"), ("request.client_ip",)),
            (text("user"), ("user_id",)),
            (replace(word("method"), required=True), ("request.method",)),
            (uri("uri"), ("request.uri",)),
            (word("protocol"), ("request.proto",)),
            (text("vhost"), ("request.host",)),
            (integer("status"), ("status",)),
            (integer("bytes"), ("size",)),
            (integer("bytes_received"), ("bytes_read",)),
            (replace(seconds("request_time"), lenient=True), ("duration",)),  # a text with another duration_format
            (text("referer"), ("request.headers.Referer",)),
            (text("user_agent"), ("request.headers.User-Agent",)),
            (text("xff"), ("request.headers.X-Forwarded-For",)),
            (text("cookie"), ("request.headers.Cookie",)),
            (text("content_type"), ("resp_headers.Content-Type",)),
        )
    )


def traefik_json() -> JsonProgram:
    """https://doc.traefik.io/traefik/observability/access-logs/#available-fields; durations are nanoseconds."""
    return json_documents.program(
        (
            (moment("StartUTC", b"%+"), ("StartUTC", "StartLocal", "time")),
            (word("remote_addr"), ("ClientHost",)),
            (integer("remote_port"), ("ClientPort",)),
            (text("user"), ("ClientUsername",)),
            (replace(word("method"), required=True), ("RequestMethod",)),
            (uri("uri"), ("RequestPath",)),
            (word("protocol"), ("RequestProtocol",)),
            (word("scheme"), ("RequestScheme",)),
            (text("vhost"), ("RequestHost",)),
            (integer("server_port"), ("RequestPort",)),
            (integer("status"), ("DownstreamStatus",)),
            (integer("bytes"), ("DownstreamContentSize",)),
            (integer("bytes_received"), ("RequestContentSize",)),
            (integer("duration_ns"), ("Duration",)),
            (integer("origin_status"), ("OriginStatus",)),
            (integer("origin_duration_ns"), ("OriginDuration",)),
            (integer("overhead_ns"), ("Overhead",)),
            (text("referer"), ("request_Referer",)),
            (text("user_agent"), ("request_User-Agent",)),
            (text("xff"), ("request_X-Forwarded-For",)),
            (integer("request_count"), ("RequestCount",)),
            (integer("retry_attempts"), ("RetryAttempts",)),
            (text("router"), ("RouterName",)),
            (text("backend_url"), ("ServiceURL.Host", "ServiceURL")),
            (text("ssl_protocol"), ("TLSVersion",)),
            (text("ssl_cipher"), ("TLSCipher",)),
            (text("entry_point"), ("entryPointName",)),
        )
    )
