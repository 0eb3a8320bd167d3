"""Results of a job: pages of windows, and the stream of what is published."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

from aiohttp import web

from master import job_documents as documents
from master import result_documents as results
from master.api_forward import HERE_HEADER, Forwarder, Local
from master.api_guard import Writer
from master.api_jobs import job_name
from master.api_options import ApiOptions
from master.exposition import result_series
from master.problems import Problem
from master.requests import DescribeJob, JobView, Place, ResultRecord
from master.service import NodeService
from srt.automaton import Ref
from srt.ids import job_key

log = logging.getLogger("elfstream.api")
ROWS_MAX = 1 << 31
SSE = "text/event-stream"
METRICS_TYPE = "text/plain; version=0.0.4"
_T = TypeVar("_T")


class TableEncoder(NamedTuple):
    """A form of results that is one table: a header, then rows. The face brings these (docs/API.md)."""

    media_type: str
    encode: Callable[[Sequence[ResultRecord], int | None], Iterable[bytes]]
    """Windows of the same columns, and how many rows of each; no windows: an empty table."""


_OBJECTS = {"json": "application/json", "ndjson": "application/x-ndjson"}


class _Asked(NamedTuple):
    """A question for a page."""

    from_us: int | None
    to_us: int | None
    status: str | None
    editions: bool
    after: Place | None
    limit: int
    rows_max: int | None
    form: str


class ResultHandlers:
    """/v1/jobs/{name}/results. Reads of the disk and the making of texts happen in a few threads of their own."""

    def __init__(
        self,
        service: NodeService,
        options: ApiOptions,
        forwarder: Forwarder,
        writer: Writer,
        tables: Mapping[str, TableEncoder],
    ) -> None:
        self._service, self._options, self._forwarder, self._writer = service, options, forwarder, writer
        self._tables = tables
        self._threads = ThreadPoolExecutor(options.result_threads, "results")
        self._types = {**_OBJECTS, **{form: table.media_type for form, table in tables.items()}}

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def in_thread(self, work: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def page(self, request: web.Request) -> web.StreamResponse:
        name, asked = job_name(request), self._asked(request)
        return await self.at_results(request, name, lambda: self._page(request, name, asked))

    async def at_results(self, request: web.Request, name: str, local: Local) -> web.StreamResponse:
        """`local` at the job's master, or at another member of its group while the master is new there and still gets the
        results of before. Raises Problem, Refused."""
        key = job_key(name)
        here = request.headers.get(HERE_HEADER) == "true"

        async def found() -> web.StreamResponse:
            others: list[Ref] = []
            if not here:
                view: JobView = await self._service.ask(key, DescribeJob())
                others = [member for member in view.group if member.id != self._service.ref.id]
            if await self.in_thread(lambda: self._service.results.lacks(key)) is None:
                return await local()
            if not others:
                raise Problem("busy", "the results are still being copied to this node")
            return await self._forwarder.hand_on(request, others[0], {HERE_HEADER: "true"})

        return await (found() if here else self._forwarder.at_master(request, name, found))

    def _asked(self, request: web.Request) -> _Asked:
        known = ("from", "to", "limit", "status", "all", "after", "rows", "format")
        query = documents.only(request.query.items(), *known)
        now_us = time.time_ns() // 1000
        rows = query.get("rows")
        return _Asked(
            documents.moment(query.get("from"), "from", now_us),
            documents.moment(query.get("to"), "to", now_us),
            documents.one_of(query.get("status"), "status", results.STATUSES),
            documents.flag(query.get("all"), "all") if "all" in query else False,
            documents.cursor_of(query.get("after")),
            documents.whole(query.get("limit"), "limit", 100, 1, self._options.page_windows_max),
            None if rows is None else documents.whole(rows, "rows", 0, 0, ROWS_MAX),
            self._form(request, query.get("format")),
        )

    def _form(self, request: web.Request, named: str | None) -> str:
        """By `format`, else by Accept."""
        if named is not None:
            if named not in self._types:
                known = ", ".join(self._types)
                raise Problem("not-acceptable", f"there is no format {named[:40]!r}, only {known}", field="format")
            return named
        best = preferred(request.headers.get("Accept", "*/*"), self._types.values())
        if best is None:
            known = ", ".join(self._types.values())
            raise Problem("not-acceptable", f"results come as {known}", field="Accept")
        return next(form for form, media_type in self._types.items() if media_type == best)

    async def _page(self, request: web.Request, name: str, asked: _Asked) -> web.StreamResponse:
        key = job_key(name)
        last, page = await asyncio.wait_for(
            self.in_thread(lambda: self._read(key, asked)), self._options.request_s
        )
        response = web.StreamResponse(headers={"Content-Type": self._types[asked.form]})
        if page.next is not None:
            url = request.rel_url.update_query({"after": page.next})
            response.headers["Link"] = f'<{url}>; rel="next"'
        chunks = self._chunks(asked, page, last)
        await response.prepare(request)
        while (chunk := await self.in_thread(lambda: next(chunks, None))) is not None:
            await self._writer.write(request, response, chunk)
        await response.write_eof()
        return response

    async def series(self, request: web.Request) -> web.StreamResponse:
        """The latest final window, as Prometheus reads it."""
        name, newest = job_name(request), self._service.results.newest
        documents.only(request.query.items())

        async def local() -> web.StreamResponse:
            text = await self.in_thread(lambda: "".join(result_series(name, newest(job_key(name), "final"))))
            return web.Response(body=text.encode(), headers={"Content-Type": METRICS_TYPE})

        return await self.at_results(request, name, local)

    def _read(self, key: bytes, asked: _Asked) -> tuple[int, results.Page]:
        reader = self._service.results
        last = reader.last_index(key)

        def fetch(after: Place | None, limit: int) -> Sequence[ResultRecord]:
            return reader.between(
                key,
                asked.from_us,
                asked.to_us,
                status=asked.status,
                editions=asked.editions,
                after=after,
                limit=limit,
            )

        table = asked.form in self._tables
        return last, results.page_of(fetch, asked.after, asked.limit, self._options.page_bytes, table)

    def _chunks(self, asked: _Asked, page: results.Page, last: int) -> Iterator[bytes]:
        if asked.form in self._tables:
            return iter(self._tables[asked.form].encode(page.records, asked.rows_max))
        if asked.form == "ndjson":
            return results.page_lines(page, asked.rows_max)
        return results.page_json(page, last, asked.rows_max)


_RANGE = re.compile(r"\s*([A-Za-z*+.-]+/[A-Za-z0-9*+._-]+)\s*(?:;(.*))?", re.DOTALL)
_QUALITY = re.compile(r"(?:^|;)\s*q\s*=\s*([01](?:\.[0-9]{0,3})?)\s*(?:;|$)")


def preferred(accept: str, offered: Iterable[str]) -> str | None:
    """The media type that an Accept header likes best; of equals the one offered first. None: it takes none of them."""
    ranges: list[tuple[str, float]] = []
    for part in accept[:4096].split(","):
        found = _RANGE.fullmatch(part)
        if found is not None:
            quality = _QUALITY.search(found[2] or "")
            ranges.append((found[1].lower(), float(quality[1]) if quality else 1.0))

    def liking(media_type: str) -> float:
        for pattern in (media_type, media_type.split("/")[0] + "/*", "*/*"):
            for range, quality in ranges:
                if range == pattern:
                    return quality
        return 0.0

    best = max(offered, key=liking)
    return best if liking(best) > 0 else None
