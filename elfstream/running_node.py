"""A node as a process: its core, its threads and its faces, and the effects that go between them (docs/DAEMON.md).

Lives in the loop's thread. Everything that blocks is elsewhere: the core, the logs, the disk and finished windows have
threads of their own.
"""

from __future__ import annotations

import asyncio
import errno
import random
import socket
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from aiohttp import web

from agent.driver import LogsThread
from agent.journal_format import Positions
from agent.log_reader import LogReader
from agent.sources import Sources
from agent.stream_events import Advance, Fold, Release, Trouble
from cbt.budget import Ledger
from cbt.memory import Memory
from elfstream import __version__, descriptors
from elfstream.config import changes
from elfstream.config.model import Address, NodeConfig
from elfstream.core_queue import LATE_MAX_S
from elfstream.core_thread import CoreThread, system_clock
from elfstream.cpu_share import CpuShare, Resting, unlimited
from elfstream.event_log import EventLog
from elfstream.fleet_wire import charged_to, fleet_wire
from elfstream.memory import open_memory
from elfstream.metrics import render
from elfstream.node import HandedOver, NodeCore
from elfstream.node_metrics import of_jobs, of_sources, of_threads
from elfstream.node_parts import Parts, build, sources_of, told
from elfstream.node_security import Security
from elfstream.questions import Bell, Questions
from elfstream.result_tables import tables
from elfstream.workshop import Workshop
from job.plan import Plan, Schema
from master.api import HttpApi
from master.api_options import ApiOptions
from master.finishing import finish, is_long
from master.job_events import Finish, JobErased, OfJob, ReadResults, ResultsStored
from master.requests import Answer, DescribeNode
from master.result_store import StoredResults, read_results
from master.service import JobNotice, NodeNotice, Reloaded
from srt.automaton import Ref, Send, Write
from srt.data_dir import DataDir
from srt.directory import EntryChanged, EntryEnded
from srt.driver import PeerLinks
from srt.handshakes import watch_handshakes
from srt.ids import ID_BYTES
from srt.links import Free, Hold, Links
from srt.peer_counters import printable
from srt.peer_options import PeerOptions
from srt.ring import LeaveRing
from srt.stores import Stores
from srt.tree_events import CastEnded
from srt.tree_events import Refused as TreeRefused
from srt.wire import VERSION, VERSION_LEAST, Greeting

log = EventLog("node")
KEEPALIVE_S = 75.0
"""A connection without a request for so long, or without a whole one, is closed; streams and links stay."""
BOOK_S = 0.1
"""So often what links hold is charged to the memory of the node."""
HAND_OVER_PART = 0.5
"""So much of `drain_max` others have to take over."""
LEAVE_S = 0.5
"""Others get so long to hear that we go."""


_PORT_ADVICE = {
    errno.EADDRINUSE: "the port is in use; is another node running? Name another one under node.listen",
    errno.EADDRNOTAVAIL: "this machine has no such address; look at node.listen",
    errno.EACCES: "ports below 1024 are for root; name another one under node.listen",
}


class PortError(Exception):
    """The port cannot be opened. `str(error)` is fit to be shown."""


class RunningNode:
    """One node; `master.service.NodeService` for the faces. All methods in the thread of the loop that `start` ran in."""

    def __init__(
        self, config: NodeConfig, failed: Callable[[str], None], reload: Callable[[], Awaitable[Reloaded]]
    ) -> None:
        """`failed` is called, once and in any thread, when the node cannot go on: why. `reload` is that of NodeService, for
        the file is another's."""
        self.config = config
        self._failed, self._reload = failed, reload
        self._rng = random.Random()
        self._to_loop: deque[Any] = deque()
        self._bell = Bell()
        self._leaving = False
        cores = config.limits.cpu_max_cores
        share = None if cores is None else CpuShare(cores)
        self._frames_rest_s = unlimited if share is None else Resting(share.live_rest_s)
        self._lines_rest_s = unlimited if share is None else Resting(share.live_rest_s)
        self._old_rest_s = unlimited if share is None else Resting(share.rest_s)
        self._logs: LogsThread | None = None
        self._work = Workshop(self._post, partial(self._broken, "work"))
        self._aside = ThreadPoolExecutor(1, thread_name_prefix="aside")
        """What the thread of the logs does not wait for."""
        self._handed_over = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop
        self._core: NodeCore
        self._thread: CoreThread
        self._links: PeerLinks
        self._stores: Stores
        self._questions: Questions
        self._api: HttpApi
        self._runner: web.AppRunner
        self._memory: Memory
        self._booking: asyncio.Task[None]

    # start and stop

    async def start(self) -> None:
        """Returns when the port is open and the core runs. Raises StoreError, MemoryCapError, SpillError, SecretError,
        FormatError, PortError."""
        config = self.config
        self._loop = asyncio.get_running_loop()
        self._directory = DataDir(Path(config.data_dir))
        identity = self._directory.identity()
        self._stores = Stores(self._directory.path)
        self._memory = _memory(config, self._directory.path)
        self._sources = sources_of(config)
        listener = _listener(config.listen)
        try:
            ref = Ref(identity.ring_id, str(config.advertise or _bound(listener)), identity.boot)
            parts = build(
                config,
                ref,
                self._stores,
                self._memory,
                self._rng,
                self._sources,
                self._can_run,
                self._reader,
            )
            await self._faces(ref, listener)
        except BaseException:
            listener.close()
            raise
        self._run(parts)
        await self._links.start()
        self._booking = self._loop.create_task(self._book_links())
        log.info("started", name=config.name, address=ref.address, id=ref.id.hex(), boot=ref.boot,
                 role="agent" if config.is_agent else "worker", version=__version__)  # fmt: skip

    def _reader(self, start: Positions | None, path: str, journal_id: bytes) -> LogReader:
        return LogReader(self._sources, start, self._memory, path, journal_id, aside=self._aside.submit)

    async def _faces(self, ref: Ref, listener: socket.socket) -> None:
        security = Security(self.config.security)
        options = ApiOptions(
            name=self.config.name,
            token=security.token,
            certificates=security.peer_auth.certificate_required,
            client_tls=security.client_tls,
            webhook_secret=security.webhook_secret,
            webhook_hosts=security.webhook_hosts,
        )
        self._api = HttpApi(self, options, tables())
        greeting = Greeting(VERSION_LEAST, VERSION, ref, self.config.fleet)
        self._links = PeerLinks(
            greeting,
            fleet_wire(),
            charged_to,
            Links(),
            self._api.app,
            self._post,
            system_clock,
            self._rng,
            security.peer_auth,
            PeerOptions(peers_max=descriptors.of_peers(descriptors.limit())),
        )
        if security.server_tls is not None:
            watch_handshakes(security.server_tls, self._links.handshake_failed)
        self._runner = web.AppRunner(
            self._api.app, access_log=None, handle_signals=False, keepalive_timeout=KEEPALIVE_S
        )
        await self._runner.setup()
        await web.SockSite(self._runner, listener, ssl_context=security.server_tls).start()

    def _run(self, parts: Parts[LogReader]) -> None:
        self._core = parts.core
        self._thread = CoreThread(
            parts.core, self._carriers(), partial(self._broken, "core"), self._flush, system_clock, self._frames_rest_s
        )
        self._questions = Questions(self._post, self._loop)
        self.results = StoredResults(self._stores)
        self._stores.start(self._post, partial(self._broken, "disk"))
        self._thread.start()
        if parts.reader is not None:
            self._start_logs(parts.reader)
        for event in parts.first:
            self._post(event)

    def _start_logs(self, reader: LogReader) -> None:
        self._logs = LogsThread(
            reader,
            self._post,
            lambda text: log.warning("logs", problem=text),
            partial(self._broken, "logs"),
            self._lines_rest_s,
            self._old_rest_s,
        )
        self._logs.start()

    async def _book_links(self) -> None:
        """What links hold counts towards `memory_max`: trees make room for it."""
        ledger = Ledger(self._memory.budget)
        booked = 0
        while True:
            held = self._links.held_bytes
            ledger.charge(held - booked)
            booked = held
            await asyncio.sleep(BOOK_S)

    async def alive(self) -> None:
        """Returns when the core has answered a question. Raises TimeoutError when it does not, Refused."""
        await self.ask(bytes(ID_BYTES), DescribeNode())

    def apply(self, config: NodeConfig, sources: Sources) -> Reloaded:
        """Other sources, from now on, and whatever else takes no restart; what takes one is told. `sources` are those of the
        configuration. After `start`."""
        found = changes(self.config, config)
        for key in found.restart:
            log.warning("a change of this key takes a restart", key=key)
        if self._logs is not None and found.config.sources != self.config.sources:
            self._sources = sources
            self._logs.change(sources)
            self._post(told(sources))
        self.config = found.config
        return Reloaded(self.config.digest, found.changed, found.restart)

    async def stop(self) -> None:
        """Leaves the fleet: others hear of it and take over its jobs, what was decided is stored, and nothing is lost that
        the logs do not have."""
        self._leaving = True
        self._booking.cancel()
        self._post(LeaveRing())
        try:
            await asyncio.wait_for(self._handed_over.wait(), HAND_OVER_PART * self.config.limits.drain_max_s)
        except TimeoutError:
            log.warning("stops though others do not have all its jobs yet; they have to elect leaders")
        self._api.end_streams()  # readers go to those who have the jobs now
        await asyncio.sleep(LEAVE_S)
        await self._links.close()  # the web server would wait a minute for those that peers dialled
        await self._runner.cleanup()
        self._thread.stop()
        await asyncio.to_thread(self._thread.join, self.config.limits.drain_max_s)
        if self._logs is not None:
            await asyncio.to_thread(self._logs.stop, self.config.limits.drain_max_s)
        self._aside.shutdown(wait=False)
        self._work.close()
        await asyncio.to_thread(self._stores.close)
        self._directory.close()
        log.info("stopped")

    def _can_run(self, plan: Plan) -> str | None:
        return self._sources.can_run(plan)

    def _broken(self, part: str, problem: BaseException) -> None:
        log.failure(f"the thread {part} broke", problem)
        self._failed(f"the thread {part} broke: {problem}")

    # effects

    def _post(self, event: Any, dealt: Callable[[], None] | None = None) -> None:
        self._thread.post(event, dealt)

    def _carriers(self) -> dict[type, Callable[[Any], None]]:
        """Called in the core's thread."""
        to_loop = self._to_loop.append
        return {
            **dict.fromkeys((Send, Hold, Free, Answer, ResultsStored, OfJob, HandedOver), to_loop),
            Write: self._stores.write,
            **dict.fromkeys((Advance, Fold, Release), self._ask_logs),
            Finish: lambda effect: self._work.give(lambda: finish(effect, self._memory), is_long(effect)),
            ReadResults: lambda effect: self._work.give(lambda: read_results(self._stores, effect)),
            Trouble: lambda trouble: log.warning("trouble", problem=trouble.problem),
            JobErased: lambda erased: log.info("job erased", job=erased.key.hex()),
            TreeRefused: lambda refused: log.warning("tree", problem=refused.problem),
            **dict.fromkeys((EntryChanged, EntryEnded, CastEnded), lambda _: None),
        }

    def _ask_logs(self, ask: Any) -> None:
        assert self._logs is not None
        self._logs.give(ask)

    def _flush(self) -> None:
        """In the core's thread, after a turn."""
        if self._to_loop:
            self._loop.call_soon_threadsafe(self._carry)

    def _carry(self) -> None:
        while self._to_loop:
            effect = self._to_loop.popleft()
            if isinstance(effect, Send):
                self._links.send(effect.to, effect.message)
            elif isinstance(effect, Answer):
                self._questions.answered(effect)
            elif isinstance(effect, ResultsStored):
                self._bell.ring(effect.key)
            elif isinstance(effect, Hold):
                self._links.hold(effect.key)
            elif isinstance(effect, Free):
                self._links.free(effect.key)
            elif isinstance(effect, HandedOver):
                self._handed_over.set()
            else:
                log.info("job", job=effect.key.hex(), told=type(effect.effect).__name__)

    # the service of the faces

    @property
    def ref(self) -> Ref:
        return self._core.ref

    async def ask(self, key: bytes, request: Any) -> Any:
        return await self._questions.ask(key, request)

    async def published(self, key: bytes, index: int) -> None:
        while True:
            # Listens before it looks, or what comes in between is missed.
            heard = asyncio.ensure_future(self._bell.heard(key))
            try:
                await asyncio.sleep(0)
                if await asyncio.to_thread(self.results.last_index, key) > index:
                    return
                await heard
            finally:
                heard.cancel()

    def jobs(self) -> Sequence[JobNotice]:
        return self._core.board.jobs()

    def nodes(self) -> Sequence[NodeNotice]:
        return self._core.board.nodes()

    def schemas(self) -> dict[str, Schema]:
        return self._core.board.schemas()

    def faults(self) -> Sequence[str]:
        faults = []
        if self._leaving:
            faults.append("this node is leaving the fleet")
        elif not self._core.ring.active:
            why = self._links.last_failure
            faults.append("this node has not joined the fleet yet" + (why and f": {printable(why)}"))
        late_s = self._thread.late_s
        if late_s > LATE_MAX_S:
            faults.append(f"this node is {late_s:.1f} s late with its work: it takes no further jobs until it is not")
        return faults

    async def reload(self) -> Reloaded:
        return await self._reload()

    def metrics(self) -> str:
        values = of_threads(self._thread, self._stores, self._links, self._memory.budget)
        if self._logs is not None:
            values |= of_sources(self._logs.figures)
        values |= of_jobs(self._core.masters.figures, time.time_ns() // 1000)
        values |= self._api.counters()
        values |= {
            "build_info": {__version__: 1},
            "config_info": {self.config.digest: 1},
            "ready": not self.faults(),
        }
        return render(values)


def _memory(config: NodeConfig, directory: Path) -> Memory:
    spill = directory / "spill"
    spill.mkdir(mode=0o700, exist_ok=True)
    return open_memory(config.limits.memory_max, str(spill), config.limits.spill_max)


def _listener(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        return socket.create_server((address.host, address.port), family=family, backlog=1024)
    except OSError as problem:
        raise PortError(f"{address}: {_PORT_ADVICE.get(problem.errno or 0, problem.strerror)}") from problem


def _bound(listener: socket.socket) -> Address:
    host, port = listener.getsockname()[:2]
    return Address(host, port)
