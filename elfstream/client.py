"""A fleet from Python, for asyncio: `async with elf.connect_async(url) as fleet: ...`. docs/API.md has examples.

Any node will do. A client that is given several asks the next one when one does not answer; what can be asked again is,
until the client's patience ends.
"""

from __future__ import annotations

import asyncio
import random
import ssl
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Any
from urllib.parse import quote, urlencode

import aiohttp
import msgspec

from elfstream.client_errors import ApiError, ResultsLostError, UnreachableError
from elfstream.event_stream import EventParser, StreamEvent
from elfstream.remote_results import WindowResult, window_result

PATIENCE_S = 15.0
ANSWER_S = 60.0
SILENT_S = 30.0
"""A stream says every few seconds that it lives."""
RETRY_STATUSES = (429, 503)
PAGE_WINDOWS = 200

Document = dict[str, Any]
"""As docs/API.md shows it."""


def connect_async(
    url: str | Sequence[str],
    *,
    token: str | None = None,
    tls: ssl.SSLContext | None = None,
    patience_s: float = PATIENCE_S,
) -> AsyncClient:
    """A client of the fleet that the nodes at `url` (one or several) belong to. `tls` holds authority and certificate where
    the fleet wants them. Nothing is asked yet."""
    return AsyncClient([url] if isinstance(url, str) else list(url), token, tls, patience_s)


class AsyncClient:
    """Methods raise ApiError for what the fleet refuses, UnreachableError when nobody answered in time."""

    def __init__(self, urls: list[str], token: str | None, tls: ssl.SSLContext | None, patience_s: float) -> None:
        if not urls:
            raise ValueError("no address of a node")
        self._urls = [_base(url) for url in urls]
        self._token, self._tls, self._patience_s = token, tls, patience_s
        self._session: aiohttp.ClientSession | None = None
        self._at = 0

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    # jobs

    async def submit(
        self,
        name: str,
        sql: str,
        *,
        settings: Mapping[str, object] | None = None,
        parameters: Mapping[str, object] | None = None,
    ) -> AsyncJob:
        """Makes a job; the same once more is no error."""
        body = {"name": name, "sql": sql, "settings": settings or {}, "parameters": parameters or {}}
        await self.ask("POST", "/v1/jobs", body)
        return self.job(name)

    def job(self, name: str) -> AsyncJob:
        """The job of that name, whether it is there or not."""
        return AsyncJob(self, name)

    async def jobs(self) -> list[Document]:
        """All jobs, in short."""
        found: list[Document] = []
        after = ""
        while True:
            page = await self.ask("GET", _query("/v1/jobs", after=after or None))
            found += page["jobs"]
            if page["next"] is None:
                return found
            after = page["next"]

    async def validate(
        self,
        sql: str,
        *,
        settings: Mapping[str, object] | None = None,
        parameters: Mapping[str, object] | None = None,
    ) -> Document:
        """What a job would do, or what is wrong with it and where."""
        body = {"sql": sql, "settings": settings or {}, "parameters": parameters or {}}
        return await self.ask("POST", "/v1/validate", body)

    # the fleet

    async def nodes(self) -> list[Document]:
        found: list[Document] = (await self.ask("GET", "/v1/nodes"))["nodes"]
        return found

    async def node(self, name: str) -> Document:
        """One node, from itself; by its name, address or id."""
        return await self.ask("GET", f"/v1/nodes/{quote(name, safe='')}")

    async def sources(self) -> list[Document]:
        found: list[Document] = (await self.ask("GET", "/v1/sources"))["sources"]
        return found

    # requests

    async def ask(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> Document:
        """The document that a request is answered with; an empty one for an answer without body. All requests of this
        client may be sent twice: they say what shall be, or which revision they change."""
        sent = dict(headers or {})
        data = None
        if body is not None:
            data = msgspec.json.encode(body)
            sent["Content-Type"] = "application/json"
        until_s = time.monotonic() + self._patience_s
        attempt = 0
        while True:
            try:
                async with self.request(method, path, data, sent, ANSWER_S) as answer:
                    text = await answer.read()
                if answer.status < 400:
                    return msgspec.json.decode(text, type=Document) if text else {}
                problem: Exception = api_error(answer.status, text)
                if answer.status not in RETRY_STATUSES:
                    raise problem
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                problem = UnreachableError(f"{self.url}: {str(error) or type(error).__name__}")
                self.turn()
            attempt += 1
            wait_s = backoff_s(attempt)
            if time.monotonic() + wait_s > until_s:
                raise problem
            await asyncio.sleep(wait_s)

    @property
    def url(self) -> str:
        """The node that is asked now."""
        return self._urls[self._at]

    @property
    def patience_s(self) -> float:
        return self._patience_s

    def turn(self) -> None:
        """The next node is asked from now on."""
        self._at = (self._at + 1) % len(self._urls)

    def request(
        self, method: str, path: str, data: bytes | None, headers: Mapping[str, str], answer_s: float | None
    ) -> Any:
        """One attempt; `answer_s` None: for a stream."""
        if self._session is None:
            own = {"Authorization": f"Bearer {self._token}"} if self._token else {}
            self._session = aiohttp.ClientSession(headers=own, cookie_jar=aiohttp.DummyCookieJar())
        return self._session.request(
            method,
            self.url + path,
            data=data,
            headers=headers,
            timeout=aiohttp.ClientTimeout(total=answer_s, sock_connect=5.0, sock_read=SILENT_S),
            allow_redirects=False,
            ssl=self._tls or True,
        )


class AsyncJob:
    """A job of a fleet. Methods raise as those of AsyncClient; `kind` unknown: there is no such job."""

    def __init__(self, client: AsyncClient, name: str) -> None:
        self.client, self.name = client, name
        self._path = f"/v1/jobs/{quote(name, safe='')}"

    async def show(self) -> Document:
        """Settings, state, coverage, watermark, ..."""
        return await self.client.ask("GET", self._path)

    async def changes(self) -> list[Document]:
        """All its revisions."""
        found: list[Document] = (await self.client.ask("GET", self._path + "/changes"))["changes"]
        return found

    async def change(
        self,
        *,
        sql: str | None = None,
        settings: Mapping[str, object] | None = None,
        parameters: Mapping[str, object] | None = None,
        start: datetime | None = None,
        revision: int | None = None,
    ) -> Document:
        """A new revision; what is not given stays, None as the value of a setting takes its default. `revision` is the one
        that is changed (default: the current one): if there is another by now ApiError says stale."""
        given = {"sql": sql, "settings": settings, "parameters": parameters}
        patch = {name: value for name, value in given.items() if value is not None}
        if revision is None:
            revision = (await self.show())["revision"]
        path = _query(self._path, start=time_text(start))
        return await self.client.ask("PATCH", path, patch, {"If-Match": f'"{revision}"'})

    async def validate(self, patch: Mapping[str, object]) -> Document:
        """What a change would make of it, or what is wrong with that; `patch` has `sql`, `settings`, `parameters`."""
        return await self.client.ask("POST", self._path + "/validate", patch)

    async def stop(self, *, drain: bool = False) -> Document:
        """No agent reads for it any more; with `drain` they read to the end as of now, and all windows become final."""
        return await self.client.ask("POST", self._path + "/stop", {"drain": drain})

    async def remove(self) -> None:
        """With its results."""
        await self.client.ask("DELETE", self._path)

    async def forget(self, agent: str) -> Document:
        """Wait for this agent no longer."""
        return await self.client.ask("POST", f"{self._path}/agents/{quote(agent, safe='')}/forget")

    async def tree(self, depth: int | None = None) -> Document:
        """Its reducer tree, from the root."""
        return await self.client.ask("GET", _query(self._path + "/tree", depth=depth))

    async def results(
        self,
        start: datetime | None = None,
        end: datetime | None = None,
        *,
        status: str | None = None,
        all: bool = False,
        rows: int | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[WindowResult]:
        """Windows that start in [start, end) in order of time, at most `limit`; the latest revision of each, or with `all`
        every one."""
        after: str | None = None
        left = PAGE_WINDOWS if limit is None else limit
        while left > 0:
            query = {"from": time_text(start), "to": time_text(end), "status": status, "rows": rows, "after": after}
            path = _query(self._path + "/results", **query, all="true" if all else None, limit=min(left, PAGE_WINDOWS))
            page = await self.client.ask("GET", path)
            for document in page["results"]:
                yield window_result(document)
            left -= 0 if limit is None else len(page["results"])
            after = page["next"]
            if after is None:
                return

    async def watch(
        self, *, after: int | None = None, status: str | None = None, rows: int | None = None
    ) -> AsyncIterator[WindowResult]:
        """Results as they are published, each once. Through restarts and takeovers it goes on behind the last one by itself,
        however long they take once it was connected. `after`: behind that id, 0 for all that are kept; default: from now
        on. Ends when the job is removed.

        Raises ResultsLostError when some were dropped before they were seen."""
        path = _query(self._path + "/results/stream", status=status, rows=rows)
        if after is None:
            # From now on, whichever attempt it is that succeeds.
            after = (await self.client.ask("GET", _query(self._path + "/results", limit=1, rows=0)))["last"]
        last, failures, connected = after, 0, False
        until_s = time.monotonic() + self.client.patience_s
        while True:
            try:
                async for event in self._events(path, last):
                    failures, connected = 0, True
                    if event.name == "result":
                        result = window_result(msgspec.json.decode(event.data))
                        last = result.id
                        yield result
                    elif event.name in ("gap", "reset"):
                        raise _lost(event)
                    elif event.name == "end" and msgspec.json.decode(event.data).get("reason") == "removed":
                        return
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                if not connected and time.monotonic() > until_s:
                    raise UnreachableError(f"{self.client.url}: {str(error) or type(error).__name__}") from None
                self.client.turn()
            except ApiError as error:
                if connected and error.kind == "unknown":
                    return
                if error.status not in RETRY_STATUSES or (not connected and time.monotonic() > until_s):
                    raise
            failures += 1
            await asyncio.sleep(backoff_s(failures))

    async def _events(self, path: str, last: int) -> AsyncIterator[StreamEvent]:
        """Of one connection."""
        headers = {"Last-Event-ID": str(last), "Accept": "text/event-stream"}
        parser = EventParser()
        async with self.client.request("GET", path, None, headers, None) as answer:
            if answer.status != 200:
                raise api_error(answer.status, await answer.read())
            yield StreamEvent("open", "", b"")
            async for data in answer.content.iter_any():
                for event in parser.feed(data):
                    yield event


def api_error(status: int, text: bytes) -> ApiError:
    try:
        return ApiError(status, msgspec.json.decode(text, type=Document))
    except msgspec.MsgspecError:
        return ApiError(status, {"detail": f"status {status}: this does not seem to be a node of elfstream"})


def backoff_s(attempt: int) -> float:
    """From 0.1 s to 2 s, spread."""
    return min(0.1 * 2.0 ** min(attempt - 1, 10), 2.0) * random.uniform(0.75, 1.25)


def time_text(moment: datetime | None) -> str | None:
    """RFC 3339; without a time zone it is UTC."""
    if moment is None:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).isoformat()


def _lost(event: StreamEvent) -> ResultsLostError:
    told = msgspec.json.decode(event.data)
    if event.name == "gap":
        return ResultsLostError(told["after"], told["upto"], "they were kept long enough and dropped")
    return ResultsLostError(told["after"], told["last"], "the job was made anew")


def _query(path: str, **parameters: object) -> str:
    given = {name: value for name, value in parameters.items() if value is not None}
    return f"{path}?{urlencode(given)}" if given else path


def _base(url: str) -> str:
    url = url.rstrip("/")
    return url if url.startswith(("http://", "https://")) else f"http://{url}"
