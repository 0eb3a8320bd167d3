"""The golden queries again over logs that grow: at random cuts, rotated and compressed between them, and the answers equal
those of the one-shot query value by value, which `test_truth.py` compares with the truth.

The tail, the live query and its windows are the real ones, on real files, under a clock that the test moves.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
import zstandard

import elfstream as elf
from agent.files import Inputs, expand
from elfstream.testing import FollowTest
from job.watermark import Timing
from tests.golden.test_truth import DATA, SETS

CLOCK_US = 1_893_456_000_000_000  # 2030: no line of the sets is from the future
CUTS, SEED = 24, 1
DISORDER_S = {"apache_semicomplete_2015": 60, "buttercup_2019": 5, "nasa_aug95_5k_altered": 9 * 3600}
"""How far lines of a set are out of order (the README of the data says so); 2 s where none is named."""
SAME_WEEK = "buttercup_2019"
"""Its files were written side by side; those of other sets one after the other."""
QUERIES = {
    "totals": """SELECT count(*) AS n, sum(bytes) AS b, count_if(bytes IS NULL) AS dashes, min(time), max(time),
                        count(DISTINCT remote_addr), count(DISTINCT path), count(DISTINCT user) FROM access""",
    "counts": "SELECT status, method, count(*), sum(bytes) FROM access GROUP BY status, method",
    "top": """SELECT path, count(*) AS n, coalesce(sum(bytes), 0) AS b FROM access WHERE path IS NOT NULL
              GROUP BY path ORDER BY n DESC, b DESC LIMIT 20""",
    "minutes": """SELECT window(time, '1 minute') AS w, count(*) AS n, sum(bytes), count(DISTINCT remote_addr),
                         approx_percentile(bytes, 0.9) FROM access GROUP BY w""",
    "hours": """SELECT window(time, '1 hour', '15 minutes') AS w, status, count(*) AS n FROM access
                GROUP BY w, status HAVING n > 1 ORDER BY n DESC LIMIT 3""",
}

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the log sets of ../shared/data are not here")


def contents(name: str) -> list[bytes]:
    """The logs of a set, uncompressed, as they were written."""
    texts = []
    for path in sorted(expand([DATA / SETS[name][0]]), key=_age, reverse=True):
        with Inputs([path]).open(path) as file:
            texts.append(b"".join(block.data[: block.stop] for block in file.blocks()))
    return texts if name == SAME_WEEK else [b"".join(texts)]


def _age(path: str) -> int:
    """The number of a rotated log: access.log.10.zst is the oldest, access.log.zst the newest."""
    return max((int(part) for part in Path(path).name.split(".") if part.isdecimal()), default=0)


class Writer:
    """A server that writes `data` in pieces that end anywhere, and logrotate, which moves and packs what it wrote."""

    def __init__(self, folder: Path, data: bytes, random: Random, is_rotated: bool) -> None:
        self.log = folder / "access.log"
        self._data, self._random, self._is_rotated = data, random, is_rotated
        folder.mkdir()

    def steps(self) -> Iterator[bool]:
        """Writes step by step; whether anybody is to look before the next one."""
        cuts = sorted(self._random.sample(range(1, len(self._data)), CUTS - 1))
        done = 0
        for cut in [*cuts, len(self._data)]:
            is_rotation = self._is_rotated and self._random.random() < 0.3
            if is_rotation:  # a server finishes its line before it opens another log
                cut = self._data.find(b"\n", cut - 1) + 1 or len(self._data)
            if cut > done:
                with open(self.log, "ab") as file:
                    file.write(self._data[done:cut])
                done = cut
            yield self._random.random() < 0.7
            if is_rotation and self.log.exists():
                yield from self._rotate()

    def _rotate(self) -> Iterator[bool]:
        for number in range(CUTS, 0, -1):
            for suffix in ("", ".gz", ".zst"):
                old = Path(f"{self.log}.{number}{suffix}")
                if old.exists():
                    old.rename(f"{self.log}.{number + 1}{suffix}")
        self.log.rename(f"{self.log}.1")
        yield self._random.random() < 0.7
        plain = Path(f"{self.log}.1")
        packed = self._random.choice((".gz", ".zst", ""))
        if packed:
            data = plain.read_bytes()
            whole = gzip.compress(data, 1) if packed == ".gz" else zstandard.ZstdCompressor().compress(data)
            Path(f"{plain}{packed}").write_bytes(whole)
            yield self._random.random() < 0.5
            plain.unlink()


def followed(name: str, sql: str, folder: Path, is_rotated: bool) -> tuple[list[tuple[Any, ...]], FollowTest]:
    """The rows of all final windows of a set that grows."""
    random = Random(f"{name} {SEED}")
    timing = Timing(delay_us=DISORDER_S.get(name, 2) * 1_000_000, idle_us=3_600_000_000)
    format = SETS[name][1]
    writers = [
        Writer(folder / f"web{number}", data, random, is_rotated) for number, data in enumerate(contents(name))
    ]
    with FollowTest(sql, format, [folder / "*" / "access.log*"], timing=timing, clock_us=CLOCK_US) as test:
        growing = [writer.steps() for writer in writers]
        while growing:
            looks = [(steps, next(steps, None)) for steps in growing]
            growing = [steps for steps, look in looks if look is not None]
            if any(look for _, look in looks):
                test.sleep(0.5)
        for _ in range(20):  # copies are settled, archives known
            test.sleep(0.5)
        test.drain()
        finals = test.finals()
    assert {window.revision for window in finals} <= {1}
    return [tuple(row) for window in finals for row in window.rows], test


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("is_rotated", [False, True], ids=["grown", "rotated"])
@pytest.mark.parametrize("name", SETS)
def test_grown_at_random_cuts(name: str, is_rotated: bool, query: str, tmp_path: Path) -> None:
    files, format = SETS[name]
    once = elf.query(QUERIES[query], DATA / files, format=format, threads=1)
    rows, test = followed(name, QUERIES[query], tmp_path, is_rotated)
    assert rows == [tuple(row) for row in once]
    counts, stats = test.query.counts, once.stats
    assert (counts.lines, counts.parsed, counts.directives) == (stats.lines, stats.parsed, stats.directives)
    assert counts.rejected == stats.rejected_by
    assert (test.query.late, test.query.gap_bytes, test.query.eval_errors) == (0, 0, stats.eval_errors)
    assert test.troubles == []
