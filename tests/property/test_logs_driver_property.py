"""Random histories of log files, messages and restarts: every line reaches every stream exactly once.

The whole agent takes part: core, journal, reader, tail. What is random: appends (half lines, too), rotation by renaming and
by copytruncate, compression, deletion, lost messages, dropped pieces, starts after a clean stop and after a crash, new
revisions that begin in the past.
"""

from __future__ import annotations

import gzip
import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard

from agent.stream_events import Shrink
from tests.integration.test_logs_driver import (
    KEY,
    SECOND_US,
    START_S,
    Lines,
    append,
    plan_of,
    source_of,
)
from tests.small_agent import SmallAgent, SmallRoot, content_of, truth_of


class Host:
    """One log of a server, and what becomes of its files."""

    def __init__(self, folder: Path, seed: int) -> None:
        folder.mkdir()
        self.folder, self.log = folder, folder / "access.log"
        self.random, self.lines = random.Random(seed), Lines(seed)
        self.texts = [b""]
        self.rest = b""
        self.number = 0

    def write(self) -> None:
        data = self.rest + self.lines.take(self.random.choice([1, 3, 20, 120]))
        cut = len(data) if self.random.random() < 0.7 else self.random.randrange(len(self.rest), len(data))
        self.texts[-1] += append(self.log, data[:cut])
        self.rest = data[cut:]

    def finish_line(self) -> None:
        if self.rest:
            self.texts[-1] += append(self.log, self.rest)
            self.rest = b""

    def rotate(self) -> None:
        """A server ends its line before it opens another file."""
        self.finish_line()
        if self.log.exists():
            self.number += 1
            self.log.rename(self.folder / f"access.log.{self.number}")
            self.texts.append(b"")

    def copytruncate(self) -> None:
        self.finish_line()
        if self.log.exists() and self.log.stat().st_size > 2048:
            self.number += 1
            shutil.copyfile(self.log, self.folder / f"access.log.{self.number}")
            with open(self.log, "r+b") as file:
                file.truncate(0)
            self.texts.append(b"")

    def plain(self) -> list[Path]:
        return sorted(path for path in self.folder.glob("access.log.*") if path.suffix not in (".gz", ".zst"))

    def pack(self) -> Path | None:
        """An archive beside the file it is made of."""
        found = [path for path in self.plain() if not list(self.folder.glob(f"{path.name}.*"))]
        if not found:
            return None
        path = self.random.choice(found)
        data = path.read_bytes()
        if self.random.random() < 0.5:
            path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(data, 1))
        else:
            path.with_name(f"{path.name}.zst").write_bytes(zstandard.ZstdCompressor().compress(data))
        return path


class History:
    """A random history of one agent and its logs."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.hosts = [
            Host(folder / f"web{number}", seed * 10 + number) for number in range(rng.choice([1, 2]))
        ]
        patterns = tuple(str(host.folder / "access.log*") for host in self.hosts)
        self.source = replace(source_of(folder), patterns=patterns)
        self.plan, self.starts = plan_of(), [0]
        self.root = SmallRoot(KEY, self.plan)
        self.agent = SmallAgent(
            folder,
            [self.source],
            [self.root],
            seed=seed,
            loss=rng.choice([0.0, 0.2]),
            fold_bytes_max=rng.choice([3000, 1 << 26]),
            advance_bytes_max=rng.choice([5000, 1 << 26]),
        )
        self.is_deleted = self.is_past_lost = False

    def act(self) -> None:
        rng, agent, host = self.rng, self.agent, self.rng.choice(self.hosts)
        match rng.randrange(16):
            case 0 | 1 | 2 | 3:
                host.write()
            case 4:
                host.rotate()
            case 5:
                agent.settle(2.0)
                host.copytruncate()
                agent.settle(12.0)
            case 6:
                path = host.pack()
                if path is not None:
                    if rng.random() < 0.5:
                        agent.step()
                    path.unlink()
            case 7 | 8 as kind:
                self.start_again(is_clean=kind == 7)
            case 9:
                agent.give(Shrink())
            case 10 if len(self.starts) < 3 and not self.is_past_lost:
                second = START_S + max(one.lines.second for one in self.hosts) * rng.random()
                self.starts.append(int(second) // 10 * 10 * SECOND_US)
                self.root.change(self.plan, self.starts[-1])
                agent.tell(self.root)
            case 11 if host.plain():
                # Held open for later revisions, so that only another start loses it.
                agent.settle(8.0)
                self.is_deleted = True
                rng.choice(host.plain()).unlink()
            case _:
                for _ in range(rng.randrange(1, 5)):
                    agent.step(rng.choice([0.1, 0.25, 1.0]))

    def start_again(self, is_clean: bool) -> None:
        if self.is_deleted:
            self.agent.settle(8.0)
            self.is_past_lost = True
        if is_clean:
            self.agent.reader.close()
        else:
            self.agent.crash()
        self.agent.boot()

    def end(self) -> None:
        for host in self.hosts:
            host.finish_line()
        self.agent.settle(20.0)
        texts = [text for host in self.hosts for text in host.texts]
        panes, counters = truth_of(self.plan, self.source, texts)
        for revision, start in enumerate(self.starts, 1):
            got, later = content_of(self.root.stream(revision)), min(self.starts[revision:], default=1 << 62)
            assert set(got) <= {pane for pane in panes if pane >= start}
            for pane, tables in panes.items():
                if start <= pane < later:
                    assert got.get(pane) == tables, f"pane {pane} of revision {revision}"
            assert self.root.stream(revision).counters.lost_bytes == 0
        if len(self.starts) == 1:
            assert self.root.stream().counters == counters
        assert self.agent.troubles == []


def run(folder: Path, seed: int, steps: int = 60) -> None:
    history = History(folder, seed)
    for _ in range(steps):
        history.act()
    history.end()


@pytest.mark.parametrize("seed", range(12))
def test_every_line_once(seed: int, tmp_path: Path) -> None:
    run(tmp_path, seed)
