"""Real logs as if they were written today: shared out to the webservers of a fleet, which write and rotate them."""

from __future__ import annotations

import gzip
import itertools
import random
import re
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import elfstream as elf
from tests.golden.test_truth import SETS, truth
from tests.golden.test_truth_followed import Writer, contents

_DAY = re.compile(rb"\[(\d\d/[A-Z][a-z][a-z]/\d{4})")
_TIME = re.compile(rb"\[(\d\d/[A-Z][a-z][a-z]/\d{4}:\d\d:\d\d:\d\d [+-]\d{4})\]")
SQL = {
    "minutes": "SELECT window(time, '1 minute') AS w, count(*) AS n FROM access GROUP BY w",
    "statuses": "SELECT window(time, '1 day') AS w, status, count(*) AS n FROM access GROUP BY w, status",
    "paths": """SELECT window(time, '1 day') AS w, path, count(*) AS n, coalesce(sum(bytes), 0) AS b FROM access
                WHERE path IS NOT NULL GROUP BY w, path""",
}
"""Jobs whose results can be held against the truth."""
CHANGED = "SELECT window(time, '1 minute') AS w, count(*) AS n, sum(bytes) AS b FROM access GROUP BY w"
"""What `minutes` is changed to."""


class Replay:
    """The lines of a set, moved by whole days to just before now, each written by one of the webservers."""

    def __init__(self, name: str, folders: Sequence[Path], rng: random.Random) -> None:
        """`folders` must not be there yet: one a webserver."""
        self.name, self.format, self.folders = name, SETS[name][1], folders
        lines = b"".join(contents(name)).splitlines(keepends=True)
        latest = datetime.fromisoformat(truth(name)["latest_time"])
        self.shift = timedelta(days=(datetime.now(UTC) - latest).days)
        earliest = datetime.fromisoformat(truth(name)["earliest_time"])
        self.since = f"{(datetime.now(UTC) - earliest - self.shift).days + 2}d"
        """What a job has to ask for to read them all."""
        self._earliest, self._length = earliest + self.shift, latest - earliest
        self.middle = self.at(0.5).replace(second=0, microsecond=0)
        parts: list[list[bytes]] = [[] for _ in folders]
        for line in lines:
            parts[rng.randrange(len(parts))].append(self._moved(line))
        self.texts = [b"".join(part) for part in parts]
        self._texts = list(self.texts)
        """What is yet to be written: all, unless `cut` took the beginning."""
        self._rng = rng
        self._writers: list[Writer] = []

    def _moved(self, line: bytes) -> bytes:
        def later(found: re.Match[bytes]) -> bytes:
            day = datetime.strptime(found[1].decode(), "%d/%b/%Y") + self.shift
            return day.strftime("[%d/%b/%Y").encode()

        return _DAY.sub(later, line, count=1)

    def at(self, part: float) -> datetime:
        """The time when so much of the set's had passed."""
        return self._earliest + self._length * part

    def cut(self, live: datetime, old: datetime, folder: Path) -> Path:
        """Packs the beginning into `folder`, a file a webserver, and leaves the end to be written. What was logged before
        `old` is in those files, and what was logged at or after `live` is yet to be written: between them are both."""
        folder.mkdir()
        for number, text in enumerate(self.texts):
            lines = text.splitlines(keepends=True)
            times = [_logged(line) for line in lines]
            last = max((at for at, time in enumerate(times) if time and time < old), default=-1)
            first = next((at for at, time in enumerate(times) if time and time >= live), len(lines))
            (folder / f"{number}.log.gz").write_bytes(gzip.compress(b"".join(lines[: last + 1]), 1))
            self._texts[number] = b"".join(lines[first:])
        return folder

    def begin(self) -> None:
        """Writes the first line of each webserver."""
        for folder, text in zip(self.folders, self._texts, strict=True):
            first = text.index(b"\n") + 1
            self._writers.append(Writer(folder, text[first:], self._rng, is_rotated=True))
            self._writers[-1].log.write_bytes(text[:first])

    def write(self, seconds: float, may_pass: threading.Event) -> None:
        """What follows, step by step, in about so long; the middle is not reached before it may be passed."""
        growing = [writer.steps() for writer in self._writers]
        for step in itertools.count():
            if not growing:
                return
            if step == STEPS // 5:
                may_pass.wait(300.0)
            growing = [steps for steps in growing if next(steps, None) is not None]
            time.sleep(self._rng.uniform(0, 2 * seconds / STEPS))

    def once(self, sql: str, folder: Path) -> list[tuple[Any, ...]]:
        """What the one-shot query says of it."""
        folder.mkdir(exist_ok=True)
        paths = [folder / f"{number}.log" for number in range(len(self.texts))]
        for path, text in zip(paths, self.texts, strict=True):
            path.write_bytes(text)
        return [tuple(row) for row in elf.query(sql, paths, format=self.format, threads=1)]

    # rows of the jobs above against the truth

    def check_minutes(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """`minutes`, before or after its change."""
        minutes = {f"{row[0].start - self.shift:%Y-%m-%dT%H:%MZ}": row[1] for row in rows}
        busiest = sorted(minutes.items(), key=lambda item: (-item[1], item[0]))[:60]
        assert [list(item) for item in busiest] == truth(self.name)["busiest_60_minutes"]
        assert len(minutes) == truth(self.name)["distinct"]["minutes"]

    def check_statuses(self, rows: Sequence[tuple[Any, ...]]) -> None:
        counts: dict[str, int] = {}
        for _, status, n in rows:
            if status is not None:
                counts[str(status)] = counts.get(str(status), 0) + n
        assert counts == truth(self.name)["status_counts"]

    def check_paths(self, rows: Sequence[tuple[Any, ...]]) -> None:
        counts: dict[str, int] = {}
        sums: dict[str, int] = {}
        for _, path, n, b in rows:
            counts[path] = counts.get(path, 0) + n
            sums[path] = sums.get(path, 0) + b
        top = sorted(counts, key=lambda path: (-counts[path], path.encode()))[:20]
        assert [[path, counts[path], sums[path]] for path in top] == truth(self.name)["top20_paths_by_count"]["rows"]
        assert len(counts) == truth(self.name)["distinct"]["paths"]


def _logged(line: bytes) -> datetime | None:
    found = _TIME.search(line)
    return None if found is None else datetime.strptime(found[1].decode(), "%d/%b/%Y:%H:%M:%S %z")


STEPS = 40
"""About so many does a webserver of a set take."""
