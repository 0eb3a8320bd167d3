"""The documents of the API as JSON schemas; settings are added by master/openapi.py."""

from __future__ import annotations

from typing import Any

from job.derived import COLUMNS_MAX

_Json = dict[str, Any]
_TEXT = {"type": "string"}
_WHOLE = {"type": "integer"}
_FLAG = {"type": "boolean"}
_TIME = {"type": "string", "format": "date-time"}


def _object(members: _Json, *optional: str) -> _Json:
    return {
        "type": "object",
        "properties": members,
        "required": [name for name in members if name not in optional],
        "additionalProperties": False,
    }


def _or_null(schema: _Json) -> _Json:
    return {"anyOf": [schema, {"type": "null"}]}


def _list(schema: _Json) -> _Json:
    return {"type": "array", "items": schema}


def _ref(name: str) -> _Json:
    return {"$ref": f"#/components/schemas/{name}"}


_PARAMETERS = {
    "type": "object",
    "description": "values of the :name's of the query",
    "additionalProperties": {"type": ["boolean", "integer", "number", "string", "null"]},
}
_COLUMNS = _list(_object({"name": _TEXT, "type": _TEXT}))
_WHO = {"name": _or_null(_TEXT), "address": _TEXT, "id": _TEXT}
_SPAN = ("from", "to", "revision")
_BODY = {
    "sql": {**_TEXT, "description": "the query; a derived job has none"},
    "settings": _or_null(_ref("Settings")),
    "parameters": _or_null(_PARAMETERS),
    "derived": {**_or_null(_ref("Derived")), "description": "of a job whose windows come by PUT .../backfill/windows"},
}

SCHEMAS: _Json = {
    "JobBody": _object(_BODY, *_BODY),
    "NewJob": _object({"name": _TEXT, **_BODY}, *_BODY),
    "JobPatch": _object(_BODY, *_BODY),
    "Derived": _object(
        {
            "columns": {**_COLUMNS, "minItems": 1, "maxItems": COLUMNS_MAX},
            "size": {**_or_null(_TEXT), "description": "length of its windows; null: one without end"},
            "text": {**_TEXT, "description": "what they come from"},
        },
        "size",
        "text",
    ),
    "Backfill": _object({"from": _or_null(_TEXT), "to": _or_null(_TEXT), "revision": _or_null(_WHOLE)}, *_SPAN),
    "BackfillScope": _object(
        {
            "job": _TEXT,
            "revision": _WHOLE,
            "boundary": {**_TIME, "description": "windows that start here or later are live"},
            "from": {**_or_null(_TIME), "description": "null: from the first line on"},
            "to": _TIME,
            "size_us": _WHOLE,
            "slide_us": _WHOLE,
            "sql": _TEXT,
            "parameters": _PARAMETERS,
            "plan": {**_TEXT, "description": "compiled: base64 of msgpack"},
            "columns": _COLUMNS,
            "sources": _list(_ref("Source")),
        }
    ),
    "GivenWindow": _object(
        {
            "window": {**_or_null(_object({"start": _TIME, "end": _TIME})), "description": "null: without end"},
            "revision": {**_WHOLE, "description": "of the job, whose plan computed it"},
            "columns": _COLUMNS,
            "rows": {**_list(_list({})), "description": "values in the order of the columns"},
            "lines": _WHOLE,
        }
    ),
    "Ingested": _object({"stored": _WHOLE, "same": _WHOLE, "replaced": _WHOLE}),
    "Stop": _object({"drain": {**_FLAG, "description": "read to the end first; then all windows are final"}}, "drain"),
    "Confirm": _object({"confirm": {**_TEXT, "description": "the name of the job once more"}}),
    "Who": _object(_WHO),
    "Coverage": _object(
        {
            "agents": _WHOLE,
            "missing": _list(_TEXT),
            "lines": _WHOLE,
            "rows": _WHOLE,
            "filtered": _WHOLE,
            "rejected": _WHOLE,
            "late": {**_WHOLE, "description": "lines that came when their window was closed, and count in none"},
            "outside": {**_WHOLE, "description": "lines of windows of another plan, or older than the job"},
            "lost_bytes": _WHOLE,
            "shed": _WHOLE,
        }
    ),
    "Rates": _object(
        {
            "over_seconds": {"type": "number", "description": "the span they are told over, up to the last commit"},
            "lines_per_second": {**_or_null({"type": "number"}), "description": "read by all agents; null: derived job"},
            "parsed_per_second": {**_or_null({"type": "number"}), "description": "those that fit the format"},
            "rejected_per_second": {**_or_null({"type": "number"}), "description": "those that do not"},
            "late_per_second": {**_or_null({"type": "number"}), "description": "parsed, but for a window that is closed"},
            "results_per_second": {"type": "number", "description": "published, each edition of a window by itself"},
        }
    ),
    "Job": _object(
        {
            "name": _TEXT,
            "state": _TEXT,
            "wanted": _TEXT,
            "revision": _WHOLE,
            "sql": _or_null(_TEXT),
            "settings": _ref("Settings"),
            "parameters": _PARAMETERS,
            "source": _or_null(_TEXT),
            "columns": _COLUMNS,
            "keys": {**_list(_TEXT), "description": "columns that tell the rows of a window apart"},
            "plan": _or_null(_TEXT),
            "derived": _or_null(_ref("Derived")),
            "created": _TIME,
            "master": _ref("Who"),
            "group": _list(_ref("Who")),
            "coverage": _ref("Coverage"),
            "watermark": _or_null(_TIME),
            "lag_seconds": _or_null({"type": "number"}),
            "rates": {**_or_null(_ref("Rates")), "description": "null: the master has led the job too short a time"},
            "horizon": _or_null(_TIME),
            "windows_open": _WHOLE,
            "results": _WHOLE,
            "delivered": _WHOLE,
            "problem": _or_null(_TEXT),
            "boundary": {**_or_null(_TIME), "description": "windows that start before may be backfilled"},
            "waits_for": {
                **_list(_object({"agent": _TEXT, "watermark": _TIME})),
                "description": "agents that hold windows up",
            },
        }
    ),
    "Jobs": _object(
        {
            "jobs": _list(
                _object(
                    {
                        "name": _TEXT,
                        "source": _or_null(_TEXT),
                        "state": _TEXT,
                        "revision": _WHOLE,
                        "created": _TIME,
                        "changed": _TIME,
                        "problem": {**_or_null(_TEXT), "description": "why no node leads it"},
                    }
                )
            ),
            "next": _or_null(_TEXT),
        }
    ),
    "Changes": _object(
        {
            "name": _TEXT,
            "revision": _WHOLE,
            "changes": _list(
                _object(
                    {
                        "revision": _WHOLE,
                        "sql": _or_null(_TEXT),
                        "settings": _ref("Settings"),
                        "parameters": _PARAMETERS,
                        "start": _or_null(_TIME),
                        "made": _TIME,
                        "state": _TEXT,
                        "problem": _or_null(_TEXT),
                    }
                )
            ),
        }
    ),
    "Validation": _object(
        {
            "valid": _FLAG,
            "source": _TEXT,
            "columns": _COLUMNS,
            "plan": _TEXT,
            "spark_sql": _TEXT,
            "settings": _ref("Settings"),
            "warnings": _list(_TEXT),
            "errors": _list(
                _object(
                    {
                        "detail": _TEXT,
                        "field": _or_null(_TEXT),
                        "position": _or_null({**_WHOLE, "description": "0-based"}),
                        "line": _or_null({**_WHOLE, "description": "1-based"}),
                        "column": _or_null({**_WHOLE, "description": "1-based"}),
                        "advice": _or_null(_TEXT),
                    }
                )
            ),
        },
        *("source", "columns", "plan", "spark_sql", "settings"),
    ),
    "Result": _object(
        {
            "id": _WHOLE,
            "window": _or_null(_object({"start": _TIME, "end": _TIME})),
            "revision": {**_WHOLE, "description": "edition of this window: 1, 2, ..., one for each time it was published"},
            "status": {"enum": ["tentative", "final", "withdrawn"]},
            "plan": _or_null({**_WHOLE, "description": "revision of the job's plan that owns the window"}),
            "published": _TIME,
            "lines": _WHOLE,
            "coverage": _ref("Coverage"),
            "columns": _COLUMNS,
            "origin": {"enum": ["live", "backfill"], "description": "backfill: computed elsewhere"},
            "row_count": _WHOLE,
            "rows": _list({"type": "object"}),
        }
    ),
    "Results": _object(
        {
            "results": _list(_ref("Result")),
            "last": {**_WHOLE, "description": "a stream with after=last goes on without a gap"},
            "next": _or_null(_TEXT),
        }
    ),
    "Vertex": _object(
        {
            **_WHO,
            "role": _or_null({"enum": ["root", "inner", "leaf"]}),
            "agents": _or_null(_WHOLE),
            "frames_in": _or_null(_WHOLE),
            "frames_out": _or_null(_WHOLE),
            "problem": _or_null({**_TEXT, "description": "why the node told nothing"}),
            "children": _list(_ref("Vertex")),
            "hidden": {**_WHOLE, "description": "vertices directly below those shown that are not shown"},
        }
    ),
    "Nodes": _object(
        {
            "nodes": _list(
                _object(
                    {
                        "name": _TEXT,
                        "address": _TEXT,
                        "id": _TEXT,
                        "kind": {"enum": ["agent", "worker"]},
                        "version": _TEXT,
                        "started": _TIME,
                        "told": _TIME,
                        "sources": _list(_TEXT),
                        "left": _FLAG,
                    }
                )
            )
        }
    ),
    "Node": _object(
        {
            **_WHO,
            "kind": {"enum": ["agent", "worker"]},
            "neighbours": _list(_ref("Who")),
            "masters": _list(_object({"key": _TEXT, "job": _or_null(_TEXT)})),
            "memory_bytes": _WHOLE,
            "memory_max": _WHOLE,
        }
    ),
    "Source": _object(
        {
            "name": _TEXT,
            "fields": _COLUMNS,
            "open_fields": _FLAG,
            "aliases": {"type": "object", "additionalProperties": _TEXT},
            "agents": _list(_TEXT),
        }
    ),
    "Reloaded": _object({"config": _TEXT, "changed": _list(_TEXT), "restart": _list(_TEXT)}),
    "ConfigMistake": _object(
        {"key": _TEXT, "problem": _TEXT, "file": _TEXT, "line": _WHOLE, "advice": _TEXT}, "key", "line", "advice"
    ),


    "Sources": _object({"sources": _list(_ref("Source"))}),
    "State": _object({"status": _TEXT}),
    "ProblemKind": _object({"type": _TEXT, "status": _WHOLE, "title": _TEXT, "retry": _FLAG}),
    "Problem": _object(
        {
            "type": _TEXT,
            "title": _TEXT,
            "status": _WHOLE,
            "detail": _TEXT,
            "node": _TEXT,
            "field": _TEXT,
            "position": _WHOLE,
            "line": {**_WHOLE, "description": "of the body, from 1"},
            "advice": _TEXT,
            "errors": _list(_ref("ConfigMistake")),
        },
        "field",
        "position",
        "line",
        "advice",
        "errors",
    ),
}

_HITS = "SELECT window(time, '10 seconds') AS w, path, count(*) AS hits FROM access GROUP BY w, path"
EXAMPLES: _Json = {
    "NewJob": {"name": "hot", "sql": _HITS, "settings": {"emit": "200ms", "lateness": "1m"}},
    "JobBody": {"sql": f"{_HITS} HAVING hits >= :least", "parameters": {"least": 10}},
    "JobPatch": {"settings": {"retain": "7d"}},
    "Stop": {"drain": True},
    "Confirm": {"confirm": "hot"},
    "Backfill": {"from": "2025-11-01T00:00:00Z", "to": None},
    "GivenWindow": {
        "window": {"start": "2025-11-28T19:30:00Z", "end": "2025-11-28T19:30:10Z"},
        "revision": 1,
        "columns": [
            {"name": "w", "type": "STRUCT<start: TIMESTAMP, end: TIMESTAMP>"},
            {"name": "path", "type": "STRING"},
            {"name": "hits", "type": "BIGINT"},
        ],
        "rows": [[{"start": "2025-11-28T19:30:00Z", "end": "2025-11-28T19:30:10Z"}, "/", 24]],
        "lines": 24,
    },
}
"""What is sent, by its schema."""
