"""A fleet from Python, for asyncio: `async with elf.connect_async(url) as fleet: ...`. docs/API.md has examples.

Any node will do. A client that is given several asks the next one when one does not answer; what can be asked again is,
until the client's patience ends.
"""

from __future__ import annotations

import asyncio
import math
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import aiohttp
import msgspec

from elfstream.backfilled import NOTHING_PUT, BackfillScope, bodies, put_in_all, scope_of
from elfstream.client_errors import ApiError, OddAnswerError, ResultsLostError, UnreachableError
from elfstream.remote_results import WindowResult, window_result
from master.asking import ANSWER_BYTES_MAX, ERROR_BYTES_MAX, RETRY_STATUSES, Tries, retry_after_s
from master.event_stream import EventParser, StreamEvent

PATIENCE_S = 15.0
ANSWER_S = 60.0
SILENT_S = 30.0
"""A stream says every few seconds that it lives."""
PAGE_WINDOWS = 200

_T = TypeVar("_T")
_Told = TypeVar("_Told")
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

    async def submit_derived(
        self,
        name: str,
        columns: Iterable[tuple[str, str]],
        *,
        size: str | None = None,
        text: str = "",
        settings: Mapping[str, object] | None = None,
    ) -> AsyncJob:
        """Makes a job whose windows all come by `put_windows`; the same once more is no error. `columns` are names and types
        ("BIGINT"), `size` the length of its windows ("10s"; None: it has one endless window), `text` what they come from."""
        shown = [{"name": column, "type": type} for column, type in columns]
        derived = {"columns": shown, "size": size, "text": text}
        await self.ask("POST", "/v1/jobs", {"name": name, "settings": settings or {}, "derived": derived})
        return self.job(name)

    def job(self, name: str) -> AsyncJob:
        """The job of that name, whether it is there or not."""
        return AsyncJob(self, name)

    async def jobs(self) -> list[Document]:
        """All jobs, in short."""
        found: list[Document] = []
        after: str | None = None
        while True:
            page = await self.ask("GET", _query("/v1/jobs", after=after))
            found += self.read(page, _documents("jobs"))
            after = self.read(page, _next)
            if after is None:
                return found

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
        return self.read(await self.ask("GET", "/v1/nodes"), _documents("nodes"))

    async def node(self, name: str) -> Document:
        """One node, from itself; by its name, address or id."""
        return await self.ask("GET", f"/v1/nodes/{quote(name, safe='')}")

    async def sources(self) -> list[Document]:
        return self.read(await self.ask("GET", "/v1/sources"), _documents("sources"))

    # requests

    async def ask(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> Document:
        """The document that a request is answered with; an empty one for an answer without body. A body of bytes is sent as
        it is. All requests of this client may be sent twice: they say what shall be, or which revision they change."""
        sent = dict(headers or {})
        data = body if isinstance(body, bytes) else None
        if body is not None and data is None:
            data = msgspec.json.encode(body)
            sent["Content-Type"] = "application/json"
        tries = Tries(self._patience_s, len(self._urls))
        while True:
            is_hopeless, least_s = False, 0.0
            try:
                async with self.request(method, path, data, sent, ANSWER_S) as answer:
                    text = await self.whole(answer)
                if answer.status < 400:
                    return self._document(text)
                refused = api_error(answer.status, text)
                problem: Exception = refused
                if refused.kind == "overloaded":  # asking another node, or sooner, would make it worse
                    least_s = retry_after_s(answer.headers)
                if answer.status not in RETRY_STATUSES:
                    raise problem
                if answer.status != 429:
                    self.turn()  # another node may see more of the fleet
            except OddAnswerError as error:
                problem, is_hopeless = error, True  # it would say the same again
                self.turn()
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                problem, is_hopeless = self.unreachable(error), _is_hopeless(error)
                self.turn()
            wait_s = tries.wait_s(is_hopeless, least_s)
            if wait_s is None:
                raise problem
            await asyncio.sleep(wait_s)

    async def whole(self, answer: aiohttp.ClientResponse) -> bytes:
        """Its body. Raises OddAnswerError for more than there may be."""
        text, most = bytearray(), ERROR_BYTES_MAX if answer.status >= 400 else ANSWER_BYTES_MAX
        async for piece in answer.content.iter_any():
            text += piece
            if len(text) > most:
                raise OddAnswerError(self.url, f"the answer has more than {most} bytes")
        return bytes(text)

    def _document(self, text: bytes) -> Document:
        try:
            return msgspec.json.decode(text, type=Document) if text else {}
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise OddAnswerError(self.url, str(error)) from None

    def read(self, told: _Told, how: Callable[[_Told], _T]) -> _T:
        """What `how` makes of what a node told. Raises OddAnswerError for one that is not as docs/API.md shows it."""
        try:
            return how(told)
        except KeyError as error:
            raise OddAnswerError(self.url, f"there is no {error}") from None
        except (ValueError, TypeError) as error:
            raise OddAnswerError(self.url, str(error)) from None

    @property
    def url(self) -> str:
        """The node that is asked now."""
        return self._urls[self._at]

    @property
    def nodes_count(self) -> int:
        """Those that may be asked."""
        return len(self._urls)

    @property
    def patience_s(self) -> float:
        return self._patience_s

    def turn(self) -> None:
        """The next node is asked from now on."""
        self._at = (self._at + 1) % len(self._urls)

    def unreachable(self, error: Exception) -> UnreachableError:
        """What is said of the node that is asked now."""
        return UnreachableError(f"{self.url}: {str(error) or type(error).__name__}")

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
        return self.client.read(await self.client.ask("GET", self._path + "/changes"), _documents("changes"))

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
            revision = self.client.read(await self.show(), lambda shown: int(shown["revision"]))
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

    async def recover(self, confirm: str) -> Document:
        """At the one node that the client was given: go on from its log alone. `confirm` is the job's name once more. Raises
        ValueError for a client of several nodes, of which any might be asked."""
        if self.client.nodes_count != 1:
            raise ValueError(f"{self.client.nodes_count} nodes are named: connect to the one whose log it shall go on from")
        return await self.client.ask("POST", f"{self._path}/recover", {"confirm": confirm})

    async def tree(self, depth: int | None = None) -> Document:
        """Its reducer tree, from the root."""
        return await self.client.ask("GET", _query(self._path + "/tree", depth=depth))

    async def backfill_scope(
        self, start: datetime | None = None, end: datetime | None = None, revision: int | None = None
    ) -> BackfillScope:
        """What a backfill of windows that start in [start, end) has to compute; by default all before those that are live,
        by the current revision."""
        given = {"from": time_text(start), "to": time_text(end), "revision": revision}
        body = {name: value for name, value in given.items() if value is not None}
        return self.client.read(await self.client.ask("POST", self._path + "/backfill", body), scope_of)

    async def put_windows(self, windows: Iterable[Mapping[str, Any] | bytes]) -> dict[str, int]:
        """Makes windows computed elsewhere results of the job: documents as docs/SPARK.md has them, or their JSON. Returns
        how many were `stored` for the first time, how many were there the `same` and how many were `replaced`. Sending
        one again is no error; what was sent before an error stays."""
        told = dict(NOTHING_PUT)
        for body in bodies(windows):
            told = put_in_all(told, await self.put_body(body))
        return told

    async def put_body(self, body: bytes) -> dict[str, int]:
        """One request of `put_windows`: a JSON document each line, within the limits of nodes."""
        headers = {"Content-Type": "application/x-ndjson"}
        answer = await self.client.ask("PUT", self._path + "/backfill/windows", body, headers)
        return self.client.read(answer, lambda answer: {name: int(answer[name]) for name in NOTHING_PUT})

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
        """Windows that start in [start, end) in order of time, at most `limit`; the latest edition of each, or with `all`
        every one."""
        after: str | None = None
        left = PAGE_WINDOWS if limit is None else limit
        while left > 0:
            query = {"from": time_text(start), "to": time_text(end), "status": status, "rows": rows, "after": after}
            path = _query(self._path + "/results", **query, all="true" if all else None, limit=min(left, PAGE_WINDOWS))
            page = await self.client.ask("GET", path)
            documents = self.client.read(page, _documents("results"))
            for document in documents:
                yield self.client.read(document, window_result)
            left -= 0 if limit is None else len(documents)
            after = self.client.read(page, _next)
            if after is None:
                return

    async def last_id(self) -> int:
        """Of the newest result there is; 0: there is none."""
        page = await self.client.ask("GET", _query(self._path + "/results", limit=1, rows=0))
        return self.client.read(page, lambda page: int(page["last"]))

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
            after = await self.last_id()
        last, connected = after, False
        tries = Tries(self.client.patience_s, self.client.nodes_count)
        while True:
            failed: Exception = UnreachableError(f"{self.client.url}: the stream ended")
            is_hopeless = False
            try:
                async for event in self._events(path, last):
                    if not connected:
                        connected, tries = True, Tries(math.inf)
                    tries.worked()
                    if event.name == "result":
                        result = self.client.read(event, _result)
                        last = result.id
                        yield result
                    elif event.name in ("gap", "reset"):
                        raise self.client.read(event, _lost)
                    elif event.name == "end" and b'"removed"' in event.data:
                        return
            except OddAnswerError:
                raise
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                failed, is_hopeless = self.client.unreachable(error), not connected and _is_hopeless(error)
                self.client.turn()
            except ApiError as error:
                if connected and error.kind == "unknown":
                    return
                if error.status not in RETRY_STATUSES:
                    raise
                failed = error
            wait_s = tries.wait_s(is_hopeless)
            if wait_s is None:
                raise failed
            await asyncio.sleep(wait_s)

    async def _events(self, path: str, last: int) -> AsyncIterator[StreamEvent]:
        """Of one connection."""
        headers = {"Last-Event-ID": str(last), "Accept": "text/event-stream"}
        parser = EventParser()
        async with self.client.request("GET", path, None, headers, None) as answer:
            if answer.status != 200:
                raise api_error(answer.status, await self.client.whole(answer))
            yield StreamEvent("open", "", b"")
            async for data in answer.content.iter_any():
                for event in self.client.read(data, parser.feed):
                    yield event


def _is_hopeless(error: Exception) -> bool:
    """A certificate that is not trusted: it will not be when asked again either."""
    return isinstance(error, ssl.SSLError) and not isinstance(error.__cause__, ssl.SSLEOFError)


def api_error(status: int, text: bytes) -> ApiError:
    try:
        return ApiError(status, msgspec.json.decode(text, type=Document))
    except msgspec.MsgspecError:
        return ApiError(status, {"detail": f"status {status}: this does not seem to be a node of elfstream"})


def time_text(moment: datetime | None) -> str | None:
    """RFC 3339; without a time zone it is UTC."""
    if moment is None:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).isoformat()


def _documents(name: str) -> Callable[[Document], list[Document]]:
    """The list of that name in an answer."""
    return lambda answer: msgspec.convert(answer[name], list[Document])


def _next(page: Document) -> str | None:
    return msgspec.convert(page["next"], str | None)


def _result(event: StreamEvent) -> WindowResult:
    return window_result(msgspec.json.decode(event.data, type=Document))


def _lost(event: StreamEvent) -> ResultsLostError:
    told = msgspec.json.decode(event.data, type=dict[str, int])
    if event.name == "gap":
        return ResultsLostError(told["after"], told["upto"], "they were kept long enough and dropped")
    return ResultsLostError(told["after"], told["last"], "the job was made anew")


def _query(path: str, **parameters: object) -> str:
    given = {name: value for name, value in parameters.items() if value is not None}
    return f"{path}?{urlencode(given)}" if given else path


def _base(url: str) -> str:
    url = url.rstrip("/")
    return url if url.startswith(("http://", "https://")) else f"http://{url}"
