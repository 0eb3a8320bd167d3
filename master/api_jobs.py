"""The resources of jobs: make, show, change, stop, remove, validate."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from job.plan import Plan
from job.settings import NAME, JobSpec
from master import job_documents as documents
from master.api_forward import Forwarder
from master.api_guard import json_response
from master.api_options import ApiOptions
from master.api_standings import Standings
from master.job_views import derived_document, job_document, names_of, notice_document, revision_document
from master.problems import Problem
from master.requests import (
    ChangeJob,
    DescribeJob,
    ForgetAgent,
    JobView,
    RecoverJob,
    RemoveJob,
    StopJob,
    SubmitJob,
)
from master.service import NodeService, Refused
from master.sql_compiler import SqlCompiler, derived_job_document, plan_document, problem_document
from master.webhook_messages import allowed
from srt.ids import job_key

LIST_MAX = 10_000
STATES = ("running", "stopped", "removed")
JSON_TYPES = ("application/json", "application/merge-patch+json")
_Work = Callable[[str], Awaitable[web.StreamResponse]]


def job_name(request: web.Request) -> str:
    """The name in the path. Raises Problem."""
    name = request.match_info["name"]
    if not NAME.fullmatch(name):
        raise Problem("unknown", f"there is no job {name[:80]!r}", field="name")
    return name


async def body_of(request: web.Request) -> dict[str, Any]:
    """The members of the body. Raises Problem."""
    body = await request.read()
    if body and request.content_type not in JSON_TYPES:
        advice = "Send Content-Type: application/json (curl: --json)."
        raise Problem("media-type", f"{request.content_type[:80]} is no JSON", field="Content-Type", advice=advice)
    return documents.decoded(body)


class JobHandlers:
    """Everything below /v1/jobs that is no result."""

    def __init__(
        self, service: NodeService, options: ApiOptions, forwarder: Forwarder, compiler: SqlCompiler
    ) -> None:
        self._service, self._options, self._forwarder = service, options, forwarder
        self._compiler, self._standings = compiler, Standings(service)
        self._making = 0
        """Submits that are not answered yet."""

    # all jobs

    async def list(self, request: web.Request) -> web.StreamResponse:
        query = documents.only(request.query.items(), "state", "source", "after", "limit")
        state = documents.one_of(query.get("state"), "state", STATES)
        limit = documents.whole(query.get("limit"), "limit", 1000, 1, LIST_MAX)
        source, after = query.get("source"), query.get("after", "")
        found = [
            notice
            for notice in sorted(self._service.jobs(), key=lambda notice: notice.name)
            if notice.name > after
            and (notice.state == state if state else notice.state != "removed")
            and (source is None or notice.source == source)
        ]
        page = found[:limit]
        following = page[-1].name if len(found) > limit else None
        troubles = await self._standings.troubles([notice.name for notice in page if notice.state != "removed"])
        jobs = [notice_document(notice, troubles.get(notice.name, "")) for notice in page]
        return json_response({"jobs": jobs, "next": following})

    async def submit(self, request: web.Request) -> web.StreamResponse:
        documents.only(request.query.items())
        body = await body_of(request)
        spec = self._spec(body.pop("name", None), body)
        return await self._forwarder.at_master(request, spec.name, lambda: self._submit(spec))

    async def _submit(self, spec: JobSpec) -> web.StreamResponse:
        status = 200
        try:
            await self._described(spec.name)
        except Refused as refused:
            if refused.refusal.kind != "unknown":
                raise
            status = 201
        if self._making >= self._options.submits_max:
            raise Problem("overloaded", f"{self._making} jobs are being made at this node; submit it again later")
        self._making += 1
        try:
            view = await self._service.ask(job_key(spec.name), SubmitJob(spec, await self._plan(spec)))
        finally:
            self._making -= 1
        return self._shown(view, status, {"Location": f"/v1/jobs/{spec.name}"})

    async def validate(self, request: web.Request) -> web.StreamResponse:
        """A job that is not there yet."""
        documents.only(request.query.items())
        body = await body_of(request)
        return await self._validated(body.pop("name", "unnamed"), body)

    # one job

    async def show(self, request: web.Request) -> web.StreamResponse:
        documents.only(request.query.items())

        async def work(name: str) -> web.StreamResponse:
            return self._shown(await self._described(name))

        return await self._at_master(request, work)

    async def changes(self, request: web.Request) -> web.StreamResponse:
        documents.only(request.query.items())

        async def work(name: str) -> web.StreamResponse:
            view = await self._described(name)
            revisions = [revision_document(one) for one in view.revisions]
            return json_response(
                {"name": name, "revision": view.revision, "changes": revisions},
                headers={"ETag": documents.etag(view.revision)},
            )

        return await self._at_master(request, work)

    async def replace(self, request: web.Request) -> web.StreamResponse:
        return await self._change(request, lambda _, body: body)

    async def patch(self, request: web.Request) -> web.StreamResponse:
        return await self._change(request, _merged)

    async def _change(
        self, request: web.Request, changed: Callable[[JobView, dict[str, Any]], dict[str, Any]]
    ) -> web.StreamResponse:
        query = documents.only(request.query.items(), "start")
        start_us = documents.moment(query.get("start"), "start", time.time_ns() // 1000)
        body = await body_of(request)

        async def work(name: str) -> web.StreamResponse:
            view = await self._described(name)
            expected = documents.expected_revision(request.headers.get("If-Match"), view.revision)
            spec = self._spec(name, changed(view, body))
            change = ChangeJob(spec, await self._plan(spec), expected, start_us)
            return self._shown(await self._service.ask(job_key(name), change))

        return await self._at_master(request, work)

    async def validate_change(self, request: web.Request) -> web.StreamResponse:
        """What a PATCH with the same body would make of the job."""
        documents.only(request.query.items())
        body = await body_of(request)

        async def work(name: str) -> web.StreamResponse:
            return await self._validated(name, _merged(await self._described(name), body))

        return await self._at_master(request, work)

    async def stop(self, request: web.Request) -> web.StreamResponse:
        documents.only(request.query.items())
        body = await body_of(request)
        documents.check_members(body, ("drain",))
        drain = body.get("drain", False)
        if not isinstance(drain, bool):
            raise Problem("invalid", f"{drain!r:.40} is neither true nor false", field="drain")

        async def work(name: str) -> web.StreamResponse:
            await self._condition(request, name)
            return self._shown(await self._service.ask(job_key(name), StopJob(drain)))

        return await self._at_master(request, work)

    async def remove(self, request: web.Request) -> web.StreamResponse:
        documents.only(request.query.items())

        async def work(name: str) -> web.StreamResponse:
            await self._condition(request, name)
            await self._service.ask(job_key(name), RemoveJob())
            return web.Response(status=204)

        return await self._at_master(request, work)

    async def forget(self, request: web.Request) -> web.StreamResponse:
        documents.only(request.query.items())
        documents.check_members(await body_of(request), ())
        agent = request.match_info["agent"]

        async def work(name: str) -> web.StreamResponse:
            return self._shown(await self._service.ask(job_key(name), ForgetAgent(agent)))

        return await self._at_master(request, work)

    async def recover(self, request: web.Request) -> web.StreamResponse:
        """At this very node: it is its log that the job goes on from."""
        documents.only(request.query.items())
        name, body = job_name(request), await body_of(request)
        documents.check_members(body, ("confirm",))
        if body.get("confirm") != name:
            detail = "entries that only other members have are lost for good, and lines in them with those"
            advice = f'If they do not come back, send {{"confirm": "{name}"}}.'
            raise Problem("invalid", detail, field="confirm", advice=advice)
        return self._shown(await self._service.ask(job_key(name), RecoverJob()))

    # what they share

    async def _at_master(self, request: web.Request, work: _Work) -> web.StreamResponse:
        name = job_name(request)
        return await self._forwarder.at_master(request, name, lambda: work(name))

    def _spec(self, name: object, body: dict[str, Any]) -> JobSpec:
        spec, hosts = documents.spec_of(name, body), self._options.webhook_hosts
        if spec.settings.webhook and not allowed(spec.settings.webhook, hosts):
            known = ", ".join(sorted(hosts or ())) or "none"
            detail = f"webhooks may not be sent to this host; this node allows {known}"
            raise Problem("invalid", detail, field="settings.webhook")
        return spec

    async def _plan(self, spec: JobSpec) -> Plan | None:
        return None if spec.derived is not None else await self._compiler.plan(spec)

    async def _described(self, name: str) -> JobView:
        view: JobView = await self._service.ask(job_key(name), DescribeJob())
        return view

    async def _condition(self, request: web.Request, name: str) -> None:
        """Stopping and removing need no condition, but keep one that is given."""
        if "If-Match" in request.headers:
            view = await self._described(name)
            documents.expected_revision(request.headers["If-Match"], view.revision)

    def _shown(
        self, view: JobView, status: int = 200, headers: dict[str, str] | None = None
    ) -> web.StreamResponse:
        document = job_document(view, names_of(self._service.nodes()), time.time_ns() // 1000)
        return json_response(document, status, {"ETag": documents.etag(view.revision), **(headers or {})})

    async def _validated(self, name: object, body: dict[str, Any]) -> web.StreamResponse:
        try:
            spec = self._spec(name, body)
            plan = await self._plan(spec)
        except Problem as problem:
            if problem.kind not in ("invalid", "sql"):
                raise
            return json_response(problem_document(problem, body.get("sql")))
        if plan is None:
            return json_response(derived_job_document(spec))
        return json_response(await asyncio.to_thread(plan_document, spec, plan))


def _merged(view: JobView, patch: dict[str, Any]) -> dict[str, Any]:
    documents.check_members(patch, documents.MEMBERS)
    derived = None if view.derived is None else derived_document(view.derived)
    merged: dict[str, Any] = documents.merged(documents.changeable(documents.current(view), derived), patch)
    return merged
