"""A vertex of a reducer tree: rows merged per CPU second, bytes on the wire per row, memory; and events of a whole node.

A row is a group of a frame that comes in: a key of 20 characters and a count. CPU seconds are those of the vertex alone:
encoded frames in, encoded frames out.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import resource
import tempfile
import time
from datetime import datetime
from typing import Any

from cbt.aggregate import StateKind
from cbt.budget import Budget
from cbt.options import BudgetOptions, Options
from cbt.tree import Tree
from cython_ext.column import Column
from elfstream.fleet_wire import fleet_wire
from elfstream.node import NodeCore, NodeOptions
from elfstream.simulated.disks import KeyValueDisk
from elfstream.simulated.network import Network
from elfstream.simulated.world import Process, World
from elfstream.testing import Fleet
from job.types import Kind
from srt.automaton import NEVER, WAKE, Instant, Received, Ref, Send
from srt.directory import STORE as DIRECTORY
from srt.frame_messages import Ack, Counters, ForJob, Frame, PaneLines, PaneRun, Span, StreamId
from srt.frames import WholeFrame, messages_of
from srt.ids import ID_BYTES, job_key
from srt.reducer import ParentChanged, Reducer
from srt.reducer_tree import ReducerTree
from srt.ring import Ring
from srt.tree_messages import Kind as NodeKind

CHILDREN, AGENTS = 16, 8
REST_S = 20.0
MIB = 1 << 20
PARENT = Ref(bytes([255]) * ID_BYTES, "parent", 1)


def child(number: int) -> Ref:
    return Ref(bytes([number]) * ID_BYTES, f"child{number}", 1)


def frame_of(number: int, sender: int, first: int, keys: int) -> WholeFrame:
    """One pane of the keys from `first` on."""
    tree = Tree([int(Kind.STRING)], [int(StateKind.COUNT)])
    for start in range(first, first + keys, 100_000):
        texts = [
            f"/products/{n * 6_364_136_223 % 10**10:010d}"
            for n in range(start, min(start + 100_000, first + keys))
        ]
        tree.update([Column.from_list(Kind.STRING, texts)], [None], [None], len(texts))
    runs = tuple(PaneRun(1, 0, 0, run) for run in tree.runs())
    span = Span(StreamId(1, bytes([sender]) * 16), number, number + 1, 0, Counters(keys, keys))
    return WholeFrame(number, False, (span,), (PaneLines(1, 0, keys),), runs, 1)


class Vertex:
    """A reducer whose parent acknowledges at once."""

    def __init__(self, budget: Budget) -> None:
        self.core = Reducer(Ref(bytes(ID_BYTES), "me", 1), budget, tree_options=Options())
        self.out_bytes = self.frames_out = 0
        self.now = 0.0
        self.give(ParentChanged(PARENT))

    def give(self, event: Any) -> None:
        effects = self.core.handle(event, Instant(self.now, 0))
        done = []
        for effect in effects:
            if isinstance(effect, Send) and isinstance(effect.message, Frame):
                self.out_bytes += len(effect.message.data)
                if effect.message.last:
                    self.frames_out += 1
                    done.append(effect.message.number)
        if done:
            self.give(Received(PARENT, Ack(tuple(done))))

    def wake(self) -> None:
        """Whatever it holds leaves."""
        while self.core.wake_at < NEVER:
            self.now = self.core.wake_at
            self.give(WAKE)


def merge_rates(rows: int, keys: int) -> None:
    print(f"\nmerge rate, {CHILDREN} children, {keys:,} keys a frame: rows per CPU second")
    rounds = max(1, rows // (CHILDREN * keys))
    for title, shared in (("all children the same keys", True), ("all of them different", False)):
        parts = [
            (sender, messages_of(frame_of(0, sender, 0 if shared else sender * keys, keys)))
            for sender in range(CHILDREN)
        ]
        vertex, spent = Vertex(Budget()), 0.0
        vertex.give(Received(child(0), parts[0][1][0]))
        vertex.wake()
        for _ in range(rounds):
            began = time.process_time()
            for sender, messages in parts:
                for part in messages:
                    vertex.give(Received(child(sender), part))
            vertex.now += 0.05
            vertex.give(WAKE)
            spent += time.process_time() - began
        print(f"  {title:28} {rounds * CHILDREN * keys / spent / 1e6:6.2f} M")


def wire_bytes(counts: list[int]) -> None:
    print(
        "\nbytes on the wire per (agent, pane, key); merged: what 16 agents with the same keys cost behind a vertex"
    )
    wire = fleet_wire()
    for keys in counts:
        alone = sum(
            len(wire.encode(ForJob(bytes(ID_BYTES), part))) for part in messages_of(frame_of(1, 1, 0, keys))
        )
        vertex = Vertex(Budget())
        vertex.give(
            Received(child(0), messages_of(frame_of(0, 0, 0, 1))[0])
        )  # so that it does not send alone
        vertex.wake()
        vertex.out_bytes = 0
        for sender in range(CHILDREN):
            for part in messages_of(frame_of(1, sender, 0, keys)):
                vertex.give(Received(child(sender), part))
        vertex.now += 0.05
        vertex.give(WAKE)
        print(f"  {keys:9,} keys: {alone / keys:7.1f}, merged {vertex.out_bytes / keys / CHILDREN:6.2f}")


def _memory(keys: int, shared: bool, memory_max: int | None, answers: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        budget = Budget(
            BudgetOptions(memory_max=memory_max, spill_dir=None if memory_max is None else folder)
        )
        vertex, spent = Vertex(budget), 0.0
        base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for sender in range(CHILDREN):
            messages = messages_of(frame_of(0, sender, 0 if shared else sender * keys, keys))
            began = time.process_time()
            for part in messages:
                vertex.give(Received(child(sender), part))
            spent += time.process_time() - began
        began = time.process_time()
        vertex.wake()
        spent += time.process_time() - began
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        answers.put((budget.peak_bytes / MIB, (peak - base) / 1024, vertex.frames_out, spent))


def memory(keys: int) -> None:
    print(f"\nmemory of a vertex with {CHILDREN} children of {keys:,} keys each, one pane")
    context = multiprocessing.get_context("spawn")
    for title, shared in (("the same keys", True), ("different keys", False)):
        for memory_max in (None, 64 * MIB):
            answers = context.Queue()
            process = context.Process(target=_memory, args=(keys, shared, memory_max, answers))
            process.start()
            charged, grown, frames, spent = answers.get(timeout=600)
            process.join()
            cap = "no cap" if memory_max is None else f"{memory_max // MIB} MiB"
            print(
                f"  {title:15} {cap:7} charged {charged:5.0f} MiB, resident {grown:5.0f} MiB more than before, one "
                f"child's frames with it, {frames} frames out, {CHILDREN * keys / spent / 1e6:.2f} M rows per CPU second"
            )


def events(nodes: int) -> None:
    """Whole nodes at rest: what a ring, its trees and the directory cost, without the simulator around them."""
    spent, count = 0.0, 0

    class Timed(NodeCore):
        def handle(self, event: Any, now: Instant) -> list[Any]:
            nonlocal spent, count
            began = time.process_time()
            effects = super().handle(event, now)
            spent += time.process_time() - began
            count += 1
            return effects

    def start(process: Process) -> Timed:
        rng = random.Random(process.address)
        ring = Ring(
            Ref(job_key(process.address), process.address, 1), ("n0", "n1"), rng, role=NodeKind.WORKER
        )
        trees = ReducerTree(ring, NodeKind.WORKER, rng)
        return Timed(ring, trees, None, Budget(), rng, {}, NodeOptions(), Options())

    world = World(1, Network(0.001, 0.001))
    for number in range(nodes):
        disks = {"groups": KeyValueDisk(), DIRECTORY: KeyValueDisk()}
        world.spawn(f"n{number}", start, **disks)
    world.run(20.0)
    print(f"\n{nodes} whole nodes that join and rest: {count / spent:,.0f} events per CPU second of a node")


def into_the_master(keys: int) -> None:
    """A fleet in virtual time whose agents all have the same keys: what comes to the master, which is one of them, over the
    network of one pane."""
    print(f"\n{AGENTS} agents with the same {keys:,} keys: frames into the master per pane, and of an agent at rest")
    for partitions in (1, 4):
        with Fleet(agents=AGENTS, format="combined") as fleet:
            sql = "SELECT window(time, '10 seconds') AS w, path, count(*) AS n FROM access GROUP BY w, path"
            job = fleet.submit("hits", sql, settings={"partitions": partitions, "emit": "2s", "idle": "5s"})
            told = _FramesInto(fleet, job.master)
            for agent in fleet.agents:  # what is first in a tree goes alone
                agent.write(_line(fleet.now, 0))
            fleet.sleep(15.0)
            told.bytes = told.frames = 0
            for agent in fleet.agents:
                agent.write(*(_line(fleet.now, number) for number in range(keys)))
            fleet.sleep(5.0)
            pane_bytes, frames = told.bytes, told.frames
            fleet.sleep(10.0)
            told.frames = 0
            fleet.sleep(REST_S)
            result = job.results()[-1]
            assert (len(result.rows), result.rows[0].n) == (keys, AGENTS)
            print(
                f"  {partitions} partitions: {pane_bytes / 1e6:6.2f} MB in {frames} frames, "
                f"{pane_bytes / keys:.1f} B a key; at rest {told.frames / REST_S / AGENTS:.2f} a second"
            )


def _line(now: datetime, number: int) -> str:
    return f'203.0.113.9 - - [{now:%d/%b/%Y:%H:%M:%S %z}] "GET /products/{number} HTTP/1.1" 200 1 "-" "-"'


class _FramesInto:
    """Counts the parts of frames that a node takes from others."""

    def __init__(self, fleet: Fleet, name: str) -> None:
        self.bytes = self.frames = 0
        self._process = fleet._machines.by_name[name].process
        fleet._machines.world.handled.append(self._took)

    def _took(self, process: Process, event: Any) -> None:
        if process is self._process and isinstance(event, Received) and isinstance(event.message, ForJob):
            body = event.message.body
            if isinstance(body, Frame):
                self.bytes += len(body.data)
                self.frames += body.last


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="small and quick")
    smoke = parser.parse_args().smoke
    merge_rates(100_000 if smoke else 8_000_000, 1000 if smoke else 50_000)
    wire_bytes([10, 1000] if smoke else [10, 1000, 100_000])
    into_the_master(100 if smoke else 5000)
    events(4 if smoke else 64)
    memory(2000 if smoke else 1_000_000)


if __name__ == "__main__":
    main()
