"""Live pictures of a fleet: what is asked, how often, and when it is drawn. What is drawn is `views/top.py`."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from elfstream.client import AsyncClient, AsyncJob, Document
from elfstream.client_errors import ApiError, ResultsLostError, UnreachableError
from elfstream.fleet_session import reason
from elfstream.keyboard import Keyboard
from elfstream.remote_results import WindowResult
from elfstream.screen import Screen
from elfstream.terminal import has_colour
from elfstream.views.top import (
    WINDOWS,
    FleetState,
    JobState,
    LineRates,
    Windows,
    fleet_picture,
    job_picture,
    jobs_room,
)

REFRESH_S = 1.0
ASK_AT_ONCE = 8
"""Jobs that are asked about side by side."""
DRAW_MIN_S = 0.1
"""Frames come no faster, however fast results do: a slow line has to carry them."""
ROWS_MAX = 200
"""Of a window: no terminal shows more."""

PIPE_SIZE = (120, 1000)
"""Columns and lines of a picture that nobody's screen limits."""

Draw = Callable[[int, int], list[str]]
"""Lines for a screen of so many columns and lines."""


@asynccontextmanager
async def _stopping(keyboard: Keyboard | None) -> AsyncIterator[asyncio.Event]:
    """An event that q, Ctrl-C, SIGTERM or SIGHUP set."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for number in signals:
        loop.add_signal_handler(number, stop.set)

    def pressed() -> None:
        assert keyboard is not None
        keys = keyboard.read()
        if not keys or set(keys) & set("qQ\x03\x04"):
            stop.set()

    descriptor = None if keyboard is None else keyboard.descriptor
    if descriptor is not None:
        loop.add_reader(descriptor, pressed)
    try:
        yield stop
    finally:
        if descriptor is not None:
            loop.remove_reader(descriptor)
        for number in signals:
            loop.remove_signal_handler(number)


async def shown(feeds: list[Coroutine[Any, Any, None]], draw: Draw, news: asyncio.Event, full: bool) -> None:
    """Draws when there is `news` and every second, until it is told to stop or a feed ends. `full`: on a screen of its
    own, with keys; otherwise the last picture stays. Raises what a feed raises."""
    keyboard = Keyboard(sys.stdin) if full else None
    with Screen(sys.stdout, own=full) as screen:
        async with _stopping(keyboard) as stop:
            tasks = [asyncio.create_task(feed) for feed in feeds]
            end = asyncio.create_task(stop.wait())
            try:
                if keyboard is None:
                    await _draw(screen, draw, news, [end, *tasks])
                else:
                    with keyboard:
                        await _draw(screen, draw, news, [end, *tasks])
            finally:
                for task in (end, *tasks):
                    task.cancel()
                await asyncio.gather(end, *tasks, return_exceptions=True)


async def _draw(screen: Screen, draw: Draw, news: asyncio.Event, ends: list[asyncio.Task[Any]]) -> None:
    while True:
        screen.draw(draw(*screen.size))
        ended = [task for task in ends if task.done()]
        if ended:
            ended[0].result()
            return
        waiting = asyncio.create_task(news.wait())
        await asyncio.wait([waiting, *ends], timeout=REFRESH_S, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        news.clear()
        if not any(task.done() for task in ends):
            await asyncio.wait(ends, timeout=DRAW_MIN_S, return_when=asyncio.FIRST_COMPLETED)


class JobFeed:
    """One job: its state every second, its results as they are published. When the job is removed the feeds end, or, with
    `stays`, say so."""

    def __init__(self, client: AsyncClient, name: str, after: int | None, stays: bool) -> None:
        self.state, self.windows = JobState(name, None, LineRates()), Windows()
        self.trouble, self.news = "", asyncio.Event()
        self._client, self._job = client, AsyncJob(client, name)
        self._after, self._stays = after, stays

    async def begin(self) -> None:
        """Asks once, so that what is wrong is told before anything is drawn. Raises ApiError, UnreachableError."""
        await self.look()
        if self._after is None:
            await self._past()

    async def follow_state(self) -> None:
        while True:
            await asyncio.sleep(REFRESH_S)
            try:
                await self.look()
                self.trouble = ""
            except (ApiError, UnreachableError) as error:
                if isinstance(error, ApiError) and error.kind == "unknown":
                    return await self._removed()
                self.trouble = f"no answer: {reason(error)}"
            self.news.set()

    async def follow_results(self) -> None:
        after = self._after
        while True:
            try:
                async for result in self._job.watch(after=after, rows=ROWS_MAX):
                    self.windows.note(result)
                    after = result.id
                    self.news.set()
                return await self._removed()
            except ResultsLostError as error:
                self.trouble, after = str(error), error.resume
            except UnreachableError as error:
                self.trouble = f"no answer: {reason(error)}"

    async def _removed(self) -> None:
        self.trouble = "the job was removed"
        self.news.set()
        if self._stays:
            await asyncio.Event().wait()

    async def _past(self) -> None:
        """The newest windows, for the trends; the results behind them are followed."""
        path = f"/v1/jobs/{self._job.name}/results?limit=1&rows=0"
        self._after = (await self._client.ask("GET", path))["last"]
        newest = await self._newest()
        if newest is None or newest.window is None:
            return
        # What was computed elsewhere may have come last, and be of last year.
        end = newest.window.start if newest.origin == "live" else datetime.now(UTC)
        start = end - WINDOWS * (newest.window.end - newest.window.start)
        async for result in self._job.results(start, rows=ROWS_MAX):
            self.windows.note(result)

    async def _newest(self) -> WindowResult | None:
        """The result that was published last."""
        last = self._after or 0
        if last == 0:
            return None
        async for result in self._job.watch(after=last - 1, rows=ROWS_MAX):
            self.windows.note(result)
            return result
        return None

    async def look(self) -> None:
        """Asks for its state. Raises ApiError, UnreachableError."""
        job = await self._job.show()
        self.state.rates.note(job)
        self.state = self.state._replace(job=job)


class FleetFeed:
    """All jobs that fit the screen, and the nodes."""

    def __init__(self, client: AsyncClient) -> None:
        self.news = asyncio.Event()
        self.room = jobs_room(24)
        self._client, self._jobs, self._all = client, dict[str, JobState](), 0
        self._nodes: list[Document] = []
        self._trouble = ""

    def state(self) -> FleetState:
        clock = datetime.now(UTC).strftime("%H:%M:%SZ")
        return FleetState(
            self._client.url, self._nodes, list(self._jobs.values()), self._all, clock, self._trouble
        )

    async def follow(self) -> None:
        while True:
            await asyncio.sleep(REFRESH_S)
            try:
                await self.look()
                self._trouble = ""
            except (ApiError, UnreachableError) as error:
                self._trouble = f"no answer: {reason(error)}"
            self.news.set()

    async def look(self) -> None:
        """Asks for all that is shown. Raises ApiError, UnreachableError."""
        self._nodes = await self._client.nodes()
        names = [one["name"] for one in await self._client.jobs()]
        self._all = len(names)
        known = self._jobs
        self._jobs = {name: known.get(name) or JobState(name, None, LineRates()) for name in names[: self.room]}
        gate = asyncio.Semaphore(ASK_AT_ONCE)
        await asyncio.gather(*(self._ask(name, gate) for name in self._jobs))

    async def _ask(self, name: str, gate: asyncio.Semaphore) -> None:
        async with gate:
            before = self._jobs[name]
            try:
                job = await AsyncJob(self._client, name).show()
            except (ApiError, UnreachableError) as error:
                self._jobs[name] = before._replace(job=None, problem=reason(error))
                return
            before.rates.note(job)
            self._jobs[name] = before._replace(job=job, problem="")


async def show_fleet(client: AsyncClient) -> None:
    """All jobs, full screen, until q or Ctrl-C. Raises ApiError, UnreachableError."""
    feed = FleetFeed(client)
    await feed.look()
    colour = has_colour(sys.stdout)

    def draw(columns: int, lines: int) -> list[str]:
        feed.room = jobs_room(lines)
        return fleet_picture(feed.state(), columns, lines, colour)

    await shown([feed.follow()], draw, feed.news, full=True)


async def show_job(client: AsyncClient, name: str, after: int | None = None, full: bool = True) -> None:
    """One job, until q or Ctrl-C; not `full`: in place, the last picture stays. Raises ApiError, UnreachableError."""
    feed = JobFeed(client, name, after, stays=full)
    await feed.begin()
    colour = has_colour(sys.stdout)

    def draw(columns: int, lines: int) -> list[str]:
        return job_picture(feed.state, feed.windows, columns, lines, colour, feed.trouble, foot=full)

    await shown([feed.follow_state(), feed.follow_results()], draw, feed.news, full)


async def picture(client: AsyncClient, name: str | None) -> list[str]:
    """What would be shown, once, for a pipe: nothing is cut that fits a wide screen. Raises ApiError, UnreachableError."""
    if name is not None:
        one = JobFeed(client, name, None, stays=False)
        await one.begin()
        return job_picture(one.state, one.windows, *PIPE_SIZE, colour=False, foot=False)
    feed = FleetFeed(client)
    feed.room = jobs_room(PIPE_SIZE[1])
    await feed.look()
    return fleet_picture(feed.state(), *PIPE_SIZE, colour=False)[:-2]
