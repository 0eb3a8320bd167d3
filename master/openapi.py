"""The API for programs: an OpenAPI 3.1 document, written by hand. A test holds it against the routes and the answers."""

from __future__ import annotations

from typing import Any

from job.settings import SQL_CHARS_MAX, Settings
from master.openapi_schemas import EXAMPLES, SCHEMAS
from master.problems import KINDS, MEDIA_TYPE
from master.result_documents import STATUSES

_Json = dict[str, Any]
_TIME = {"type": "string", "description": "RFC 3339; or -10m: so long before now"}
_GUARDED = ("unauthorized", "forbidden", "too-many", "timeout", "internal")
_OF_JOB = ("unknown", "no-master", "unreachable", "busy", "loop")


def _ref(name: str) -> _Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _query(name: str, schema: _Json, description: str) -> _Json:
    return {"name": name, "in": "query", "schema": schema, "description": description}


def _path(name: str, example: str, description: str) -> _Json:
    text = {"type": "string"}
    return {
        "name": name, "in": "path", "required": True, "schema": text, "example": example, "description": description
    }  # fmt: skip


def _header(name: str, description: str, required: bool = False) -> _Json:
    return {
        "name": name,
        "in": "header",
        "required": required,
        "schema": {"type": "string"},
        "description": description,
    }


def _content(schema: str) -> _Json:
    return {"application/json": {"schema": _ref(schema)}}


def _operation(
    summary: str,
    answers: dict[str, _Json],
    *problems: str,
    body: str = "",
    body_type: str = "application/json",
    body_required: bool = True,
    parameters: tuple[_Json, ...] = (),
) -> _Json:
    """`problems` are kinds of master/problems.py, beside those that every guarded operation has."""
    responses = dict(answers)
    for kind in (*problems, "invalid", *_GUARDED):
        status = str(KINDS[kind].status)
        if status not in responses:
            responses[status] = {
                "description": KINDS[kind].title,
                "content": {MEDIA_TYPE: {"schema": _ref("Problem")}},
            }
    operation: _Json = {
        "summary": summary,
        "parameters": list(parameters),
        "responses": dict(sorted(responses.items())),
    }
    if body:
        operation["requestBody"] = {
            "required": body_required,
            "content": {body_type: {"schema": _ref(body), "example": EXAMPLES[body]}},
        }
    return operation


def _ok(schema: str, description: str = "as asked") -> _Json:
    return {"description": description, "content": _content(schema)}


_REVISION = {"ETag": {"schema": {"type": "string"}, "description": "the revision of the job, for If-Match"}}


def _job(description: str = "the job") -> _Json:
    return {**_ok("Job", description), "headers": _REVISION}


_TEXT = {"200": {"description": "as Prometheus reads it", "content": {"text/plain": {"schema": {"type": "string"}}}}}
_NAME = _path("name", "hot", "of the job")
_IF_MATCH = _header("If-Match", 'the revision that is changed, as ETag had it ("3"), or *')
_ROWS = _query("rows", {"type": "integer", "minimum": 0}, "so many rows of each window; default all")
_STATUS = _query("status", {"enum": list(STATUSES)}, "only windows of this status")
_START = _query("start", _TIME, "the change owns windows from here on; default: as soon as no line is missed")
_CHANGE = ("unknown", "stale", "unconditional", "sql", "media-type", "too-large", *_OF_JOB)


def _jobs_paths() -> _Json:
    listed = (
        _query("state", {"enum": ["running", "stopped", "removed"]}, "only jobs in this state"),
        _query("source", {"type": "string"}, "only jobs over this source"),
        _query("after", {"type": "string"}, "names behind this one: `next` of the page before"),
        _query("limit", {"type": "integer", "minimum": 1, "maximum": 10_000}, "jobs of a page; default 1000"),
    )
    submitted = {"200": _job("the job was there already, just so"), "201": _job("made")}
    return {
        "/v1/jobs": {
            "get": _operation("All jobs, in short", {"200": _ok("Jobs")}, parameters=listed),
            "post": _operation(
                "Make a job; the same once more is no error",
                submitted,
                "exists",
                "sql",
                "media-type",
                "too-large",
                *_OF_JOB,
                body="NewJob",
            ),
        },
        "/v1/validate": {
            "post": _operation(
                "What a job would do, or what is wrong with it",
                {"200": _ok("Validation")},
                "media-type",
                "too-large",
                "busy",
                body="NewJob",
            )
        },
    }


def _job_paths() -> _Json:
    made = {"200": _job("the job with its new revision")}
    kept = (_NAME, _IF_MATCH)
    return {
        "/v1/jobs/{name}": {
            "get": _operation("A job in full", {"200": _job()}, *_OF_JOB, parameters=(_NAME,)),
            "put": _operation(
                "Replace query, settings and parameters",
                made,
                *_CHANGE,
                body="JobBody",
                parameters=(*kept, _START),
            ),
            "patch": _operation(
                "Change some of them (RFC 7396)",
                made,
                *_CHANGE,
                body="JobPatch",
                body_type="application/merge-patch+json",
                parameters=(*kept, _START),
            ),
            "delete": _operation(
                "Remove the job and its results",
                {"204": {"description": "removed"}},
                "stale",
                *_OF_JOB,
                parameters=kept,
            ),
        },
    }


def _job_action_paths() -> _Json:
    return {
        "/v1/jobs/{name}/validate": {
            "post": _operation(
                "What a PATCH with this body would make of the job",
                {"200": _ok("Validation")},
                "media-type",
                "too-large",
                *_OF_JOB,
                body="JobPatch",
                parameters=(_NAME,),
            )
        },
        "/v1/jobs/{name}/changes": {
            "get": _operation("All revisions of a job", {"200": _ok("Changes")}, *_OF_JOB, parameters=(_NAME,))
        },
        "/v1/jobs/{name}/stop": {
            "post": _operation(
                "Read no more lines for the job",
                {"200": _job()},
                "stale",
                "media-type",
                "too-large",
                *_OF_JOB,
                body="Stop",
                body_required=False,
                parameters=(_NAME, _IF_MATCH),
            )
        },
        "/v1/jobs/{name}/recover": {
            "post": _operation(
                "Let a job go on from the log of this node alone, when a majority of its members is lost for good",
                {"200": _job()},
                "media-type",
                "too-large",
                *_OF_JOB,
                body="Confirm",
                parameters=(_NAME,),
            )
        },
        "/v1/jobs/{name}/agents/{agent}/forget": {
            "post": _operation(
                "Wait for an agent no longer",
                {"200": _job()},
                "media-type",
                "too-large",
                *_OF_JOB,
                parameters=(_NAME, _path("agent", "web1", "its name")),
            )
        },
    }


def _backfill_paths() -> _Json:
    taken = {"200": _ok("Ingested", "all of them are committed and stored")}
    return {
        "/v1/jobs/{name}/backfill": {
            "post": _operation(
                "What a backfill has to compute; nothing is kept",
                {"200": _ok("BackfillScope")},
                "media-type",
                "too-large",
                *_OF_JOB,
                body="Backfill",
                body_required=False,
                parameters=(_NAME,),
            )
        },
        "/v1/jobs/{name}/backfill/windows": {
            "put": _operation(
                "Windows that were computed elsewhere, a JSON document each line; the same once more changes nothing",
                taken,
                "media-type",
                "too-large",
                *_OF_JOB,
                body="GivenWindow",
                body_type="application/x-ndjson",
                parameters=(_NAME,),
            )
        },
    }


def _result_paths() -> _Json:
    page = (
        _NAME,
        _query("from", _TIME, "windows that start then or later"),
        _query("to", _TIME, "windows that start before"),
        _query("limit", {"type": "integer", "minimum": 1, "maximum": 1000}, "windows of a page; default 100"),
        _STATUS,
        _query("all", {"type": "boolean"}, "all editions of a window, not the latest alone"),
        _query("after", {"type": "string"}, "`next` of the page before"),
        _ROWS,
        _query("format", {"enum": ["json", "ndjson", "csv", "arrow"]}, "instead of Accept"),
    )
    forms = {
        **_content("Results"),
        "application/x-ndjson": {"schema": _ref("Result")},
        "text/csv": {"schema": {"type": "string"}},
        "application/vnd.apache.arrow.stream": {"schema": {"type": "string", "format": "binary"}},
    }
    stream = (
        _NAME,
        _header("Last-Event-ID", "id of the last event that was seen: what came after it follows"),
        _query("after", {"type": "integer", "minimum": 0}, "the same, at first; 0: all; default: only what is new"),
        _STATUS,
        _ROWS,
    )  # fmt: skip
    link = {"Link": {"schema": {"type": "string"}, "description": "the next page"}}
    streamed = {"text/event-stream": {"schema": {"type": "string"}}}
    return {
        "/v1/jobs/{name}/results": {
            "get": _operation(
                "Windows in order of time",
                {"200": {"description": "a page", "headers": link, "content": forms}},
                "not-acceptable",
                *_OF_JOB,
                parameters=page,
            )
        },
        "/v1/jobs/{name}/results/stream": {
            "get": _operation(
                "Windows as they are published (server-sent events: result, gap, reset, end)",
                {"200": {"description": "events without end", "content": streamed}},
                *_OF_JOB,
                parameters=stream,
            )
        },
        "/v1/jobs/{name}/metrics": {
            "get": _operation(
                "Numbers of the latest final window, as series", _TEXT, *_OF_JOB, parameters=(_NAME,)
            )
        },
    }


def _fleet_paths() -> _Json:
    document = {"application/json": {"schema": {"type": "object"}}}
    healthy = _operation("Whether the process answers", {"200": _ok("State")})
    ready = _operation("Whether the node can do its work; what not is named", {"200": _ok("State")}, "not-ready")
    return {
        "/v1/jobs/{name}/tree": {
            "get": _operation(
                "The vertices of the job's reducer tree, each as it tells of itself",
                {"200": _ok("Vertex")},
                *_OF_JOB,
                parameters=(
                    _NAME,
                    _query("depth", {"type": "integer", "minimum": 0}, "levels below the root"),
                    _query("nodes", {"type": "integer", "minimum": 1}, "vertices in all"),
                    _query("within", {"type": "integer", "minimum": 1}, "milliseconds to wait for the others"),
                    _query("here", {"type": "boolean"}, "from the node that is asked downwards"),
                ),
            )
        },
        "/v1/nodes": {"get": _operation("All nodes that are known", {"200": _ok("Nodes")})},
        "/v1/nodes/{node}": {
            "get": _operation(
                "A node, from itself",
                {"200": _ok("Node")},
                *_OF_JOB,
                parameters=(_path("node", "self", "its name, address or id, or self"),),
            )
        },
        "/v1/sources": {"get": _operation("What jobs may ask of", {"200": _ok("Sources")})},
        "/v1/openapi.json": {"get": _operation("This", {"200": {"description": "OpenAPI 3.1", "content": document}})},
        "/v1/problems/{kind}": {
            "get": _operation(
                "What the type of a problem means",
                {"200": _ok("ProblemKind")},
                "not-found",
                parameters=(_path("kind", "stale", "the last part of the type"),),
            )
        },
        "/-/reload": {
            "post": _operation(
                "Read the configuration of this node again, as SIGHUP does",
                {"200": _ok("Reloaded", "it is in force, but for what takes a restart")},
                "configuration",
            )
        },
        "/metrics": {"get": _operation("Counters of this node", _TEXT)},
        "/healthz": {"get": {**healthy, "security": []}},
        "/readyz": {"get": {**ready, "security": []}},
    }


def openapi() -> _Json:
    """The document."""
    settings = {
        name: {"description": f"default {value!r}", "type": [_json_type(value), "null"]}
        for name, value in Settings().shown().items()
    }
    schemas = {
        **SCHEMAS,
        "Settings": {"type": "object", "properties": settings, "additionalProperties": False},
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "elfstream",
            "version": "1",
            "description": f"Jobs over the logs of a fleet. Any node answers. Queries: at most {SQL_CHARS_MAX} characters.",
        },
        "security": [{"token": []}],
        "paths": {
            **_jobs_paths(), **_job_paths(), **_job_action_paths(), **_backfill_paths(), **_result_paths(), **_fleet_paths()
        },
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": schemas,
        },
    }


def _json_type(value: object) -> str:
    return {bool: "boolean", int: "integer"}.get(type(value), "string")
