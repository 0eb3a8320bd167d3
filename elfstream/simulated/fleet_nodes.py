"""The nodes of a fleet in virtual time, as tests handle them."""

from __future__ import annotations

from pathlib import Path

from elfstream.simulated.machine import Machine
from elfstream.simulated.machines import Machines


class FleetNode:
    """A node; a worker is no more than that."""

    def __init__(self, machines: Machines, machine: Machine) -> None:
        self._machines, self._machine = machines, machine

    def __repr__(self) -> str:
        return f"<{self.name}{'' if self.is_up else ', down'}>"

    @property
    def name(self) -> str:
        return self._machine.config.name

    @property
    def is_up(self) -> bool:
        return self._machine.core is not None

    @property
    def troubles(self) -> list[str]:
        """What its log says that a person should know."""
        return list(self._machine.troubles)

    def crash(self) -> None:
        """The process dies: what it had in memory is gone, and what its disk had not synced may be. Nothing happens to a
        node that is down."""
        if self.is_up:
            self._machine.crash()

    def restart(self) -> None:
        """Starts it again, with what its disk holds; kills it before if it is up."""
        self.crash()
        self._machines.world.boot(self._machine.process)

    def pause(self, seconds: float) -> None:
        """It does nothing for so long, as a stopped virtual machine, then goes on."""
        self._machines.world.pause(self._machine.process, seconds)


class FleetAgent(FleetNode):
    """A node with logs."""

    @property
    def folder(self) -> Path:
        """Where its logs are: real files, to rename, compress or truncate as `logrotate` does."""
        return self._machines.logs_of(self.name)

    def write(self, *lines: str | bytes, source: str | None = None, file: str | None = None) -> None:
        """Appends whole lines to a log, whether the agent is up or not: the webserver does not care.

        `file` is `SOURCE.log` unless it is given; the agent reads `SOURCE.log*`."""
        sources = list(self._machine.sources.by_name)
        name = sources[0] if source is None else source
        if name not in sources:
            raise ValueError(f"{self.name} has no source {name!r}, only {', '.join(sources)}")
        with open(self.folder / (file or f"{name}.log"), "ab") as log:
            log.write(b"".join((line.encode() if isinstance(line, str) else line) + b"\n" for line in lines))
