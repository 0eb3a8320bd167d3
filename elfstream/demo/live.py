"""The live demonstration: three webservers write in a process of their own, three agents follow them here, a master merges.

One thread. What stands between `Machine` and `LiveMaster` in `_Demo._emit`, handing over pieces, is where the network will
be; everything else is what a fleet does. At the end every number is compared with what the webservers meant.
"""

from __future__ import annotations

import select
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from agent.follower import COALESCE_S, POLL_INTERVAL_S
from elfstream.demo.checks import show
from elfstream.demo.machines import TIMING, Machine, Webservers, clock_us, resident_bytes
from elfstream.demo.picture import ServerState, State, picture, summary
from elfstream.demo.referee import (
    ENDPOINT_TOTALS_SQL,
    ENDPOINTS_SQL,
    HOT_SQL,
    TOTALS_SQL,
    Finished,
    Referee,
)
from elfstream.demo.shop import LOG_FORMAT, NGINX_CONF
from elfstream.demo.webservers import SERVERS, Second
from elfstream.embedded import compile_plan
from elfstream.follow import next_time
from elfstream.live_fleet import LiveMaster
from elfstream.memory import open_memory
from elfstream.screen import Screen, can_draw
from elfstream.sizes import MEMORY_MAX, SPILL_MAX
from elfstream.terminal import BOLD, DIM, has_colour, paint
from elfstream.watchers import rows_of
from job.formats import find
from master.live import Publication

EMIT_S, SAMPLE_S = 0.25, 0.5
EVENTS_SHOWN = 3
DRAIN_S_MAX = 30.0
HOT, ENDPOINTS, TOTALS, ENDPOINT_TOTALS = range(4)
QUERIES = (HOT_SQL, ENDPOINTS_SQL, TOTALS_SQL, ENDPOINT_TOTALS_SQL)


class _Demo:
    """One run: machines, master, referee and what is shown."""

    def __init__(self, folder: Path, play_s: float | None, screen: Screen | None, colour: bool) -> None:
        format = find(LOG_FORMAT)
        plans = [compile_plan(sql, format) for sql in QUERIES]
        memory = open_memory(MEMORY_MAX, None, SPILL_MAX)
        self.masters = [LiveMaster(plan, TIMING, len(SERVERS), memory) for plan in plans]
        self.machines = [Machine(name, folder, plans, format, memory) for name in SERVERS]
        self.referee = Referee()
        self._screen, self._colour, self._play_s = screen, colour, play_s
        self._events: deque[str] = deque(maxlen=EVENTS_SHOWN)
        self._started = time.monotonic()
        self._sample_at = self._started + SAMPLE_S
        self._cpu: deque[tuple[float, float]] = deque([(self._started, time.process_time())], maxlen=8)
        self._latest: list[tuple[Any, ...]] = []

    def run(self, webservers: Webservers, stopped: Callable[[], bool]) -> None:
        """Follows until the webservers have ended, and reads to the end of the logs."""
        emit_at, is_stopping = time.monotonic() + EMIT_S, False
        while not webservers.ended:
            for machine in self.machines:
                machine.poll()
            self._hear(webservers)
            if time.monotonic() >= emit_at:
                self._emit()
                self._show()
                emit_at = next_time(emit_at, EMIT_S, time.monotonic())
            if stopped() and not is_stopping:
                is_stopping = True
                webservers.stop()
            self._wait(webservers, emit_at - time.monotonic())
        self._read_to_end()
        self.referee.ended()
        self._emit()
        last = self._state(time.monotonic())
        for number, master in enumerate(self.masters[:TOTALS]):
            self._judge(number, master.drain())
        self._draw(last._replace(windows_right=self._windows_right, windows_wrong=self._windows_wrong))

    def _hear(self, webservers: Webservers) -> None:
        for told in webservers.read():
            if isinstance(told, Second):
                self.referee.told(told)
                continue
            text = f"{time.strftime('%H:%M:%S', time.gmtime(told.second))}  {told.server} {told.what}"
            self._events.append(text)
            if self._screen is None:
                print(text, flush=True)

    def _wait(self, webservers: Webservers, timeout_s: float) -> None:
        """Until something was written, or for `timeout_s`; never so short that each line is a turn."""
        if any(machine.follower.wait(0.0) for machine in self.machines):
            return
        watched = [fd for fd in (machine.follower.fileno() for machine in self.machines) if fd is not None]
        if len(watched) < len(self.machines):
            timeout_s = min(timeout_s, POLL_INTERVAL_S)
        if select.select([webservers.fd, *watched], [], [], max(timeout_s, 0.0))[0]:
            time.sleep(COALESCE_S)

    def _read_to_end(self) -> None:
        deadline = time.monotonic() + DRAIN_S_MAX
        while time.monotonic() < deadline:
            came = [machine.poll() for machine in self.machines]
            if not any(came) and not any(machine.is_behind for machine in self.machines):
                return
            time.sleep(COALESCE_S)

    def _emit(self) -> None:
        """Every agent cuts, the master merges, windows close, and the agents hear of it: here the network will be."""
        now_us = clock_us()
        for number, machine in enumerate(self.machines):
            for master, piece in zip(self.masters, machine.agent.cut(now_us), strict=True):
                master.add(number, piece)
        for number, master in enumerate(self.masters[:TOTALS]):
            self._judge(number, master.advance())
            if (closed := master.closed_before_us) is not None:
                for machine in self.machines:
                    machine.agent.close_before(number, closed)

    def _judge(self, number: int, publications: Iterator[Publication]) -> None:
        verdicts = (self.referee.hot, self.referee.endpoints)[number]
        for publication in publications:
            start_us = publication.window.start_us
            assert start_us is not None
            rows = [row[1:] for row in rows_of(self.masters[number].plan, publication)]
            self.referee.published(verdicts, start_us // 1_000_000, publication.revision, rows)
            if self._screen is None:
                self._tell(number, publication, rows)

    def _tell(self, number: int, publication: Publication, rows: list[Any]) -> None:
        """A line for each window, once both queries have published it."""
        edges = [time.strftime("%H:%M:%S", time.gmtime((us or 0) // 1_000_000)) for us in publication.window[:2]]
        self._latest = [one for one in self._latest if one[0] != number or one[1] != edges]
        other = next((one for one in self._latest if one[1] == edges), None)
        if other is None:
            self._latest = [*self._latest, (number, edges, rows)][-64:]
            return
        self._latest.remove(other)
        hot, endpoints = (rows, other[2]) if number == HOT else (other[2], rows)
        print(summary(edges[0], edges[1], hot, endpoints), flush=True)

    def _show(self) -> None:
        now = time.monotonic()
        if now >= self._sample_at:
            for machine in self.machines:
                machine.sample()
            self._sample_at = next_time(self._sample_at, SAMPLE_S, now)
        if self._screen is not None:
            self._draw(self._state(now))

    def _draw(self, state: State) -> None:
        if self._screen is not None:
            columns, lines = self._screen.size
            self._screen.draw(picture(state, columns, lines, self._colour))

    def _state(self, now: float) -> State:
        self._cpu.append((now, time.process_time()))
        (then, before), (_, cpu) = self._cpu[0], self._cpu[-1]
        watermark = self.masters[HOT].watermark_us
        return State(
            servers=[
                ServerState(machine.name, list(machine.rates), machine.agent.counts.lines, machine.unread_bytes())
                for machine in self.machines
            ],
            rejected=self._rejected(),
            lag_s=None if watermark is None else time.time() - watermark / 1e6,
            memory_bytes=resident_bytes(),
            cpu_share=(cpu - before) / max(now - then, 1e-9),
            hot=self._current(HOT),
            endpoints=self._current(ENDPOINTS),
            events=list(self._events),
            windows_right=self._windows_right,
            windows_wrong=self._windows_wrong,
            at_s=now - self._started,
            until_s=self._play_s,
        )

    @property
    def _windows_right(self) -> int:
        return self.referee.hot.right + self.referee.endpoints.right

    @property
    def _windows_wrong(self) -> int:
        return len(self.referee.hot.wrong) + len(self.referee.endpoints.wrong)

    def _current(self, number: int) -> list[Any]:
        publication = self.masters[number].current()
        if publication is None:
            return []
        return [row[1:] for row in rows_of(self.masters[number].plan, publication)]

    def _rejected(self) -> int:
        return sum(machine.agent.counts.rejected.total() for machine in self.machines)

    def finished(self) -> Finished:
        """What is known at the end."""
        (totals,) = (rows_of(self.masters[TOTALS].plan, one) for one in self.masters[TOTALS].drain())
        (endpoints,) = (rows_of(self.masters[ENDPOINT_TOTALS].plan, one) for one in self.masters[ENDPOINT_TOTALS].drain())
        return Finished(
            lines=sum(machine.agent.counts.lines for machine in self.machines),
            rejected=self._rejected(),
            late=sum(machine.agent.late for machine in self.machines),
            gap_bytes=sum(machine.agent.gap_bytes for machine in self.machines),
            totals=totals[0],
            endpoints=endpoints,
        )

    def close(self) -> None:
        """Lets go of the logs."""
        for machine in self.machines:
            machine.follower.close()


def run(folder: Path, seed: int, rate: float, play_s: float, keep: bool, stopped: Callable[[], bool]) -> bool:
    """Plays, follows, shows and compares. Returns whether everything is as the generator meant. Raises InputError."""
    colour, out = has_colour(sys.stdout), sys.stdout
    screen = Screen(out) if can_draw(out) else None
    print(paint(f"Three webservers write to {folder}, in all {rate:,.0f} lines/s; their nginx log_format:", BOLD, colour))
    print(paint("  " + LOG_FORMAT.replace(' "$http', '\n  "$http', 1) + "\n", DIM, colour), flush=True)
    for name in SERVERS:  # as on a real machine, where the folder of logs is there before the server
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "nginx.conf").write_text(NGINX_CONF)
    demo = _Demo(folder, None if keep else play_s, screen, colour)
    webservers = Webservers(folder, seed, rate, play_s, keep)
    try:
        if screen is None:
            demo.run(webservers, stopped)
        else:
            with screen:
                demo.run(webservers, stopped)
    finally:
        webservers.close()
        demo.close()
    print()
    return show(list(demo.referee.checks(demo.finished())), colour)
