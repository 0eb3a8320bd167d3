"""The HTTP API of a node, as an aiohttp application: which handler is where, and what starts and ends with it.

docs/API.md says what it does for people, master/openapi.py for programs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

from aiohttp import web

from master.api_backfill import BackfillHandlers
from master.api_events import EventHandlers
from master.api_fleet import FleetHandlers
from master.api_forward import Forwarder
from master.api_guard import Guard, Writer
from master.api_jobs import JobHandlers
from master.api_options import ApiOptions
from master.api_page import Page
from master.api_results import ResultHandlers, TableEncoder
from master.api_webhooks import Webhooks
from master.service import NodeService
from master.sql_compiler import SqlCompiler


class HttpApi:
    """One node's API. `app` may get further routes (the page, links of peers): these see to their own access."""

    def __init__(
        self,
        service: NodeService,
        options: ApiOptions | None = None,
        tables: Mapping[str, TableEncoder] | None = None,
    ) -> None:
        """`tables`: further forms of results, by their names (csv, arrow)."""
        options = ApiOptions() if options is None else options
        self._guard = Guard(service, options)
        writer = Writer(self._guard)
        self._forwarder = Forwarder(service, options, writer)
        self._compiler = SqlCompiler(service.schemas, options.compile_waiting_max, options.compile_s)
        self._jobs = JobHandlers(service, options, self._forwarder, self._compiler)
        self._results = ResultHandlers(service, options, self._forwarder, writer, tables or {})
        self._events = EventHandlers(service, options, writer, self._guard, self._results)
        self._fleet = FleetHandlers(service, options, self._forwarder)
        self._backfill = BackfillHandlers(service, options, self._forwarder)
        self._webhooks = Webhooks(service, options, self._results)
        self.app = web.Application(
            middlewares=[self._guard.middleware], client_max_size=options.body_bytes_max
        )
        self._add_routes()
        self.app.on_response_prepare.append(self._guard.headers)
        self.app.cleanup_ctx.append(self._running)
        self.app.on_shutdown.append(self._ending)

    def end_streams(self) -> None:
        """Streams of results end, and say that the node stops; so does each new one."""
        self._events.stop()

    def counters(self) -> dict[str, Any]:
        """For elfstream/metrics.py; docs/API.md names them."""
        guard = self._guard
        return {
            "http_requests_total": {str(status): count for status, count in sorted(guard.answered.items())},
            "http_requests_active": guard.requests,
            "http_streams_active": guard.streams,
            "http_readers_dropped_total": guard.dropped,
            **self._webhooks.counters(),
        }

    def _add_routes(self) -> None:
        jobs, results, events, fleet = self._jobs, self._results, self._events, self._fleet
        backfill, page = self._backfill, Page()
        job = "/v1/jobs/{name}"
        for rule, method, path, handler in (
            ("plain", "GET", "/v1/jobs", jobs.list),
            ("plain", "POST", "/v1/jobs", jobs.submit),
            ("plain", "POST", "/v1/validate", jobs.validate),
            ("plain", "GET", job, jobs.show),
            ("plain", "PUT", job, jobs.replace),
            ("plain", "PATCH", job, jobs.patch),
            ("plain", "DELETE", job, jobs.remove),
            ("plain", "POST", job + "/validate", jobs.validate_change),
            ("plain", "GET", job + "/changes", jobs.changes),
            ("plain", "POST", job + "/stop", jobs.stop),
            ("plain", "POST", job + "/agents/{agent}/forget", jobs.forget),
            ("plain", "POST", job + "/backfill", backfill.scope),
            ("plain", "PUT", job + "/backfill/windows", backfill.ingest),
            ("plain", "POST", job + "/recover", jobs.recover),
            ("long", "GET", job + "/results", results.page),
            ("stream", "GET", job + "/results/stream", events.stream),
            ("plain", "GET", job + "/metrics", results.series),
            ("plain", "GET", job + "/tree", fleet.tree),
            ("plain", "GET", "/v1/nodes", fleet.nodes),
            ("plain", "GET", "/v1/nodes/{node}", fleet.node),
            ("plain", "GET", "/v1/sources", fleet.sources),
            ("plain", "GET", "/v1/openapi.json", fleet.openapi),
            ("plain", "GET", "/v1/problems/{kind}", fleet.problem),
            ("plain", "POST", "/-/reload", fleet.reload),
            ("plain", "GET", "/metrics", fleet.metrics),
            ("open", "GET", "/", page.index),
            ("open", "GET", "/page/{file}", page.file),
            ("open", "GET", "/healthz", fleet.health),
            ("open", "GET", "/readyz", fleet.ready),
        ):
            if method == "GET":
                self.app.router.add_get(path, handler, allow_head=rule == "open")
            else:
                self.app.router.add_route(method, path, handler)
            self._guard.rules[handler] = rule

    async def _running(self, app: web.Application) -> AsyncIterator[None]:
        await self._forwarder.start()
        self._webhooks.start()
        watching = asyncio.create_task(self._guard.slow_readers.run())
        yield
        watching.cancel()
        await self._webhooks.close()
        await self._forwarder.close()
        self._compiler.close()
        self._results.close()
        self._backfill.close()

    async def _ending(self, app: web.Application) -> None:
        self.end_streams()
