"""Any node answers: what is for the master of a job is handed to the node that leads it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType

import aiohttp
from aiohttp import web
from yarl import URL

from master.api_guard import NODE_HEADER, Writer
from master.api_options import ApiOptions
from master.problems import Problem
from master.requests import FindMaster, MasterAt
from master.service import NodeService, Refused
from srt.automaton import Ref
from srt.ids import job_key

HOPS_HEADER = "Elfstream-Hops"
HERE_HEADER = "Elfstream-Here"
"""The node that gets it answers by itself, whoever leads."""
_SENT = ("Accept", "Content-Type", "If-Match", "Last-Event-ID")
_RETURNED = ("Content-Type", "ETag", "Location", "Link", "Retry-After", "Allow", "Content-Disposition", NODE_HEADER)

Local = Callable[[], Awaitable[web.StreamResponse]]


class Forwarder:
    """Hands requests to other nodes, with the same token or certificate."""

    def __init__(self, service: NodeService, options: ApiOptions, writer: Writer) -> None:
        self._service, self._options, self._writer = service, options, writer
        self._session: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        connector = aiohttp.TCPConnector(limit=0, limit_per_host=0, ttl_dns_cache=10)
        headers = {"Authorization": f"Bearer {self._options.token}"} if self._options.token else {}
        self._session = aiohttp.ClientSession(
            connector=connector, headers=headers, auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
        )

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def at_master(self, request: web.Request, name: str, local: Local) -> web.StreamResponse:
        """`local` where the job is led, or would be if it existed. Raises Problem, Refused."""
        found: MasterAt = await self._service.ask(job_key(name), FindMaster())
        if found.ref is None:
            raise Problem("no-master", f"no node is known that could lead job {name}")
        if found.ref.id != self._service.ref.id:
            return await self.hand_on(request, found.ref)
        try:
            return await local()
        except Refused as refused:
            master = refused.refusal.master
            if refused.refusal.kind == "unknown" and not refused.refusal.field and self._is_told(name):
                # The closest node may have come a moment ago: its group has not spoken to it yet.
                raise Problem("no-master", f"who leads job {name} is being decided") from None
            if refused.refusal.kind != "elsewhere" or master is None or master.id == self._service.ref.id:
                raise
            return await self.hand_on(request, master)

    def _is_told(self, name: str) -> bool:
        """Whether gossip knows the job as one that is there. O(jobs)."""
        return any(notice.name == name and notice.state != "removed" for notice in self._service.jobs())

    def asked(self, ref: Ref, path: str, seconds: float) -> aiohttp.client._RequestContextManager:
        """GET of a path at another node."""
        assert self._session is not None
        timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=self._options.connect_s)
        return self._session.get(
            self._url(ref, path),
            headers={HOPS_HEADER: "1"},
            timeout=timeout,
            allow_redirects=False,
            ssl=self._options.client_tls or True,
        )

    def hops(self, request: web.Request) -> int:
        """Nodes that the request came through. Raises Problem."""
        text = request.headers.get(HOPS_HEADER, "0")
        if not text.isascii() or not text.isdigit() or len(text) > 3:
            raise Problem("invalid", f"{text[:20]!r} is no number of hops", field=HOPS_HEADER)
        return int(text)

    async def hand_on(
        self, request: web.Request, ref: Ref, further: Mapping[str, str] = MappingProxyType({})
    ) -> web.StreamResponse:
        """The answer of another node, passed on as it comes. Raises Problem."""
        hops = self.hops(request)
        if hops >= self._options.hops_max:
            raise Problem("loop", f"{hops} nodes handed this request on; {ref.address} would be the next")
        headers = {name: request.headers[name] for name in _SENT if name in request.headers}
        headers |= {HOPS_HEADER: str(hops + 1), **further}
        body = await request.read()
        assert self._session is not None
        try:
            answer = await self._session.request(
                request.method,
                self._url(ref, request.rel_url.raw_path_qs),
                data=body or None,
                headers=headers,
                timeout=aiohttp.ClientTimeout(
                    total=None,
                    sock_connect=self._options.connect_s,
                    sock_read=self._options.request_s + self._options.heartbeat_s,
                ),
                allow_redirects=False,
                skip_auto_headers=("Content-Type", "User-Agent", "Accept"),
                ssl=self._options.client_tls or True,
            )
        except TimeoutError:
            raise Problem("unreachable", f"{ref.address} does not answer") from None
        except (aiohttp.ClientError, OSError) as error:
            raise Problem("unreachable", f"{ref.address}: {_reason(error)}") from None
        try:
            return await self._passed_on(request, answer)
        finally:
            answer.release() if answer.content.at_eof() else answer.close()

    async def _passed_on(self, request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        response = web.StreamResponse(status=answer.status)
        for name in _RETURNED:
            if name in answer.headers:
                response.headers[name] = answer.headers[name]
        if answer.headers.get("Content-Length", "").isdigit():
            response.content_length = int(answer.headers["Content-Length"])
        await response.prepare(request)
        async for chunk in answer.content.iter_any():
            await self._writer.write(request, response, chunk)
        await response.write_eof()
        return response

    def _url(self, ref: Ref, path: str) -> URL:
        scheme = "http" if self._options.client_tls is None else "https"
        return URL(f"{scheme}://{ref.address}{path}", encoded=True)


def _reason(error: Exception) -> str:
    inner = getattr(error, "os_error", error)
    return getattr(inner, "strerror", None) or str(error) or type(error).__name__
