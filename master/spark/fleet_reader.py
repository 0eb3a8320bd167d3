"""What Spark asks a fleet, in plain blocking HTTP: a driver or an executor has no event loop, and needs only the standard
library and msgspec for it. docs/API.md says what is asked."""

from __future__ import annotations

import http.client
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypedDict, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from master.asking import ANSWER_BYTES_MAX, ERROR_BYTES_MAX, PORT, RETRY_STATUSES, URL, Tries
from master.event_stream import COMMENT, EventParser
from master.spark.errors import FleetReadError
from master.spark.paced_socket import Pace, PacedSocket

PATIENCE_S = 30.0
CONNECT_S = 10.0
PAGE_WINDOWS = 200
PIECE_BYTES = 1 << 20
T = TypeVar("T")
_Moment = Annotated[datetime, msgspec.Meta(tz=True)]


class WindowDocument(TypedDict):
    start: _Moment
    end: _Moment


class ColumnDocument(TypedDict):
    name: str
    type: str


class ResultDocument(TypedDict):
    """What is asked of a result; docs/API.md has the rest."""

    id: int
    window: WindowDocument | None
    revision: int
    status: str
    columns: list[ColumnDocument]
    rows: list[dict[str, Any]]


class JobDocument(TypedDict):
    """What is asked of a job."""

    name: str
    created: str
    columns: list[ColumnDocument]


class _Name(TypedDict):
    name: str


class _Jobs(TypedDict):
    jobs: list[_Name]
    next: str | None


class _Results(TypedDict):
    results: list[ResultDocument]
    next: str | None
    last: int


class _Gap(TypedDict):
    after: int
    upto: int


class _Reset(TypedDict):
    after: int
    last: int


class FleetAddress(NamedTuple):
    """Where a fleet is and how one is let in; travels to executors, so files have to be there as well."""

    urls: tuple[str, ...] = (URL,)
    token: str | None = None
    cacert: str | None = None
    cert: str | None = None
    key: str | None = None

    def turned(self, places: int) -> FleetAddress:
        """With another node first, so that readers at the same time share the nodes."""
        first = places % len(self.urls)
        return self._replace(urls=(*self.urls[first:], *self.urls[:first]))

    def context(self) -> ssl.SSLContext:
        """Raises FleetReadError for files that are not there or of no use."""
        files = {"cacert": self.cacert, "cert": self.cert, "key": self.key}
        given = {name: file for name, file in files.items() if file is not None}
        for name, file in given.items():
            if not Path(file).is_file():
                raise FleetReadError(f"option {name}: there is no file {file} on this machine")
        try:
            context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=self.cacert)
            if self.cert is not None:
                context.load_cert_chain(self.cert, self.key)
        except (OSError, ValueError) as error:  # an SSLError is an OSError
            named = ", ".join(f"{name} {file}" for name, file in given.items())
            raise FleetReadError(f"certificates cannot be used: {error} ({named})") from None
        return context


class _AttemptError(Exception):
    """One attempt that failed: another node, or this one a little later, may answer; `is_hopeless`: not this one."""

    def __init__(self, text: str, is_hopeless: bool = False) -> None:
        self.is_hopeless = is_hopeless
        super().__init__(text)


class FleetReader:
    """Asks one node after the other until one answers, `patience_s` is over, or asking again is of no use. Methods raise
    FleetReadError, which names the node that was asked last. One thread."""

    def __init__(self, address: FleetAddress, patience_s: float = PATIENCE_S) -> None:
        self._address, self._patience_s, self._at = address, patience_s, 0
        self._context: ssl.SSLContext | None = None

    def names(self) -> list[str]:
        """Of all jobs."""
        found: list[str] = []
        after = None
        while True:
            page = self._document(_Jobs, "/v1/jobs", after=after)
            found += [one["name"] for one in page["jobs"]]
            if page["next"] is None:
                return found
            after = page["next"]

    def job(self, name: str) -> JobDocument:
        return self._document(JobDocument, _path(name))

    def last_id(self, name: str) -> int:
        """Of the newest result there is; 0: there is none."""
        return self._document(_Results, _path(name, "/results"), limit=1, rows=0)["last"]

    def windows(
        self, name: str, status: str, start: str | None, end: str | None, rows: int | None = None
    ) -> Iterator[ResultDocument]:
        """The latest result of that status of each window that starts in [start, end), in order of time; an endless window
        counts as one that starts in any range."""
        after = None
        while True:
            page = self._page(name, status, start, end, rows, PAGE_WINDOWS, after)
            yield from page["results"]
            after = page["next"]
            if after is None:
                return

    def starts(
        self, name: str, start: str | None, end: str | None, limit: int = PAGE_WINDOWS
    ) -> tuple[list[datetime], bool]:
        """When the first windows that start in [start, end) and have a final result do so, about `limit` of them and without
        an endless one; and whether there are more."""
        page = self._page(name, "final", start, end, 0, limit + 1)  # the endless one comes first
        starts = [one["window"]["start"] for one in page["results"] if one["window"] is not None]
        return starts, page["next"] is not None

    def _page(
        self,
        name: str,
        status: str,
        start: str | None,
        end: str | None,
        rows: int | None,
        limit: int,
        after: str | None = None,
    ) -> _Results:
        query = {"from": start, "to": end, "status": status, "rows": rows, "limit": limit, "after": after}
        return self._document(_Results, _path(name, "/results"), **query)

    def published(self, name: str, after: int, upto: int) -> Iterator[ResultDocument]:
        """The results with ids in (after, upto] in order of publication, those that are superseded while they are read left
        out. Raises FleetReadError where some were dropped, or the job counts anew."""
        tries = self._tries()
        while after < upto:
            # Asked before the stream begins: only then its first sign of life says that nothing is left up to there.
            is_there = self.last_id(name) >= upto
            try:
                for event, data in self._events(_path(name, "/results/stream"), after):
                    if event == COMMENT:
                        if is_there:
                            return  # what there was up to there is superseded
                        raise _AttemptError(f"results up to {upto} are not there yet")
                    tries.worked()
                    if event == "result":
                        document = _decoded(data, ResultDocument)
                        if after < document["id"] <= upto:
                            yield document
                        after = max(after, document["id"])
                        if after >= upto:
                            return
                    elif event in ("gap", "reset"):
                        raise FleetReadError(_lost(name, event, data))
                    elif event == "end" and b'"removed"' in data:
                        raise FleetReadError(f"job {name} was removed while its results were read")
                raise _AttemptError("the stream ended")
            except (_AttemptError, OSError, http.client.HTTPException) as error:
                self._failed(tries, error)

    # requests

    def _document(self, type: type[T], path: str, **query: object) -> T:
        tries = self._tries()
        while True:
            try:
                with self._opened(path, {}, query) as (answer, _):
                    return _decoded(_whole(answer), type)
            except (_AttemptError, OSError, http.client.HTTPException) as error:
                self._failed(tries, error)

    def _events(self, path: str, after: int) -> Iterator[tuple[str, bytes]]:
        """Of one connection."""
        parser = EventParser(comments=True)
        with self._opened(path, {"Last-Event-ID": str(after)}, {}) as (answer, pace):
            while data := answer.read1(PIECE_BYTES):
                try:
                    events = parser.feed(data)
                except ValueError as error:
                    raise _AttemptError(str(error), is_hopeless=True) from None
                if events:
                    pace.restart()
                for event in events:
                    yield event.name, event.data

    @contextmanager
    def _opened(
        self, path: str, headers: Mapping[str, str], query: Mapping[str, object]
    ) -> Iterator[tuple[http.client.HTTPResponse, Pace]]:
        """Raises FleetReadError for what is refused for good, _AttemptError, OSError and HTTPException for the rest."""
        given = {name: value for name, value in query.items() if value is not None}
        connection, prefix = self._connection()
        own = {"Authorization": f"Bearer {self._address.token}"} if self._address.token else {}
        try:
            connection.connect()
            pace = Pace(f"the answer to {path}")
            connection.sock = PacedSocket(connection.sock, pace)
            asked = f"{prefix}{path}?{urlencode(given)}" if given else prefix + path
            connection.request("GET", asked, headers={**own, **headers})
            answer = connection.getresponse()
            if answer.status != 200:
                problem = _problem(answer)
                raise _AttemptError(problem) if answer.status in RETRY_STATUSES else FleetReadError(
                    f"{self.url}: {problem}"
                )
            yield answer, pace
        finally:
            connection.close()

    def _connection(self) -> tuple[http.client.HTTPConnection, str]:
        """Not connected yet, and what paths there begin with."""
        try:
            parts = urlsplit(self.url)
            host, port = parts.hostname, parts.port
        except ValueError:
            host = None
        if host is None or parts.scheme not in ("http", "https"):
            raise _AttemptError(f"this is no address of a node: write http://HOST:{PORT}", is_hopeless=True)
        if parts.scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=CONNECT_S), parts.path
        if self._context is None:
            self._context = self._address.context()
        return http.client.HTTPSConnection(host, port, timeout=CONNECT_S, context=self._context), parts.path

    def _tries(self) -> Tries:
        return Tries(self._patience_s, len(self._address.urls))

    def _failed(self, tries: Tries, error: Exception) -> None:
        """Waits, and turns to the next node. Raises FleetReadError when it was too often."""
        text, is_hopeless = _told(error)
        wait_s = tries.wait_s(is_hopeless)
        if wait_s is None:
            raise FleetReadError(f"no node answers at {self.url}: {text}{self._hint(error)}") from None
        self._at += 1
        time.sleep(wait_s)

    def _hint(self, error: Exception) -> str:
        """What it may be where a node says nothing and hangs up."""
        if not isinstance(error, http.client.RemoteDisconnected | ConnectionResetError | BrokenPipeError):
            return ""
        if self.url.startswith("http:"):
            return ". Does it want https?"
        return ". Is the certificate of the option cert of the fleet's authority?" if self._address.cert else ""

    @property
    def url(self) -> str:
        """The node that is asked now."""
        url = self._address.urls[self._at % len(self._address.urls)].rstrip("/")
        scheme = "https" if self._address.cacert or self._address.cert else "http"
        return url if "://" in url else f"{scheme}://{url}"


def _told(error: Exception) -> tuple[str, bool]:
    """What is wrong, and whether it will be the next time."""
    if isinstance(error, _AttemptError):
        return str(error), error.is_hopeless
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}; the option cacert names the fleet's authority", True
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        reason = error.reason or str(error)
        wants = "a certificate: name one with the options cert and key" if "ALERT" in reason else "http"
        return f"TLS fails ({reason}). Does it want {wants}?", True
    return str(error) or type(error).__name__, False


def _whole(answer: http.client.HTTPResponse) -> bytes:
    """Raises _AttemptError for one that is too large, HTTPException for one that is cut."""
    data = bytearray()
    while piece := answer.read(PIECE_BYTES):
        data += piece
        if len(data) > ANSWER_BYTES_MAX:
            text = f"the answer has more than {ANSWER_BYTES_MAX} bytes: ask for less time with from and to"
            raise _AttemptError(text, is_hopeless=True)
    if answer.length:  # `read` of a piece does not tell
        raise http.client.IncompleteRead(b"", answer.length)
    return bytes(data)


def _decoded(data: bytes, type: type[T]) -> T:
    """Raises _AttemptError for what a node would not say."""
    try:
        return msgspec.json.decode(data, type=type)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        text = f"what came is not what a node of elfstream says ({error})"
        raise _AttemptError(text, is_hopeless=True) from None


def _path(name: str, rest: str = "") -> str:
    return f"/v1/jobs/{quote(name, safe='')}{rest}"


def _problem(answer: http.client.HTTPResponse) -> str:
    text = answer.read(ERROR_BYTES_MAX)
    try:
        told = msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        told = {}
    found = " ".join(str(told[name]) for name in ("detail", "advice") if told.get(name))
    return found or f"status {answer.status}: this does not seem to be a node of elfstream"


def _lost(name: str, event: str, data: bytes) -> str:
    if event == "gap":
        gap = _decoded(data, _Gap)
        return (
            f"results of the job {name} behind {gap['after']} were kept long enough and dropped, up to {gap['upto']}. "
            f"Read more often, raise the job's setting 'retain', or begin anew with the option startingFrom = {gap['upto']}"
        )
    reset = _decoded(data, _Reset)
    return (
        f"results of the job {name} behind {reset['after']} are lost: its log was recovered with losses and ends at "
        f"{reset['last']}. Begin anew with a new checkpoint and the option startingFrom = {reset['last']}"
    )
