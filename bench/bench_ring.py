"""Growing a ring in the simulator: hops, state per node and messages per join, by size.

One process, virtual time, links of 10 ms. Nodes come at a rate that grows with the ring, through seeds drawn from all
nodes, as an operator's list of seeds would be a few of them. Leases are long here: only joining is counted.
"""

from __future__ import annotations

import argparse
import math
import random
import resource
import statistics
import time

from elfstream.simulated.network import Network
from elfstream.simulated.world import Process, World
from srt.automaton import Ref
from srt.ids import ID_BYTES
from srt.options import RingOptions
from srt.ring import Ring
from tests.sim.fleet_of_rings import closest_of

LATENCY_S = 0.01
JOINS_PER_S_MAX = 2000.0
ROUTES = 2000
QUIET = RingOptions(lease_s=60.0, quarantine_s=120.0, join_retry_s=20.0, upkeep_s=600.0, lost_retry_s=600.0)


class Growing:
    """A ring that only grows."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed, Network(latency_s=LATENCY_S, jitter_s=0.0))
        self.rng = random.Random(seed)
        self.rings: list[Ring] = []
        self.by_address: dict[str, Ring] = {}

    def add(self) -> None:
        # Any active node; the last hundreds may still be joining.
        old = max(1, len(self.rings) * 4 // 5)
        seeds = [self.rings[self.rng.randrange(old)].ref.address] if self.rings else []
        identity = self.rng.randbytes(ID_BYTES)

        def start(process: Process) -> Ring:
            rng = random.Random(process.address)
            return Ring(Ref(identity, process.address, process.boot), seeds, rng, QUIET)

        core = self.world.spawn(f"n{len(self.rings)}", start).core
        assert isinstance(core, Ring)
        self.rings.append(core)
        self.by_address[core.ref.address] = core

    def grow(self, size: int) -> None:
        world = self.world
        while len(self.rings) < size:
            self.add()
            rate = min(JOINS_PER_S_MAX, max(4.0, 0.1 * len(self.rings)))
            world.run(world.now + 1 / rate)
            world.network.last.clear()
        world.run(world.now + 35.0)

    def hops(self, routes: int) -> list[int]:
        """Hops of routes between random nodes and keys; each has to end at the closest node."""
        order = sorted(ring.number for ring in self.rings)
        found = []
        for _ in range(routes):
            key, ring, count = self.rng.randbytes(ID_BYTES), self.rng.choice(self.rings), 0
            while (following := ring.next_hop(key)) is not None:
                ring, count = self.by_address[following.address], count + 1
            if ring.number != closest_of(order, key):
                raise SystemExit(f"the route to {key.hex()} ended at {ring.ref}")
            found.append(count)
        return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.bench_ring")
    parser.add_argument("--smoke", action="store_true", help="tiny sizes: does it run?")
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1280, 5000, 20_000])
    options = parser.parse_args()
    sizes = [40, 80] if options.smoke else sorted(options.sizes)
    growing, cpu = Growing(1), time.process_time()
    print("nodes | hops mean | max | allowed | table entries mean | max | messages per join | cpu s so far | MiB")
    before = (0, 0)
    for size in sizes:
        growing.grow(size)
        late = [ring for ring in growing.rings if not ring.active]
        if late:
            raise SystemExit(f"{len(late)} of {size} nodes are not active")
        sent = (growing.world.network.sent, size)
        hops = growing.hops(ROUTES if not options.smoke else 100)
        entries = [len(ring.table) for ring in growing.rings]
        print(
            f"{size} | {statistics.mean(hops):.2f} | {max(hops)} | {math.ceil(math.log(size, 16)) + 1} | "
            f"{statistics.mean(entries):.1f} | {max(entries)} | {(sent[0] - before[0]) / (size - before[1]):.0f} | "
            f"{time.process_time() - cpu:.0f} | {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10}",
            flush=True,
        )
        before = sent


if __name__ == "__main__":
    main()
