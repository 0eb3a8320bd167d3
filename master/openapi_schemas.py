"""The documents of the API as JSON schemas; settings are added by master/openapi.py."""

from __future__ import annotations

from typing import Any

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
_BODY = {"sql": _TEXT, "settings": _or_null(_ref("Settings")), "parameters": _or_null(_PARAMETERS)}

SCHEMAS: _Json = {
    "JobBody": _object(_BODY, "settings", "parameters"),
    "NewJob": _object({"name": _TEXT, **_BODY}, "settings", "parameters"),
    "JobPatch": _object(_BODY, "sql", "settings", "parameters"),
    "Stop": _object({"drain": {**_FLAG, "description": "read to the end first; then all windows are final"}}, "drain"),
    "Who": _object(_WHO),
    "Coverage": _object(
        {
            "agents": _WHOLE,
            "missing": _list(_TEXT),
            "lines": _WHOLE,
            "rows": _WHOLE,
            "filtered": _WHOLE,
            "rejected": _WHOLE,
            "late": _WHOLE,
            "lost_bytes": _WHOLE,
            "shed": _WHOLE,
        }
    ),
    "Job": _object(
        {
            "name": _TEXT,
            "state": _TEXT,
            "wanted": _TEXT,
            "revision": _WHOLE,
            "sql": _TEXT,
            "settings": _ref("Settings"),
            "parameters": _PARAMETERS,
            "source": _TEXT,
            "columns": _COLUMNS,
            "keys": {**_list(_TEXT), "description": "columns that tell the rows of a window apart"},
            "plan": _TEXT,
            "created": _TIME,
            "master": _ref("Who"),
            "group": _list(_ref("Who")),
            "coverage": _ref("Coverage"),
            "watermark": _or_null(_TIME),
            "lag_seconds": _or_null({"type": "number"}),
            "horizon": _or_null(_TIME),
            "windows_open": _WHOLE,
            "results": _WHOLE,
            "delivered": _WHOLE,
            "problem": _or_null(_TEXT),
        }
    ),
    "Jobs": _object(
        {
            "jobs": _list(
                _object(
                    {
                        "name": _TEXT,
                        "source": _TEXT,
                        "state": _TEXT,
                        "revision": _WHOLE,
                        "created": _TIME,
                        "changed": _TIME,
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
                        "sql": _TEXT,
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
            "revision": {**_WHOLE, "description": "1, 2, ...: of this window"},
            "status": {"enum": ["tentative", "final", "withdrawn"]},
            "plan": _or_null({**_WHOLE, "description": "revision of the job that owns the window"}),
            "published": _TIME,
            "lines": _WHOLE,
            "coverage": _ref("Coverage"),
            "columns": _COLUMNS,
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
    "Sources": _object(
        {
            "sources": _list(
                _object(
                    {
                        "name": _TEXT,
                        "fields": _COLUMNS,
                        "open_fields": _FLAG,
                        "aliases": {"type": "object", "additionalProperties": _TEXT},
                        "agents": _list(_TEXT),
                    }
                )
            )
        }
    ),
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
            "advice": _TEXT,
        },
        "field",
        "position",
        "advice",
    ),
}
