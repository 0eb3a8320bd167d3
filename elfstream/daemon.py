"""The process around a node: signals, reloads, what the service manager is told, and the exit code."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

import uvloop

from agent.errors import JournalError
from agent.sources import Sources
from cbt.errors import MemoryCapError, SpillError
from elfstream.config.model import ConfigError, NodeConfig
from elfstream.config.reading import load
from elfstream.config.secrets import SecretError
from elfstream.descriptors import raise_limit
from elfstream.event_log import EventLog, set_up
from elfstream.node_parts import sources_of
from elfstream.running_node import PortError, RunningNode
from elfstream.sd_notify import Notifier
from job.errors import JobError
from master.errors import GroupStoreError
from master.service import ConfigMistake, NotReloaded, Reloaded
from srt.errors import SrtError

DONE, BROKEN, UNABLE, CONFIG = 0, 70, 1, 78
"""Exit codes: stopped as asked; a fault of this program; the machine does not allow it; the configuration is wrong."""
START_PROBLEMS = (
    PortError, JobError, SrtError, SecretError, GroupStoreError, JournalError, MemoryCapError, SpillError,
    OSError, sqlite3.Error,
)  # fmt: skip
log = EventLog("daemon")


def _keep_for_good() -> None:
    """What came with the program stays to its end. Going over its 60,000 objects in search of garbage held the interpreter's
    lock for 30 ms each time, and all threads with it."""
    gc.collect()
    gc.freeze()


class Daemon:
    """One run of a node, from a configuration file to an exit code."""

    def __init__(self, file: str, config: NodeConfig) -> None:
        self._file, self._config = file, config
        self._notifier = Notifier.from_environment()
        self._ending = asyncio.Event()
        self._problem = ""
        self._loop: asyncio.AbstractEventLoop
        self._node: RunningNode
        self._reloading = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    def run(self) -> int:
        """Until it is told to stop. Returns the exit code; what is wrong was logged."""
        set_up(self._config.log_level, self._config.log_format)
        raise_limit()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(self._main())

    async def _main(self) -> int:
        self._loop = asyncio.get_running_loop()
        self._node = node = RunningNode(self._config, self._failed, self.reload)
        self._on_signal()
        try:
            async with self._reloading:
                await node.start()
        except START_PROBLEMS as problem:
            log.error("cannot start", problem=str(problem))
            return UNABLE
        _keep_for_good()
        self._notifier.ready(f"{self._config.name} at {node.ref.address}")
        watchdog = asyncio.create_task(self._watch(node))
        await self._ending.wait()
        self._notifier.stopping()
        watchdog.cancel()
        self._end_within(node.config.limits.drain_max_s)
        await node.stop()
        if self._problem:
            log.error("ended", problem=self._problem)
            return BROKEN
        return DONE

    def _end_within(self, drain_s: float) -> None:
        """Whatever hangs: being killed does no harm. A thread of its own, so that the end of the interpreter counts, too."""
        late = threading.Timer(drain_s, self._late, (drain_s,))
        late.daemon = True
        late.start()

    def _late(self, drain_s: float) -> None:
        log.warning("not stopped within limits.drain_max: ending at once", drain_max_s=drain_s)
        os._exit(BROKEN if self._problem else DONE)

    def _on_signal(self) -> None:
        handlers: tuple[tuple[int, Callable[[], None]], ...] = (
            (signal.SIGTERM, self._end),
            (signal.SIGINT, self._end),
            (signal.SIGHUP, self._hung_up),
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

    def _hung_up(self) -> None:
        async def reload() -> None:
            with suppress(NotReloaded):  # it was logged
                await self.reload()

        task = self._loop.create_task(reload())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def reload(self) -> Reloaded:
        """Reads the file again, and takes over what needs no restart. One at a time, none before the start is over, and none
        once the node is told to stop. Raises NotReloaded: the old configuration stays."""
        async with self._reloading:
            self._refuse_at_end()
            self._notifier.reloading()
            try:
                config, sources = await asyncio.to_thread(self._read)
            except (ConfigError, *START_PROBLEMS) as problem:
                log.error("the configuration was not reloaded; the old one stays", problem=str(problem))
                raise NotReloaded(_mistakes(problem, self._file)) from problem
            else:
                self._refuse_at_end()
                done = self._node.apply(config, sources)
                set_up(self._node.config.log_level, self._node.config.log_format)
                log.info("reloaded", changed=", ".join(done.changed) or "nothing", config=done.config)
                return done
            finally:
                if not self._ending.is_set():  # or the service manager would think that it goes on
                    self._notifier.ready()

    def _refuse_at_end(self) -> None:
        if self._ending.is_set():
            log.warning("the configuration is not reloaded: the node is stopping")
            raise NotReloaded([ConfigMistake("", "the node is stopping", self._file, None, "")])

    def _read(self) -> tuple[NodeConfig, Sources]:
        config = load(self._file)
        return config, sources_of(config)

    async def _watch(self, node: RunningNode) -> None:
        """Tells the service manager that the core lives, as long as it does."""
        while self._notifier.watchdog_s is not None:
            await node.alive()
            self._notifier.alive()
            await asyncio.sleep(self._notifier.watchdog_s / 2)


def _mistakes(problem: Exception, file: str) -> Sequence[ConfigMistake]:
    if isinstance(problem, ConfigError):
        errors = [one for one in problem.problems if one.severity == "error"]
        return [ConfigMistake(one.key, one.message, one.file, one.line, one.advice) for one in errors]
    # The file is sound, and what it names is not: a server's own configuration that has changed, say.
    return [ConfigMistake("sources", str(problem), file, None, "")]
