"""What goes wrong with the processes of a fleet: kills and pauses, of any node or of the one that leads a job."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

from tests.integration.fleet_processes import Fleet, NodeProcess


class Faults:
    """Random faults, one after the other; `told` is what was done, for the message of a test that fails."""

    def __init__(self, fleet: Fleet, jobs: Sequence[str], rng: random.Random) -> None:
        self.told: list[str] = []
        self._fleet, self._jobs, self._rng = fleet, jobs, rng
        self._began_s = time.monotonic()

    def one(self) -> None:
        """A fault, and its end."""
        rng = self._rng
        role = rng.choice(("agent", "worker", "root"))
        node = self._victim(role)
        rest_s = rng.uniform(0.0, 3.0)
        is_kill = rng.random() < 0.6
        self.tell(f"{'kill' if is_kill else 'pause'} {node.name} ({role}) for {rest_s:.1f} s")
        if is_kill:
            node.kill()
        else:
            node.pause()
        time.sleep(rest_s)
        if is_kill:
            node.start()
        else:
            node.resume()
        self._fleet.check()

    def _victim(self, role: str) -> NodeProcess:
        rng = self._rng
        if role == "root":
            job = rng.choice(self._jobs)
            node = self._fleet.led_by(job)
            if node is not None:
                return node
            self.tell(f"nobody leads {job}")
        return rng.choice(self._fleet.workers if role == "worker" else self._fleet.agents)

    def tell(self, text: str) -> None:
        """Notes what happens."""
        self.told.append(f"{time.monotonic() - self._began_s:6.1f} s  {text}")
