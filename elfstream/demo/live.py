"""The live demonstration: three webservers write in a process of their own; a fleet of four nodes, each a process, answers.

This process is their user: it submits the jobs over HTTP, watches their results, changes one of them halfway, and at the
end compares every number with what the webservers meant.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import aiohttp

from agent.errors import InputError
from elfstream.client import AsyncClient, AsyncJob, connect_async
from elfstream.demo.checks import show
from elfstream.demo.fleet import Fleet, Node, figures
from elfstream.demo.picture import SPARK_COLUMNS, ServerState, State, picture, summary
from elfstream.demo.playing import Webservers
from elfstream.demo.referee import (
    CHANGED_SQL,
    ENDPOINT_TOTALS_SQL,
    ENDPOINTS_SQL,
    HOT_SQL,
    LOGINS_SQL,
    TOTALS_SQL,
    Finished,
    Referee,
    Rows,
    Verdicts,
)
from elfstream.demo.shop import LOG_FORMAT, NGINX_CONF
from elfstream.demo.webservers import SERVERS, Second
from elfstream.remote_results import WindowResult
from elfstream.screen import Screen, can_draw
from elfstream.terminal import BOLD, DIM, has_colour, paint

SHOW_S, SAMPLE_S = 0.1, 0.5
READY_S, DRAINED_S = 60.0, 60.0
EVENTS_SHOWN = 3
HOT, ENDPOINTS, LOGINS, TOTALS, ENDPOINT_TOTALS = (
    "hot-products",
    "endpoints",
    "hammered-logins",
    "totals",
    "endpoint-totals",
)
JOBS = {
    HOT: HOT_SQL,
    ENDPOINTS: ENDPOINTS_SQL,
    LOGINS: LOGINS_SQL,
    TOTALS: TOTALS_SQL,
    ENDPOINT_TOTALS: ENDPOINT_TOTALS_SQL,
}
SETTINGS = {"emit": "250ms", "delay": "1s", "idle": "2s", "lateness": "10s", "expect": len(SERVERS)}
"""Servers log in order of time, so little delay does; a renamed log holds windows open until it is idle."""


class _Server:
    """What is seen of an agent."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.rates: deque[float] = deque(maxlen=SPARK_COLUMNS)
        self.figures: dict[str, float] = {}
        self._at = time.monotonic()

    async def sample(self, session: aiohttp.ClientSession) -> None:
        """Asks for its metrics; one that does not answer now keeps the old ones."""
        try:
            async with session.get(f"{self.node.url}/metrics") as answer:
                found = figures(await answer.text())
        except (aiohttp.ClientError, OSError, TimeoutError):
            return
        now = time.monotonic()
        self.rates.append((found.get("lines_total", 0.0) - self.lines) / max(now - self._at, 1e-9))
        self.figures, self._at = found, now

    @property
    def lines(self) -> int:
        return int(self.figures.get("lines_total", 0))

    @property
    def state(self) -> ServerState:
        return ServerState(
            self.node.name, list(self.rates), self.lines, int(self.figures.get("file_lag_bytes", 0))
        )


class _Watched:
    """A job whose windows are watched and judged."""

    def __init__(self, job: AsyncJob, verdicts: Verdicts) -> None:
        self.job, self.verdicts = job, verdicts
        self.last = 0
        """The id of the last result that came."""
        self.rows: Rows = []
        """Of the newest window."""
        self.newest: datetime | None = None
        """The start of that window."""

    def take(self, result: WindowResult) -> tuple[int, Rows] | None:
        """Its start and rows, if it is final."""
        self.last = result.id
        assert result.window is not None
        rows = [tuple(row)[1:] for row in result.rows]
        if self.newest is None or result.window.start >= self.newest:
            self.newest, self.rows = result.window.start, rows
        return (int(result.window.start.timestamp()), rows) if result.status == "final" else None


class _Demo:
    """One run: the user of the fleet, the referee and what is shown."""

    def __init__(
        self, fleet: Fleet, client: AsyncClient, screen: Screen | None, play_s: float | None, half_s: float
    ) -> None:
        """A play lasts `play_s` (None: for ever); a job is changed after `half_s`."""
        self.fleet, self.client, self.referee = fleet, client, Referee(0)
        self.servers = [_Server(node) for node in fleet.agents]
        self.jobs = {name: client.job(name) for name in JOBS}
        verdicts = (self.referee.hot, self.referee.endpoints, self.referee.logins)
        names = (HOT, ENDPOINTS, LOGINS)
        self.watched = {
            name: _Watched(self.jobs[name], one) for name, one in zip(names, verdicts, strict=True)
        }
        self._screen, self._play_s, self._half_s = screen, play_s, half_s
        self._colour = has_colour(sys.stdout)
        self._events: deque[str] = deque(maxlen=EVENTS_SHOWN)
        self._cpu: deque[tuple[float, float]] = deque(maxlen=8)
        self._latest: list[tuple[str, list[str], Rows]] = []
        self._started = time.monotonic()

    # the run

    async def run(self, webservers: Callable[[], Webservers], stopped: Callable[[], bool]) -> None:
        """From submitting the jobs until every window is final."""
        await self._ready()
        for name, sql in JOBS.items():
            await self.client.submit(name, sql, settings=SETTINGS)
        await self._taking_part()
        begins = [(await self.jobs[name].changes())[0]["start"] for name in self.watched]
        self.referee.began = int(max(datetime.fromisoformat(begin).timestamp() for begin in begins))
        self._started = time.monotonic()
        playing = webservers()
        async with asyncio.TaskGroup() as tasks:
            watching = [tasks.create_task(self._watch(one)) for one in self.watched.values()]
            sampling = tasks.create_task(self._sample())
            changing = tasks.create_task(self._change())
            try:
                await self._play(playing, stopped)
            finally:
                playing.close()
            await changing
            await self._drain()
            for task in (*watching, sampling):
                task.cancel()
        self._show()

    async def _ready(self) -> None:
        """Waits until the fleet is one, and knows the logs."""
        end = time.monotonic() + READY_S
        expected = len(self.fleet.nodes)
        while True:
            self.fleet.check()
            nodes, sources = await self.client.nodes(), await self.client.sources()
            if len(nodes) == expected and sources:
                return
            if time.monotonic() > end:
                raise InputError(
                    "the fleet", f"only {len(nodes)} of {expected} nodes found each other in {READY_S:.0f} s"
                )
            await asyncio.sleep(SHOW_S)

    async def _taking_part(self) -> None:
        """Waits until all agents take part in all jobs: one without a window counts from then on."""
        end = time.monotonic() + READY_S
        for job in self.jobs.values():
            while (await job.show())["coverage"]["agents"] < len(self.servers):
                self.fleet.check()
                if time.monotonic() > end:
                    raise InputError(f"job {job.name}", f"not all agents took part in it within {READY_S:.0f} s")
                await asyncio.sleep(SHOW_S)

    async def _play(self, playing: Webservers, stopped: Callable[[], bool]) -> None:
        is_stopping = False
        while not playing.ended:
            self.fleet.check()
            for told in playing.read():
                if isinstance(told, Second):
                    self.referee.told(told)
                else:
                    self._say(
                        f"{time.strftime('%H:%M:%S', time.gmtime(told.second))}  {told.server} {told.what}"
                    )
            self._show()
            if stopped() and not is_stopping:
                is_stopping = True
                playing.stop()
            await asyncio.sleep(SHOW_S)
        self.referee.ended()

    async def _change(self) -> None:
        """Halfway, or when the play is stopped before."""
        while time.monotonic() < self._started + self._half_s:
            await asyncio.sleep(SHOW_S)
        changed = await self.jobs[ENDPOINTS].change(sql=CHANGED_SQL)
        now = time.strftime("%H:%M:%S", time.gmtime())
        self._say(
            f"{now}  job {ENDPOINTS} changed while it runs: max(request_time) AS slowest, revision {changed['revision']}"
        )

    async def _watch(self, one: _Watched) -> None:
        async for result in one.job.watch(after=0):
            found = one.take(result)
            if found is None:
                continue
            start, rows = found
            self.referee.published(one.verdicts, start, rows)
            if self._screen is None and one.job.name in (HOT, ENDPOINTS):
                self._tell(one.job.name, start, rows)

    async def _sample(self) -> None:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(2.0)) as session:
            while True:
                for server in self.servers:
                    await server.sample(session)
                await asyncio.sleep(SAMPLE_S)

    async def _drain(self) -> None:
        """All jobs read to the end of the logs; then every window that was published has come here, too."""
        for job in self.jobs.values():
            await job.stop(drain=True)
        end = time.monotonic() + DRAINED_S
        for job in self.jobs.values():
            while (await job.show())["state"] != "stopped":
                self._show()
                if time.monotonic() > end:
                    raise InputError(
                        f"job {job.name}", f"has windows that are not final {DRAINED_S:.0f} s after the end"
                    )
                await asyncio.sleep(SHOW_S)
        for one in self.watched.values():
            last = (await self.client.ask("GET", f"/v1/jobs/{one.job.name}/results?limit=1&rows=0"))["last"]
            while one.last < last:
                await asyncio.sleep(SHOW_S)

    async def finished(self) -> Finished:
        """What is known at the end."""
        totals = await _rows(self.jobs[TOTALS])
        cover = (await self.jobs[TOTALS].show())["coverage"]
        changes = await self.jobs[ENDPOINTS].changes()
        changed_at = datetime.fromisoformat(changes[-1]["start"]).timestamp()
        return Finished(
            lines=cover["lines"],
            rejected=cover["rejected"],
            late=cover["late"],
            gap_bytes=cover["lost_bytes"],
            totals=totals[0],
            endpoints=await _rows(self.jobs[ENDPOINT_TOTALS]),
            changed_at=int(changed_at),
        )

    # what is shown

    def _say(self, text: str) -> None:
        self._events.append(text)
        if self._screen is None:
            print(text, flush=True)

    def _tell(self, name: str, start: int, rows: Rows) -> None:
        """A line for each window, once both jobs have published it."""
        edges = [time.strftime("%H:%M:%S", time.gmtime(second)) for second in (start, start + 10)]
        self._latest = [one for one in self._latest if one[0] != name or one[1] != edges]
        other = next((one for one in self._latest if one[1] == edges), None)
        if other is None:
            self._latest = [*self._latest, (name, edges, rows)][-64:]
            return
        self._latest.remove(other)
        hot, endpoints = (rows, other[2]) if name == HOT else (other[2], rows)
        print(summary(edges[0], edges[1], hot, endpoints), flush=True)

    def _show(self) -> None:
        if self._screen is not None:
            columns, lines = self._screen.size
            self._screen.draw(picture(self._state(), columns, lines, self._colour))

    def _state(self) -> State:
        now = time.monotonic()
        self._cpu.append((now, sum(node.cpu_s() for node in self.fleet.nodes)))
        (then, before), (_, cpu) = self._cpu[0], self._cpu[-1]
        newest = self.watched[HOT].newest
        lag_s = None if newest is None else time.time() - newest.timestamp() - 10
        return State(
            servers=[server.state for server in self.servers],
            rejected=int(sum(server.figures.get("lines_rejected_total", 0) for server in self.servers)),
            lag_s=lag_s,
            memory_bytes=sum(node.resident_bytes() for node in self.fleet.nodes),
            cpu_share=(cpu - before) / max(now - then, 1e-9),
            hot=self.watched[HOT].rows,
            endpoints=self.watched[ENDPOINTS].rows,
            logins=self.watched[LOGINS].rows,
            page=self.fleet.worker.url,
            events=list(self._events),
            windows_right=sum(one.right for one in self.referee.verdicts),
            windows_wrong=sum(len(one.wrong) for one in self.referee.verdicts),
            at_s=now - self._started,
            until_s=self._play_s,
        )


async def _rows(job: AsyncJob) -> list[tuple[Any, ...]]:
    """Of a job without windows."""
    found = [result async for result in job.results()]
    return [tuple(row) for row in found[-1].rows]


def run(folder: Path, seed: int, rate: float, play_s: float, keep: bool, stopped: Callable[[], bool]) -> bool:
    """Plays, answers, shows and compares. Returns whether everything is as the generator meant. Raises InputError."""
    colour, out = has_colour(sys.stdout), sys.stdout
    screen = Screen(out) if can_draw(out) else None
    _introduce(folder, rate, colour)
    with Fleet(folder) as fleet:
        print(
            paint(f"Four nodes start; page and API of any of them: {fleet.worker.url}\n", DIM, colour),
            flush=True,
        )

        async def main() -> tuple[Referee, Finished]:
            async with connect_async(fleet.urls, patience_s=READY_S) as client:
                demo = _Demo(fleet, client, screen, None if keep else play_s, play_s / 2)
                try:
                    await demo.run(lambda: Webservers(folder, seed, rate, play_s, keep), stopped)
                    return demo.referee, await demo.finished()
                except ExceptionGroup as group:  # of the tasks: the first says why
                    raise _first(group) from None

        if screen is None:
            referee, finished = asyncio.run(main())
        else:
            with screen:
                referee, finished = asyncio.run(main())
    print()
    return show(list(referee.checks(finished)), colour)


def _introduce(folder: Path, rate: float, colour: bool) -> None:
    print(
        paint(
            f"Three webservers write to {folder}, in all {rate:,.0f} lines/s; their nginx log_format:",
            BOLD,
            colour,
        )
    )
    print(paint("  " + LOG_FORMAT.replace(' "$http', '\n  "$http', 1) + "\n", DIM, colour), flush=True)
    for name in SERVERS:  # as on a real machine, where the folder of logs is there before the server
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "nginx.conf").write_text(NGINX_CONF)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    found: Iterable[BaseException] = group.exceptions
    one = next(iter(found))
    return _first(one) if isinstance(one, BaseExceptionGroup) else one
