"""What stands before every handler: who may ask, how much at a time, and how a failure is told."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any
from urllib.parse import urlsplit

import msgspec
from aiohttp import web

from master.api_options import ApiOptions
from master.api_slow_readers import SlowReaders
from master.problems import MEDIA_TYPE, Problem, problem_of_refusal
from master.service import NodeService, Refused

log = logging.getLogger("elfstream.api")
NODE_HEADER = "Elfstream-Node"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
CHUNK_BYTES = 64 * 1024
_SAFE = ("GET", "HEAD", "OPTIONS")
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_begun: ContextVar[list[web.StreamResponse]] = ContextVar("begun")
"""The answer to the request at hand, once its head is sent."""
_encode = msgspec.json.Encoder().encode


def json_response(document: Any, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(
        body=_encode(document) + b"\n", status=status, content_type="application/json", headers=headers
    )


class Writer:
    """Writes answers of any length to readers of any speed."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    async def write(self, request: web.Request, response: web.StreamResponse, data: bytes) -> None:
        """Raises ConnectionResetError when the reader is gone, or has taken nothing for too long."""
        for start in range(0, len(data), CHUNK_BYTES):
            await response.write(data[start : start + CHUNK_BYTES])
            self._guard.slow_readers.watch(request.transport)


class Guard:
    """One for all handlers of a node. Its counters are plain numbers, for `/metrics`."""

    def __init__(self, service: NodeService, options: ApiOptions) -> None:
        self._service, self._options = service, options
        self.answered: Counter[int] = Counter()
        """Requests, by status."""
        self.requests = 0
        """Being answered now, streams apart."""
        self.streams = 0
        """Open now."""
        self.dropped = 0
        """Readers that took nothing for too long."""
        self.slow_readers = SlowReaders(options.stalled_s, self._drop)
        self.rules: dict[Any, str] = {}
        """Of each handler of the API: `plain`; `open` asks for no token; `long` is held to no time; `stream` is counted by
        itself. Handlers that are not here guard themselves."""

    def _drop(self) -> None:
        self.dropped += 1

    def problem_response(self, problem: Problem) -> web.Response:
        return web.Response(
            body=_encode(problem.document(self._service.ref.address)) + b"\n",
            status=problem.status,
            content_type=MEDIA_TYPE,
            headers=problem.headers,
        )

    @property
    def middleware(self) -> Any:
        @web.middleware
        async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
            self.slow_readers.watch(request.transport)
            response = await self._response(request, handler)
            self.answered[response.status] += 1
            return response

        return guard

    async def headers(self, request: web.Request, response: web.StreamResponse) -> None:
        """Signal: before an answer begins."""
        for name, value in _HEADERS.items():
            response.headers.setdefault(name, value)
        response.headers.setdefault(NODE_HEADER, self._service.ref.address)
        response.headers.pop("Server", None)
        _begun.get([]).append(response)

    async def _response(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        sent: list[web.StreamResponse] = []
        _begun.set(sent)
        try:
            return await self._guarded(request, handler)
        except Exception as error:
            if not sent:
                return self._told(request, error)
            if not isinstance(error, ConnectionError):
                log.warning("%s %s broke off: %r", request.method, request.path, error)
            # All that is left to say is that the answer is not whole.
            if request.transport is not None:
                request.transport.abort()
            return sent[0]

    def _told(self, request: web.Request, error: Exception) -> web.StreamResponse:
        if isinstance(error, Problem):
            return self.problem_response(error)
        if isinstance(error, Refused):
            return self.problem_response(problem_of_refusal(error.refusal))
        if isinstance(error, TimeoutError):
            return self.problem_response(Problem("timeout", "the node did not answer in time"))
        if isinstance(error, web.HTTPException):
            return self._of_framework(request, error)
        log.error("%s %s failed", request.method, request.path, exc_info=error)
        return self.problem_response(Problem("internal", "the log of this node tells more"))

    def _of_framework(self, request: web.Request, error: web.HTTPException) -> web.StreamResponse:
        if isinstance(error, web.HTTPNotFound):
            advice = "GET /v1/openapi.json lists what there is."
            return self.problem_response(
                Problem("not-found", f"there is nothing at {request.path[:200]}", advice=advice)
            )
        if isinstance(error, web.HTTPMethodNotAllowed):
            allow = ", ".join(sorted(error.allowed_methods))
            headers = {"Allow": allow}
            return self.problem_response(
                Problem("method", f"{request.method} is not among {allow}", headers=headers)
            )
        if isinstance(error, web.HTTPRequestEntityTooLarge):
            most = self._options.body_bytes_max
            return self.problem_response(Problem("too-large", f"a body has at most {most} bytes", field="body"))
        if error.status < 400:
            return error
        return self.problem_response(Problem("invalid", error.reason))

    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        rule = self.rules.get(request.match_info.handler)
        if rule is None:
            return await handler(request)
        if rule == "open":
            return await asyncio.wait_for(handler(request), self._options.request_s)
        self._check_host(request)
        self._check_access(request)
        if rule == "stream":
            return await handler(request)
        if self.requests >= self._options.requests_max:
            raise Problem("too-many", f"{self.requests} requests are being answered")
        self.requests += 1
        try:
            seconds = self._options.request_s if rule == "plain" else None
            return await asyncio.wait_for(handler(request), seconds)
        finally:
            self.requests -= 1

    def _check_access(self, request: web.Request) -> None:
        """Whoever asks knows the token or has a certificate of the fleet's authority, if the fleet has either."""
        options = self._options
        if not options.token and not options.certificates:
            return
        if options.certificates and request.get_extra_info("peercert"):
            return
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        given = token.strip().encode("utf-8", "surrogateescape")
        known = hmac.compare_digest(given, options.token.encode())
        if options.token and known and scheme.lower() == "bearer":
            return
        if not options.token:
            advice = "Show one that the fleet's authority made (curl: --cert, --key)."
            raise Problem("unauthorized", "this fleet asks for a certificate", advice=advice)
        detail = "the token is wrong" if token else "this fleet asks for a token"
        headers = {"WWW-Authenticate": 'Bearer realm="elfstream"'}
        advice = "Send Authorization: Bearer TOKEN, with the token of the fleet."
        raise Problem("unauthorized", detail, field="Authorization", advice=advice, headers=headers)

    def _check_host(self, request: web.Request) -> None:
        """Pages of others must not reach a node through the browser of somebody who may: neither by a form that is sent here
        nor by a name that was made to mean this address."""
        origin = request.headers.get("Origin")
        foreign = origin is not None and _host_of(origin) != request.headers.get("Host")
        if request.method not in _SAFE and (foreign or request.headers.get("Sec-Fetch-Site") == "cross-site"):
            raise Problem("forbidden", f"a page of {str(origin)[:100]} may not change anything here", field="Origin")
        closed = self._options.token or self._options.certificates
        if not closed and not self._is_ours(request.headers.get("Host", "")):
            advice = "Use the address itself, or give the fleet a token."
            raise Problem("forbidden", "without a token a node answers only by its address", field="Host", advice=advice)

    def _is_ours(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        own = urlsplit(f"//{self._service.ref.address}").hostname
        if name in ("", "localhost", own) or name.endswith(".localhost"):
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def _host_of(origin: str) -> str:
    """Empty for what is no origin."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""
