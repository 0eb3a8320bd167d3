"""The stream of a job's results: server-sent events whose ids are indices of the job's log, so any node goes on with them.

A stream keeps no queue: it reads from the store what is behind the last event it wrote, at the speed of its reader.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any

from aiohttp import web

from master import job_documents as documents
from master import result_documents as results
from master.api_guard import Guard, Writer
from master.api_jobs import job_name
from master.api_options import ApiOptions
from master.api_results import ROWS_MAX, SSE, ResultHandlers
from master.problems import Problem
from master.requests import DescribeJob, FindMaster, JobView, MasterAt, ResultRecord
from master.service import NodeService, Refused
from srt.ids import job_key

BATCH = 16
"""Windows read at a time."""


class EventHandlers:
    """/v1/jobs/{name}/results/stream."""

    def __init__(
        self,
        service: NodeService,
        options: ApiOptions,
        writer: Writer,
        guard: Guard,
        pages: ResultHandlers,
    ) -> None:
        self._service, self._options = service, options
        self._writer, self._guard, self._pages = writer, guard, pages
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Streams end, and say so."""
        self._stopping.set()

    async def stream(self, request: web.Request) -> web.StreamResponse:
        name = job_name(request)
        query = documents.only(request.query.items(), "after", "status", "rows")
        after = _index(request.headers.get("Last-Event-ID"), "Last-Event-ID")
        if after is None:
            after = _index(query.get("after"), "after")
        status = documents.one_of(query.get("status"), "status", results.STATUSES)
        rows = query.get("rows")
        rows_max = None if rows is None else documents.whole(rows, "rows", 0, 0, ROWS_MAX)
        if self._guard.streams >= self._options.streams_max:
            raise Problem("too-many", f"{self._guard.streams} streams are open here")
        self._guard.streams += 1
        try:
            return await self._pages.at_results(
                request, name, lambda: self._stream(request, job_key(name), after, status, rows_max)
            )
        finally:
            self._guard.streams -= 1

    async def _stream(
        self, request: web.Request, key: bytes, after: int | None, status: str | None, rows_max: int | None
    ) -> web.StreamResponse:
        if after is None:
            after = await self._pages.in_thread(lambda: self._service.results.last_index(key))
        response = web.StreamResponse(headers={"Content-Type": SSE, "X-Accel-Buffering": "no"})
        await response.prepare(request)
        events = Events(self._service, self._options, self._pages, key, after, self._stopping)
        await self._writer.write(request, response, results.RETRY)
        async for kind, told in events:
            if kind != "records":
                data = told
            else:
                data = await self._pages.in_thread(lambda: _encoded(told, status, rows_max))  # noqa: B023
            await self._writer.write(request, response, data)
        await response.write_eof()
        return response


def _encoded(records: Sequence[ResultRecord], status: str | None, rows_max: int | None) -> bytes:
    return b"".join(
        results.event("result", results.record_json(record, rows_max), record.index)
        for record in records
        if status in (None, record.status)
    )


def _index(text: str | None, field: str) -> int | None:
    if text is None or text == "":
        return None
    if not re.fullmatch(r"[0-9]{1,19}", text, re.ASCII) or int(text) >= 2**63:
        raise Problem("invalid", f"{text[:40]!r} is no id of an event", field=field)
    return int(text)


class Events:
    """What a reader of a job's results is to be told, from an index on: ("records", ...) and ("told", bytes)."""

    def __init__(
        self,
        service: NodeService,
        options: ApiOptions,
        pages: ResultHandlers,
        key: bytes,
        index: int,
        stopping: asyncio.Event,
    ) -> None:
        self._service, self._options, self._pages = service, options, pages
        self._key, self._index, self._stopping = key, index, stopping

    async def __aiter__(self) -> Any:
        reason: str | None = None
        while True:
            records, dropped = await self._pages.in_thread(self._read)
            if dropped > self._index:
                yield "told", results.told("gap", after=self._index, upto=dropped)
                self._index = dropped
            if records:
                self._index = max(self._index, records[-1].index)
                yield "records", records
            elif await self._published(self._options.heartbeat_s):
                continue
            else:
                reason, told = await self._idle()
                if reason is None:
                    yield "told", told
            if self._stopping.is_set():
                reason = "stopping"
            if reason is not None:
                yield "told", results.told("end", reason=reason)
                return

    def _read(self) -> tuple[Sequence[ResultRecord], int]:
        """What is next, then what was dropped: in this order nothing goes missing between the two."""
        reader = self._service.results
        records = reader.since(self._key, self._index, BATCH)
        return records, reader.dropped_index(self._key)

    async def _published(self, seconds: float) -> bool:
        """Waits for something behind the index, for so long, or until the node stops."""
        waits = [
            asyncio.ensure_future(self._service.published(self._key, self._index)),
            asyncio.ensure_future(self._stopping.wait()),
        ]
        try:
            await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            return waits[0].done() and not waits[1].done()
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def _idle(self) -> tuple[str | None, bytes]:
        """Nothing came. Why there is nothing more to come from this node, if so: removed or moved; readers come again by
        themselves, and a job that was removed is not found then. Else what they are told: that the stream lives, or that
        the job counts anew. The log knows that: the store of a new master may be long behind what its reader has seen."""
        try:
            found: MasterAt = await self._service.ask(self._key, FindMaster())
            if found.ref is not None and found.ref.id != self._service.ref.id:
                return "moved", b""
            view: JobView = await self._service.ask(self._key, DescribeJob())
        except Refused as refused:
            return {"unknown": "removed", "elsewhere": "moved"}.get(refused.refusal.kind), results.HEARTBEAT
        except TimeoutError:
            return None, results.HEARTBEAT
        if view.published >= self._index:
            return None, results.HEARTBEAT
        last = await self._pages.in_thread(lambda: self._service.results.last_index(self._key))
        told = results.told("reset", after=self._index, last=last)
        self._index = last
        return None, told
