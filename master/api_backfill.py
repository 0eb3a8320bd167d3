"""Backfills: what to compute elsewhere for a job, and windows that were computed so (docs/SPARK.md)."""

from __future__ import annotations

import asyncio
import base64
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import msgspec
from aiohttp import web

from job.plan_book import row_plan
from master import job_documents as documents
from master.api_forward import Forwarder
from master.api_guard import json_response
from master.api_jobs import body_of, job_name
from master.api_options import ApiOptions
from master.given_windows import given_windows
from master.job_views import columns_document, source_document
from master.problems import Problem
from master.requests import DescribeJob, IngestView, IngestWindows, JobView, RevisionView
from master.service import NodeService
from srt.ids import job_key

LINES_TYPE = "application/x-ndjson"


class BackfillHandlers:
    """Bodies are read where they come in and understood, in a thread, where the job is led."""

    def __init__(self, service: NodeService, options: ApiOptions, forwarder: Forwarder) -> None:
        self._service, self._options, self._forwarder = service, options, forwarder
        self._thread = ThreadPoolExecutor(1, "windows")
        self._ingests = 0
        """Requests with windows that are being answered."""

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def scope(self, request: web.Request) -> web.StreamResponse:
        """What to compute."""
        documents.only(request.query.items())
        body, now_us = await body_of(request), time.time_ns() // 1000
        documents.check_members(body, ("from", "to", "revision"))
        from_us, to_us = (_moment(body, name, now_us) for name in ("from", "to"))
        revision = body.get("revision")
        if revision is not None and (not isinstance(revision, int) or isinstance(revision, bool)):
            raise Problem("invalid", f"{revision!r:.40} is no revision of a job", field="revision")
        name = job_name(request)

        async def work() -> web.StreamResponse:
            view: JobView = await self._service.ask(job_key(name), DescribeJob())
            return json_response(self._scope(view, revision, from_us, to_us))

        return await self._forwarder.at_master(request, name, work)

    def _scope(
        self, view: JobView, number: int | None, from_us: int | None, to_us: int | None
    ) -> dict[str, Any]:
        revision = _revision(view, view.revision if number is None else number)
        plan = revision.plan
        if plan is None:
            advice = "Send the windows that you have: PUT /v1/jobs/NAME/backfill/windows."
            raise Problem("invalid", "a derived job has no plan to compute windows by", field="name", advice=advice)
        if view.state == "stopped":  # said before hours of work, not behind them
            raise Problem("invalid", "the job is stopped: it takes nothing any more", field="name")
        source, boundary = row_plan(plan), view.boundary_us
        if source.window is None or boundary is None:
            detail = "a job without a window has one that never ends, and that is live"
            raise Problem("invalid", detail, field="name", advice="Make a job with a window.")
        slide = source.window.slide_us
        start = None if from_us is None else from_us // slide * slide
        end = boundary if to_us is None else min(-(-to_us // slide) * slide, boundary)
        if start is not None and start >= end:
            detail = f"no window starts then; live are those from {documents.time_text(boundary)} on"
            raise Problem("invalid", detail, field="from" if start >= boundary else "to")
        schema = self._service.schemas().get(source.source)
        return {
            "job": view.name,
            "revision": revision.revision,
            "boundary": documents.time_text(boundary),
            "from": documents.time_text(start),
            "to": documents.time_text(end),
            "size_us": source.window.size_us,
            "slide_us": slide,
            "sql": revision.sql,
            "parameters": revision.parameters,
            "plan": base64.b64encode(msgspec.msgpack.encode(plan)).decode(),
            "columns": columns_document(plan),
            "sources": [] if schema is None else [source_document(source.source, schema, self._service.nodes())],
        }

    async def ingest(self, request: web.Request) -> web.StreamResponse:
        """Takes windows."""
        documents.only(request.query.items())
        name = job_name(request)
        if request.content_type != LINES_TYPE:
            advice = f"Send Content-Type: {LINES_TYPE}, a window on each line."
            detail = f"{request.content_type[:80]} is no JSON lines"
            raise Problem("media-type", detail, field="Content-Type", advice=advice)
        if self._ingests >= self._options.ingests_max:
            raise Problem("too-many", f"{self._ingests} requests with windows are being answered")
        self._ingests += 1
        try:
            # Read with a limit of its own; whoever reads it once more, to hand it on, gets the same.
            request = request.clone(client_max_size=self._options.ingest_bytes_max)
            body = await self._body(request)
            return await self._forwarder.at_master(request, name, partial(self._ingest, name, body))
        finally:
            self._ingests -= 1

    async def _body(self, request: web.Request) -> bytes:
        try:
            return await request.read()
        except web.HTTPRequestEntityTooLarge:
            most = self._options.ingest_bytes_max
            advice = "Send fewer windows at a time; one that is larger has to be made smaller by LIMIT or HAVING."
            detail = f"a body with windows has at most {most} bytes"
            raise Problem("too-large", detail, field="body", advice=advice) from None

    async def _ingest(self, name: str, body: bytes) -> web.StreamResponse:
        loop = asyncio.get_running_loop()
        windows = await loop.run_in_executor(self._thread, given_windows, body)
        view: IngestView = await self._service.ask(job_key(name), IngestWindows(windows))
        return json_response({"stored": view.stored, "same": view.same, "replaced": view.replaced})


def _revision(view: JobView, number: int) -> RevisionView:
    for one in view.revisions:
        if one.revision == number:
            return one
    raise Problem("invalid", f"the job has no revision {number}, or it was closed long ago", field="revision")


def _moment(body: dict[str, Any], name: str, now_us: int) -> int | None:
    text = body.get(name)
    if text is not None and not isinstance(text, str):
        raise Problem("invalid", f"{text!r:.40} is no time", field=name)
    return documents.moment(text, name, now_us)
