"""What people send: bodies, queries and conditions of requests, read with care. Pure; raises Problem for what is wrong."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from job import value_texts
from job.derived import COLUMN_CHARS_MAX, COLUMNS_MAX, SIZE_US_MAX, TEXT_CHARS_MAX, Derived
from job.durations import duration_us
from job.plan import Field
from job.settings import (
    SQL_CHARS_MAX,
    JobSpec,
    Settings,
    SettingsError,
    check_name,
    settings_of,
)
from job.times import micros_of, time_of
from job.types import type_of
from master.problems import Problem, problem_of_job
from master.requests import JobView, Place, RevisionView

PARAMETERS_MAX = 256
PARAMETER_CHARS_MAX = 16 * 1024
MEMBERS = ("sql", "settings", "parameters", "derived")
_PARAMETER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_ETAG = re.compile(r'\s*(?:(W/)?"([0-9]{1,18})"|(\*))\s*')
_CURSOR = re.compile(r"(-?[0-9]{1,19}|all)\.(-?[0-9]{1,19}|all)\.([0-9]{1,18})", re.ASCII)


# bodies


def decoded(body: bytes) -> dict[str, Any]:
    """The members of a JSON object; an empty body has none."""
    if not body.strip():
        return {}
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Problem("invalid", f"the body is no JSON: {error}", field="body") from None
    except RecursionError:
        raise Problem("invalid", "the body is nested too deep", field="body") from None
    if not isinstance(document, dict):
        raise Problem(
            "invalid", "the body is no JSON object", field="body", advice='Write {"sql": "SELECT ..."}.'
        )
    return document


def check_members(
    document: Mapping[str, Any], known: Iterable[str], what: str = "member", within: str = ""
) -> None:
    """Refuses what is not known, with the nearest that is; `within` is where in the body it stands."""
    names = tuple(known)
    for name in document:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            advice = f"Did you mean {near[0]}?" if near else f"There are {', '.join(names) or 'none'}."
            detail = f"there is no {what} {name[:64]!r} here"
            raise Problem("invalid", detail, field=within + name[:64], advice=advice)


def spec_of(name: object, document: Mapping[str, Any]) -> JobSpec:
    """A job, from the members `sql`, `settings` and `parameters`, or `derived` and `settings`."""
    check_members(document, MEMBERS)
    if not isinstance(name, str):
        raise Problem("invalid", "a job needs a name", field="name", advice='Write "name": "hot-pages".')
    try:
        check_name(name)
        settings = settings_of(_object(document, "settings"))
    except SettingsError as error:
        raise problem_of_job(error) from None
    if document.get("derived") is not None:
        for member in ("sql", "parameters"):
            if document.get(member):
                detail = "a derived job has no query: its windows come from elsewhere"
                raise Problem("invalid", detail, field=member)
        return JobSpec(name, "", settings, derived=derived_of(_object(document, "derived")))
    return JobSpec(name, _sql(document.get("sql")), settings, parameters_of(_object(document, "parameters")))


def derived_of(document: Mapping[str, Any]) -> Derived:
    """What a derived job is given."""
    check_members(document, ("columns", "size", "text"), within="derived.")
    text, size, columns = document.get("text", ""), document.get("size"), document.get("columns")
    if not isinstance(text, str) or len(text) > TEXT_CHARS_MAX:
        detail = f"it is no text of at most {TEXT_CHARS_MAX} characters"
        raise Problem("invalid", detail, field="derived.text")
    try:
        size_us = 0 if size is None else duration_us(size)
    except ValueError as error:
        raise Problem("invalid", str(error), field="derived.size") from None
    if size is not None and not 0 < size_us <= SIZE_US_MAX:
        advice = "Leave size out, or write null, for one window without end."
        raise Problem("invalid", "the length of a window is 1us to 366d", field="derived.size", advice=advice)
    if not isinstance(columns, list) or not 0 < len(columns) <= COLUMNS_MAX:
        advice = 'Write "columns": [{"name": "hits", "type": "BIGINT"}].'
        detail = f"it has 1 to {COLUMNS_MAX} columns"
        raise Problem("invalid", detail, field="derived.columns", advice=advice)
    fields = tuple(_column(column, f"derived.columns[{at}]") for at, column in enumerate(columns))
    if len({field.name for field in fields}) < len(fields):
        raise Problem("invalid", "two columns have one name", field="derived.columns")
    return Derived(fields, size_us, text)


def _column(column: object, field: str) -> Field:
    if not isinstance(column, dict) or column.keys() != {"name", "type"}:
        raise Problem("invalid", "a column has a name and a type, nothing else", field=field)
    name, type = column["name"], column["type"]
    if not isinstance(name, str) or not 0 < len(name) <= COLUMN_CHARS_MAX or not isinstance(type, str):
        raise Problem("invalid", f"name and type are texts, of 1 to {COLUMN_CHARS_MAX} characters", field=field)
    try:
        return Field(name, type_of(type))
    except ValueError as error:
        raise Problem("invalid", str(error), field=f"{field}.type") from None


def _sql(sql: object) -> str:
    if not isinstance(sql, str):
        raise Problem(
            "invalid", "a job needs the text of its query", field="sql", advice='Write "sql": "SELECT ...".'
        )
    if len(sql) > SQL_CHARS_MAX:
        raise Problem("invalid", f"{len(sql)} characters are more than {SQL_CHARS_MAX}", field="sql")
    return sql


def _object(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = document.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Problem("invalid", f"{name} is no JSON object", field=name)
    return value


def parameters_of(given: Mapping[str, Any]) -> dict[str, bool | int | float | str | None]:
    """Values of the `:name`s of a query."""
    if len(given) > PARAMETERS_MAX:
        raise Problem("invalid", f"there are more than {PARAMETERS_MAX} parameters", field="parameters")
    for name, value in given.items():
        field = f"parameters.{name[:64]}"
        if not _PARAMETER.fullmatch(name):
            raise Problem("invalid", f"{name[:80]!r} is no name of a parameter", field=field)
        if isinstance(value, list | dict):
            raise Problem("invalid", "a parameter is a text, a number, true, false or null", field=field)
        if isinstance(value, str) and len(value) > PARAMETER_CHARS_MAX:
            raise Problem("invalid", f"a parameter has at most {PARAMETER_CHARS_MAX} characters", field=field)
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise Problem("invalid", f"{str(value)[:40]} is no 64-bit number", field=field)
        if isinstance(value, float) and not math.isfinite(value):
            raise Problem("invalid", "a number has to be finite", field=field)
    return dict(given)


def merged(target: Any, patch: Any) -> Any:
    """`target` after a merge patch (RFC 7396)."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


def current(view: JobView) -> RevisionView:
    """The revision that the job has now."""
    return next(one for one in view.revisions if one.revision == view.revision)


def changeable(revision: RevisionView, derived: dict[str, Any] | None = None) -> dict[str, Any]:
    """What PUT replaces and PATCH merges into. Settings stand here as they differ from the defaults. `derived`: what a job
    without a plan is given."""
    plain = Settings().shown()
    settings = {name: value for name, value in revision.settings.items() if plain.get(name) != value}
    if derived is not None:
        return {"settings": settings, "derived": derived}
    return {"sql": revision.sql, "settings": settings, "parameters": dict(revision.parameters)}


# conditions


def etag(revision: int) -> str:
    return f'"{revision}"'


def expected_revision(if_match: str | None, revision: int) -> int:
    """The revision that a change is made to, if the condition allows the current one."""
    if if_match is None:
        advice = f"Read the job, then send If-Match: {etag(revision)}, or If-Match: * for whichever revision is current."
        raise Problem("unconditional", "a change needs If-Match", field="If-Match", advice=advice)
    found = [_ETAG.fullmatch(part) for part in if_match.split(",")]
    if not all(found):
        advice = f"Write If-Match: {etag(revision)}."
        raise Problem("invalid", f"{if_match[:80]!r} names no revision", field="If-Match", advice=advice)
    if any(one and (one[3] or (one[2] and not one[1] and int(one[2]) == revision)) for one in found):
        return revision
    advice = f"Read the job again; its revision is {revision}."
    raise Problem("stale", f"revision {revision} is the current one", field="If-Match", advice=advice)


# queries


def only(query: Iterable[tuple[str, str]], *known: str) -> dict[str, str]:
    """The parameters of a query, each at most once."""
    found: dict[str, str] = {}
    for name, value in query:
        if name in found:
            raise Problem("invalid", "given twice", field=name[:64])
        found[name] = value
    check_members(found, known, "query parameter")
    return found


def whole(text: str | None, field: str, default: int, least: int, most: int) -> int:
    if text is None:
        return default
    if not re.fullmatch(r"[0-9]{1,18}", text, re.ASCII) or not least <= int(text) <= most:
        raise Problem("invalid", f"{text[:40]!r} is no whole number from {least} to {most}", field=field)
    return int(text)


def flag(text: str | None, field: str) -> bool:
    if text not in (None, "", "true", "false"):
        raise Problem("invalid", f"{text[:40]!r} is neither true nor false", field=field)
    return text in ("", "true")


def one_of(text: str | None, field: str, known: tuple[str, ...]) -> str | None:
    if text is not None and text not in known:
        raise Problem("invalid", f"{text[:40]!r} is none of {', '.join(known)}", field=field)
    return text


def moment(text: str | None, field: str, now_us: int) -> int | None:
    """Microseconds of an RFC 3339 time (without an offset: UTC), or of `-10m`: so long before now."""
    if text is None:
        return None
    try:
        if text.startswith("-"):
            return max(now_us - duration_us(text[1:]), -(2**63))
        # A plus in a query is a blank unless it is escaped.
        return micros_of(datetime.fromisoformat(text.replace(" ", "+") if "T" in text else text))
    except (ValueError, OverflowError):
        advice = "Write 2025-11-28T19:30:00Z, or -10m for ten minutes ago."
        raise Problem("invalid", f"{text[:40]!r} is no time", field=field, advice=advice) from None


def time_text(micros: int | None) -> str | None:
    """RFC 3339 in UTC; what lies outside the years 1 to 9999 as the nearest there is."""
    return None if micros is None else value_texts.time_text(time_of(micros))


def cursor_text(place: Place) -> str:
    """Where a page of results ended."""
    return ".".join("all" if part is None else str(part) for part in place)


def cursor_of(text: str | None) -> Place | None:
    if text is None:
        return None
    found = _CURSOR.fullmatch(text)
    parts = [] if found is None else [None if part == "all" else int(part) for part in found.groups()]
    if not parts or not all(part is None or -(2**63) <= part < 2**63 for part in parts):
        advice = "Use what `next` of the page before says."
        raise Problem("invalid", f"{text[:60]!r} is no cursor", field="after", advice=advice)
    return Place(parts[0], parts[1], parts[2] or 0)
