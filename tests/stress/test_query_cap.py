"""A whole query from the command line over many more groups than its cap holds: exact, and the process stays small."""

from __future__ import annotations

import json
import subprocess
import sys
from array import array
from collections import Counter
from pathlib import Path
from random import Random

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINES, KEYS = 6_000_000, 4_000_000
PEAK_MIB_MAX = 160
LINE = '203.0.113.9 - - [28/Nov/2025:20:00:01 +0100] "GET /%s HTTP/1.1" 200 %d "-" "-"\n'
INNER = "SELECT path, count(*) AS n, sum(bytes) AS s FROM access GROUP BY path"


def name(key: int) -> str:
    """16 digits without order, so that they hardly compress."""
    return f"{key * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF:016x}"


def write_log(path: Path) -> array[int]:
    """Returns how often each key is in the log; a line of key k has k % 1000 bytes."""
    counts = array("I", bytes(4 * KEYS))
    source = Random(13)
    with path.open("w") as out:
        for _ in range(LINES // 10_000):
            keys = [source.randrange(KEYS) for _ in range(10_000)]
            for key in keys:
                counts[key] += 1
            out.write("".join([LINE % (name(key), key % 1000) for key in keys]))
    return counts


@pytest.mark.stress
def test_millions_of_groups_under_64_mib(tmp_path: Path) -> None:
    log, spill_dir = tmp_path / "access.log", tmp_path / "spill"
    spill_dir.mkdir()
    counts = write_log(log)

    def ask(sql: str) -> list[str]:
        options = ["--stats", "-o", "csv", "--memory-max", "64MiB", "--spill-dir", str(spill_dir)]
        command = [sys.executable, "-m", "elfstream", "query", *options, sql, str(log)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        stats = json.loads(done.stderr)
        assert (stats["lines"], stats["parsed"]) == (LINES, LINES)
        assert stats["groups"] == sum(count > 0 for count in counts)
        assert stats["spilled_bytes"] > 0
        assert stats["peak_memory"] >> 20 <= PEAK_MIB_MAX
        assert list(spill_dir.iterdir()) == []
        return done.stdout.splitlines()[1:]

    seen, sums = Counter(counts), Counter[int]()
    for key, count in enumerate(counts):
        sums[count] += count * (key % 1000)
    by_count = ask(f"SELECT n, count(*) AS paths, sum(s) AS s FROM ({INNER}) AS counts GROUP BY n")
    assert by_count == [f"{n},{seen[n]},{sums[n]}" for n in sorted(seen) if n]

    rows = {
        f"/{name(key)},{count},{count * (key % 1000)}"
        for key, count in enumerate(counts)
        if count and name(key).startswith("5a")
    }
    found = ask(f"{INNER} HAVING path LIKE '/5a%'")
    assert found == sorted(rows)

    best = sorted(((-count, name(key)) for key, count in enumerate(counts) if count > 5))[:1000]
    found = ask(f"{INNER} ORDER BY n DESC LIMIT 1000")
    assert [line.split(",")[:2] for line in found] == [[f"/{path}", str(-minus)] for minus, path in best]
