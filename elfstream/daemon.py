"""The process around a node: signals, reloads, what the service manager is told, and the exit code."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
from collections.abc import Callable

import uvloop

from agent.errors import JournalError
from cbt.errors import MemoryCapError, SpillError
from elfstream.config.model import ConfigError, NodeConfig
from elfstream.config.reading import load
from elfstream.config.secrets import SecretError
from elfstream.event_log import EventLog, set_up
from elfstream.running_node import PortError, RunningNode
from elfstream.sd_notify import Notifier
from job.errors import JobError
from master.errors import GroupStoreError
from srt.errors import SrtError

DONE, BROKEN, UNABLE, CONFIG = 0, 70, 1, 78
"""Exit codes: stopped as asked; a fault of this program; the machine does not allow it; the configuration is wrong."""
START_PROBLEMS = (
    PortError, JobError, SrtError, SecretError, GroupStoreError, JournalError, MemoryCapError, SpillError,
    OSError, sqlite3.Error,
)  # fmt: skip
log = EventLog("daemon")


class Daemon:
    """One run of a node, from a configuration file to an exit code."""

    def __init__(self, file: str, config: NodeConfig) -> None:
        self._file, self._config = file, config
        self._notifier = Notifier.from_environment()
        self._ending: asyncio.Event
        self._problem = ""
        self._loop: asyncio.AbstractEventLoop

    def run(self) -> int:
        """Until it is told to stop. Returns the exit code; what is wrong was logged."""
        set_up(self._config.log_level, self._config.log_format)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(self._main())

    async def _main(self) -> int:
        self._loop, self._ending = asyncio.get_running_loop(), asyncio.Event()
        node = RunningNode(self._config, self._failed)
        self._on_signal(node)
        try:
            await node.start()
        except START_PROBLEMS as problem:
            log.error("cannot start", problem=str(problem))
            return UNABLE
        self._notifier.ready(f"{self._config.name} at {node.ref.address}")
        watchdog = asyncio.create_task(self._watch(node))
        await self._ending.wait()
        self._notifier.stopping()
        watchdog.cancel()
        await node.stop()
        if self._problem:
            log.error("ended", problem=self._problem)
            return BROKEN
        return DONE

    def _on_signal(self, node: RunningNode) -> None:
        handlers: tuple[tuple[int, Callable[[], None]], ...] = (
            (signal.SIGTERM, self._end),
            (signal.SIGINT, self._end),
            (signal.SIGHUP, lambda: self._reload(node)),
        )
        for number, handler in handlers:
            self._loop.add_signal_handler(number, handler)

    def _end(self) -> None:
        """The second signal does not wait for the end."""
        if self._ending.is_set():
            log.warning("told twice to stop: ending at once")
            os._exit(UNABLE)
        self._ending.set()

    def _failed(self, problem: str) -> None:
        """From any thread."""
        self._problem = problem
        self._loop.call_soon_threadsafe(self._ending.set)

    def _reload(self, node: RunningNode) -> None:
        self._notifier.reloading()
        try:
            node.reload(load(self._file))
        except (ConfigError, *START_PROBLEMS) as problem:
            log.error("the configuration was not reloaded; the old one stays", problem=str(problem))
        self._notifier.ready()

    async def _watch(self, node: RunningNode) -> None:
        """Tells the service manager that the core lives, as long as it does."""
        while self._notifier.watchdog_s is not None:
            await node.alive()
            self._notifier.alive()
            await asyncio.sleep(self._notifier.watchdog_s / 2)
