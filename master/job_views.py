"""What the API shows of jobs, nodes and trees: views of the core as JSON documents. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from job.derived import Derived
from job.durations import duration_text
from job.explain import explain
from job.plan import Plan, Schema, columns_of, key_name
from master.job_documents import current, time_text
from master.requests import Coverage, JobView, NodeView, Rates, RevisionView, VertexView
from master.service import JobNotice, NodeNotice
from srt.automaton import Ref

Names = Mapping[bytes, str]
"""Of nodes, by their ids."""


def names_of(notices: Sequence[NodeNotice]) -> dict[bytes, str]:
    return {notice.ref.id: notice.name for notice in notices}


def node_document(ref: Ref, names: Names) -> dict[str, Any]:
    """Who a node is."""
    return {"name": names.get(ref.id), "address": ref.address, "id": ref.id.hex()}


def coverage_document(coverage: Coverage) -> dict[str, Any]:
    return {
        "agents": coverage.agents,
        "missing": list(coverage.missing),
        "lines": coverage.lines,
        "rows": coverage.rows,
        "filtered": coverage.filtered,
        "rejected": coverage.rejected,
        "late": coverage.late,
        "outside": coverage.outside,
        "lost_bytes": coverage.lost_bytes,
        "shed": coverage.shed,
    }


def rates_document(rates: Rates) -> dict[str, float | None]:
    """To a thousandth."""

    def shown(rate: float | None) -> float | None:
        return None if rate is None else round(rate, 3)

    return {
        "over_seconds": shown(rates.over_s),
        "lines_per_second": shown(rates.lines),
        "parsed_per_second": shown(rates.parsed),
        "rejected_per_second": shown(rates.rejected),
        "late_per_second": shown(rates.late),
        "results_per_second": shown(rates.results),
    }


def columns_document(plan: Plan) -> list[dict[str, str]]:
    return [{"name": output.name, "type": str(output.expr.type)} for output in plan.outputs]


def key_columns(plan: Plan) -> list[str]:
    """The columns that tell the rows of a window apart: made of nothing but keys."""
    keys = {key_name(index) for index in range(len(plan.keys))}
    found = []
    for output in plan.outputs:
        names = {column.name for column in columns_of(output.expr)}
        if names and names <= keys:
            found.append(output.name)
    return found


def revision_document(revision: RevisionView) -> dict[str, Any]:
    """One of a job's changes."""
    return {
        "revision": revision.revision,
        "sql": revision.sql if revision.plan is not None else None,
        "settings": revision.settings,
        "parameters": revision.parameters,
        "start": time_text(revision.start_us),
        "made": time_text(revision.made_us),
        "state": revision.state,
        "problem": revision.problem or None,
    }


def job_document(view: JobView, names: Names, now_us: int) -> dict[str, Any]:
    """A job in full."""
    revision = current(view)
    lag_us = None if view.watermark_us is None else max(now_us - view.watermark_us, 0)
    return {
        "name": view.name,
        "state": view.state,
        "wanted": view.wanted,
        "revision": view.revision,
        "settings": revision.settings,
        "parameters": revision.parameters,
        **_meaning(view, revision),
        "created": time_text(view.created_us),
        "master": node_document(view.master, names),
        "group": [node_document(member, names) for member in view.group],
        "coverage": coverage_document(view.coverage),
        "watermark": time_text(view.watermark_us),
        "lag_seconds": None if lag_us is None else lag_us / 1e6,
        "rates": None if view.rates is None else rates_document(view.rates),
        "horizon": time_text(view.horizon_us),
        "windows_open": view.windows_open,
        "results": view.editions,
        "delivered": view.delivered,
        "problem": revision.problem or None,
        "boundary": time_text(view.boundary_us),
        "waits_for": [{"agent": name, "watermark": time_text(reach_us)} for name, reach_us in view.waits_for],
    }


def _meaning(view: JobView, revision: RevisionView) -> dict[str, Any]:
    """What a job computes, or what it is given."""
    plan, derived = revision.plan, view.derived
    shown: dict[str, Any] = {"sql": None, "source": None, "columns": [], "keys": [], "plan": None, "derived": None}
    if plan is not None:
        shown["sql"], shown["source"], shown["plan"] = revision.sql, innermost(plan).source, explain(plan)
        shown["columns"], shown["keys"] = columns_document(plan), key_columns(plan)
    if derived is not None:
        shown["derived"] = derived_document(derived)
        shown["columns"] = shown["derived"]["columns"]
    return shown


def derived_document(derived: Derived) -> dict[str, Any]:
    """As `POST /v1/jobs` takes it."""
    return {
        "columns": [{"name": column.name, "type": str(column.type)} for column in derived.columns],
        "size": duration_text(derived.size_us) if derived.size_us else None,
        "text": derived.text,
    }


def innermost(plan: Plan) -> Plan:
    """The plan of the stage that reads the log."""
    while plan.inner is not None:
        plan = plan.inner
    return plan


def notice_document(notice: JobNotice, problem: str) -> dict[str, Any]:
    """A job in short, as every node knows it, and why nobody leads it."""
    return {
        "name": notice.name,
        "source": notice.source or None,
        "state": notice.state,
        "revision": notice.revision,
        "created": time_text(notice.created_us),
        "changed": time_text(notice.changed_us),
        "problem": problem or None,
    }


def node_notice_document(notice: NodeNotice) -> dict[str, Any]:
    """A node in short, as every other knows it."""
    return {
        "name": notice.name,
        "address": notice.ref.address,
        "id": notice.ref.id.hex(),
        "kind": notice.kind,
        "version": notice.version,
        "started": time_text(notice.started_us),
        "told": time_text(notice.told_us),
        "sources": list(notice.sources),
        "left": notice.left,
    }


def node_view_document(view: NodeView, names: Names, jobs: Mapping[str, str]) -> dict[str, Any]:
    """A node, from itself. `jobs`: names by their hexadecimal keys."""
    return {
        **node_document(view.ref, names),
        "kind": view.kind,
        "neighbours": [node_document(one, names) for one in view.neighbours],
        "masters": [{"key": key, "job": jobs.get(key)} for key in view.masters],
        "memory_bytes": view.memory_bytes,
        "memory_max": view.memory_max,
    }


def vertex_document(view: VertexView, names: Names) -> dict[str, Any]:
    """A vertex without what is below it."""
    return {
        **node_document(view.ref, names),
        "role": view.role,
        "agents": view.agents,
        "frames_in": view.frames_in,
        "frames_out": view.frames_out,
        "problem": None,
        "children": [],
    }


def source_document(name: str, schema: Schema, notices: Sequence[NodeNotice]) -> dict[str, Any]:
    """A source: its fields, and who has it."""
    return {
        "name": name,
        "fields": [{"name": field, "type": str(type)} for field, type in schema.fields.items()],
        "open_fields": schema.open_fields,
        "aliases": dict(schema.aliases),
        "agents": sorted(notice.name for notice in notices if name in notice.sources and not notice.left),
    }
