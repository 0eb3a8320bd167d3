"""Nodes with everything but a core: jobs and results in memory, shared by all, behind real sockets on loopback.

It keeps to master/requests.py and master/service.py, so that tests of the HTTP API are about the API alone.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp
import msgspec
import zstandard
from aiohttp import web
from sortedcontainers import SortedDict

from elfstream.embedded import schema_of
from job.formats import find
from job.plan import Plan, Schema
from job.plan_book import NEVER_US, row_plan
from job.settings import JobSpec
from master.api import HttpApi
from master.api_options import ApiOptions
from master.ingested import Shape, window_fault
from master.job_events import ReadResults
from master.requests import (
    BACKFILL,
    ChangeJob,
    Coverage,
    DescribeJob,
    DescribeNode,
    DescribeVertex,
    FindMaster,
    ForgetAgent,
    GivenWindow,
    IngestView,
    IngestWindows,
    JobView,
    MasterAt,
    NodeView,
    NoteDelivered,
    Rates,
    RecoverJob,
    Refusal,
    RemoveJob,
    ResultColumn,
    ResultRecord,
    RevisionView,
    StopJob,
    SubmitJob,
    VertexView,
)
from master.result_store import (
    INDEX_END,
    STORE,
    StoredResults,
    before,
    dropped_key,
    everything,
    index_key,
    puts,
    read_results,
)
from master.service import ConfigMistake, JobNotice, NodeNotice, NotReloaded, Refused, Reloaded
from srt.automaton import Delete, Put, Ref
from srt.ids import job_key
from tests.patience import PATIENCE_S

SECOND_US = 1_000_000
EPOCH_US = 1_764_360_000 * SECOND_US
COVERAGE = Coverage(2, ("web3",), 100, 90, 5, 3, 2, 0, 0)
RATES = Rates(5.5, 0.4, 1100.0, 1091.25, 8.75, 0.0)
SQL = "SELECT window(time, '10 seconds') AS w, path, count(*) AS hits FROM access GROUP BY w, path LIMIT 5"


def revision_of(number: int, spec: JobSpec, plan: Plan | None, start_us: int | None) -> RevisionView:
    return RevisionView(
        number, spec.sql, spec.settings.shown(), plan, start_us, EPOCH_US, "open", "", spec.parameters
    )


@dataclass
class MemoryJob:
    name: str
    first: JobSpec
    revisions: list[RevisionView]
    state: str = "running"
    newest: int = 0
    """Index of its newest result that is stored."""
    ahead: int = 0
    """By how much its log is ahead of that."""
    delivered: int = 0
    forgotten: list[str] = field(default_factory=list)

    def shape(self, revision: RevisionView) -> Shape:
        derived, plan = self.first.derived, revision.plan
        if derived is not None:
            columns = tuple(ResultColumn(one.name, str(one.type)) for one in derived.columns)
            return Shape(columns, derived.size_us, 0, NEVER_US)
        assert plan is not None
        window = row_plan(plan).window
        sizes = (0, 0) if window is None else (window.size_us, window.slide_us)
        return Shape(tuple(ResultColumn(one.name, str(one.expr.type)) for one in plan.outputs), *sizes, EPOCH_US)


class MemoryFleet:
    """What all nodes know. `leaders` moves a job; `silent` nodes answer no question."""

    def __init__(self) -> None:
        self.nodes: list[MemoryNode] = []
        self.jobs: dict[bytes, MemoryJob] = {}
        self.leaders: dict[bytes, int] = {}
        self.leaderless = False
        self.refused: Refusal | None = None
        """Whoever is asked about the master of a job says so."""
        self.waits_for: tuple[tuple[str, int], ...] = ()
        self.store = MemoryStore()
        self.news = asyncio.Event()

    def empty_job(self, name: str) -> bytes:
        """A job that nobody submitted, for tests of readers alone."""
        self.jobs[job_key(name)] = MemoryJob(name, JobSpec(name, SQL), [])
        return job_key(name)

    def publish(
        self,
        name: str,
        start_s: int | None,
        rows: Sequence[Sequence[Any]],
        status: str = "final",
        edition: int = 1,
        columns: Iterable[tuple[str, str]] = (("path", "STRING"), ("hits", "BIGINT")),
        plan: int = 1,
        size_s: int = 10,
    ) -> ResultRecord:
        key, job = job_key(name), self.jobs[job_key(name)]
        start_us = None if start_s is None else EPOCH_US + start_s * SECOND_US
        job.newest += 3
        record = ResultRecord(
            job.newest, start_us, None if start_us is None else start_us + size_s * SECOND_US, edition, status, plan,
            EPOCH_US, sum(1 for _ in rows), COVERAGE, tuple(ResultColumn(*column) for column in columns),
            len(rows), zstandard.compress(msgspec.json.encode(rows)),
        )  # fmt: skip
        self.store.change(*puts(key, record, msgspec.msgpack.encode(record)))
        self.tell()
        return record

    def ingest(self, key: bytes, windows: Sequence[GivenWindow]) -> IngestView:
        """As master/ingests.py does it, without a log."""
        job, told = self.jobs[key], {"stored": 0, "same": 0, "replaced": 0}
        shapes = {one.revision: job.shape(one) for one in job.revisions}
        for window in windows:
            shape = shapes.get(window.revision)
            fault = ("revision", "there is none") if shape is None else window_fault(shape, window.start_us, window.end_us)
            if shape is not None and window.columns != shape.columns:
                fault = ("columns", "others")
            if fault is not None:
                raise Refused(Refusal("invalid", fault[1], fault[0], line=window.line))
        places = tuple((window.start_us, window.end_us) for window in windows)
        latest = read_results(self.store, ReadResults(0, key, INDEX_END, 1, places)).latest
        for window, (edition, digest) in zip(windows, latest, strict=True):
            if edition and digest == window.digest:
                told["same"] += 1
                continue
            told["replaced" if edition else "stored"] += 1
            job.newest += 3
            record = ResultRecord(
                job.newest, window.start_us, window.end_us, edition + 1, "final", window.revision, EPOCH_US, window.lines,
                COVERAGE, window.columns, window.rows, window.packed, BACKFILL, window.digest,
            )  # fmt: skip
            self.store.change(*puts(key, record, msgspec.msgpack.encode(record)))
        self.tell()
        return IngestView(**told)

    def drop(self, name: str, upto: int) -> None:
        key = job_key(name)
        kept = StoredResults(self.store).since(key, upto, 1)[0].start_us or 0
        self.store.change(
            Delete(index_key(key, 0), index_key(key, upto + 1)), before(key, kept), Put(dropped_key(key), upto.to_bytes(8))
        )

    def tell(self) -> None:
        self.news.set()
        self.news = asyncio.Event()

    def leader(self, key: bytes) -> int:
        return self.leaders.get(key, key[0] % len(self.nodes))


class MemoryNode:
    """A `NodeService`."""

    def __init__(self, fleet: MemoryFleet, ref: Ref) -> None:
        self.fleet, self.ref, self.results = fleet, ref, MemoryReader(fleet.store)
        self.faults_now: list[str] = []
        self.mistakes: list[ConfigMistake] = []
        self.silent = False
        self.children: tuple[Ref, ...] = ()
        self.asked: list[Any] = []

    async def ask(self, key: bytes, request: Any) -> Any:
        self.asked.append(request)
        if self.silent:
            raise TimeoutError
        if isinstance(request, DescribeNode):
            led = [one.hex() for one in self.fleet.jobs if self._leads(one)]
            return NodeView(self.ref, "agent", self.children, tuple(led), 5, 10)
        if isinstance(request, FindMaster):
            if self.fleet.refused is not None:
                raise Refused(self.fleet.refused)
            if self.fleet.leaderless:
                return MasterAt(None, False)
            return MasterAt(self.fleet.nodes[self.fleet.leader(key)].ref, key in self.fleet.jobs)
        if isinstance(request, DescribeVertex):
            if key not in self.fleet.jobs:
                raise Refused(Refusal("unknown", "this node has no part in the job"))
            return VertexView(self.ref, "root" if self._leads(key) else "inner", None, self.children, 1)
        if not self._leads(key):
            leader = self.fleet.nodes[self.fleet.leader(key)].ref
            raise Refused(Refusal("elsewhere", "another node leads", master=leader))
        return self._as_master(key, request)

    def _leads(self, key: bytes) -> bool:
        return self.fleet.nodes[self.fleet.leader(key)] is self

    def _as_master(self, key: bytes, request: Any) -> JobView | IngestView:
        jobs = self.fleet.jobs
        if isinstance(request, SubmitJob):
            spec = request.spec
            if key not in jobs:
                jobs[key] = MemoryJob(spec.name, spec, [revision_of(1, spec, request.plan, None)])
            elif jobs[key].first != spec:
                raise Refused(Refusal("exists", f"there is another job {spec.name}", "name"))
            return self._view(jobs[key])
        if key not in jobs:
            raise Refused(Refusal("unknown", "there is no such job"))
        job = jobs[key]
        if isinstance(request, ChangeJob):
            if request.expected_revision not in (0, len(job.revisions)):
                raise Refused(Refusal("stale", "another revision is the current one", "If-Match"))
            number = len(job.revisions) + 1
            job.revisions.append(revision_of(number, request.spec, request.plan, request.start_us))
        elif isinstance(request, IngestWindows):
            return self.fleet.ingest(key, request.windows)
        elif isinstance(request, StopJob):
            job.state = "draining" if request.drain else "stopped"
        elif isinstance(request, RemoveJob):
            del jobs[key]
            self.fleet.store.change(everything(key))
            self.fleet.tell()
        elif isinstance(request, RecoverJob):
            pass  # it leads
        elif isinstance(request, ForgetAgent):
            if request.name != "web3":
                raise Refused(Refusal("unknown", f"there is no agent {request.name}", "agent"))
            job.forgotten.append(request.name)
        elif isinstance(request, NoteDelivered):
            job.delivered = request.upto
        else:
            assert isinstance(request, DescribeJob)
        return self._view(job)

    def _view(self, job: MemoryJob) -> JobView:
        nodes = [node.ref for node in self.fleet.nodes]
        return JobView(
            job.name, job.state, "running", len(job.revisions), tuple(job.revisions), EPOCH_US, self.ref,
            tuple(nodes[:3]), COVERAGE, EPOCH_US, None, 1, job.newest // 3, job.newest + job.ahead, job.delivered,
            None if job.first.derived else EPOCH_US, job.first.derived, self.fleet.waits_for,
            Rates(RATES.over_s, RATES.results) if job.first.derived else RATES,
        )  # fmt: skip

    async def published(self, key: bytes, index: int) -> None:
        while not self.results.since(key, index, 1):
            await self.fleet.news.wait()

    def jobs(self) -> Sequence[JobNotice]:
        return [
            JobNotice(job.name, "" if job.first.derived else "access", "running", len(job.revisions), EPOCH_US, EPOCH_US)
            for job in self.fleet.jobs.values()
        ]

    def nodes(self) -> Sequence[NodeNotice]:
        return [
            NodeNotice(f"web{number}", node.ref, "agent", "0.1", EPOCH_US, EPOCH_US, ("access",))
            for number, node in enumerate(self.fleet.nodes, 1)
        ]

    def schemas(self) -> dict[str, Schema]:
        return {"access": schema_of(find("combined"))}

    def metrics(self) -> str:
        return "# EOF\n"

    async def reload(self) -> Reloaded:
        if self.mistakes:
            raise NotReloaded(self.mistakes)
        return Reloaded("0123456789abcdef", ("sources.access.paths",), ("node.listen",))

    def faults(self) -> Sequence[str]:
        return self.faults_now


class MemoryStore:
    """A `RangeStore`. Any thread."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._values: SortedDict[bytes, bytes] = SortedDict()

    def change(self, *changes: Put | Delete) -> None:
        with self.lock:
            for change in changes:
                if isinstance(change, Put):
                    self._values[change.key] = change.value
                else:
                    for name in list(self._values.irange(change.first, change.last, (True, False))):
                        del self._values[name]

    def scan(
        self, store: str, first: bytes, last: bytes, limit: int, reverse: bool = False
    ) -> Sequence[tuple[bytes, bytes]]:
        assert store == STORE
        with self.lock:
            names = self._values.irange(first, last, (True, False), reverse)
            return [(name, self._values[name]) for name in itertools.islice(names, limit)]


class MemoryReader(StoredResults):
    """Lacks what a test says."""

    lacking: tuple[int, int] | None = None

    def lacks(self, key: bytes) -> tuple[int, int] | None:
        return self.lacking


def _patient(options: ApiOptions) -> ApiOptions:
    """With time for all that a test says nothing of: a busy machine may take seconds to compile SQL or to connect."""
    usual = ApiOptions()
    unsaid = [name for name in ("request_s", "compile_s", "connect_s") if getattr(options, name) == getattr(usual, name)]
    return replace(options, **dict.fromkeys(unsaid, PATIENCE_S))


class Running:
    """Nodes of a fleet with their HTTP servers; to be used in `async with`."""

    server_tls: ssl.SSLContext | None = None

    def __init__(
        self, count: int = 1, options: ApiOptions | None = None, tables: Mapping[str, Any] | None = None
    ) -> None:
        self.fleet, self._count, self._tables = MemoryFleet(), count, tables
        self._options = _patient(options or ApiOptions())
        self._sockets: list[socket.socket] = []
        self.runners: list[web.AppRunner] = []
        self.apis: list[HttpApi] = []

    async def __aenter__(self) -> Running:
        for number in range(self._count):
            listening = socket.create_server(("127.0.0.1", 0))
            self._sockets.append(listening)
            host, port = listening.getsockname()
            ref = Ref(bytes([number * 16]) * 16, f"{host}:{port}", 1)
            self.fleet.nodes.append(MemoryNode(self.fleet, ref))
        for node, listening in zip(self.fleet.nodes, self._sockets, strict=True):
            api = HttpApi(node, self._options, self._tables)
            self.made(api.app)
            runner = web.AppRunner(api.app, access_log=None, shutdown_timeout=5.0)
            await runner.setup()
            await web.SockSite(runner, listening, ssl_context=self.server_tls).start()
            self.apis.append(api)
            self.runners.append(runner)
        return self

    async def __aexit__(self, *_: object) -> None:
        for runner in self.runners:
            await runner.cleanup()
        for listening in self._sockets:
            listening.close()

    def made(self, app: web.Application) -> None:
        """For further routes."""

    def url(self, number: int = 0) -> str:
        scheme = "http" if self.server_tls is None else "https"
        return f"{scheme}://{self.fleet.nodes[number].ref.address}"

    async def kill(self, number: int) -> None:
        await self.runners[number].cleanup()
        self._sockets[number].close()


@dataclass
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def kind(self) -> str:
        """Of the problem."""
        assert self.headers["Content-Type"] == "application/problem+json"
        assert self.json["status"] == self.status
        return str(self.json["type"]).rpartition("/")[2]


class Client:
    """One session that asks the nodes of a fleet."""

    def __init__(self, running: Running, session: aiohttp.ClientSession) -> None:
        self.running, self.fleet, self.session = running, running.fleet, session

    async def __call__(self, method: str, path: str, number: int = 0, **arguments: Any) -> Answer:
        async with self.session.request(method, self.running.url(number) + path, **arguments) as answer:
            return Answer(answer.status, answer.headers, await answer.read())

    async def submit(self, name: str = "hot", sql: str = SQL, number: int = 0, **members: Any) -> Answer:
        answer = await self("POST", "/v1/jobs", number, json={"name": name, "sql": sql, **members})
        assert answer.status in (200, 201), answer.body
        return answer


def with_fleet(
    main: Callable[[Client], Awaitable[None]],
    count: int = 1,
    options: ApiOptions | None = None,
    tables: Mapping[str, Any] | None = None,
    running: type[Running] = Running,
) -> None:
    """Runs a test with so many nodes."""

    async def run() -> None:
        async with running(count, options, tables) as nodes, aiohttp.ClientSession() as session:
            await asyncio.wait_for(main(Client(nodes, session)), PATIENCE_S)

    asyncio.run(run())
