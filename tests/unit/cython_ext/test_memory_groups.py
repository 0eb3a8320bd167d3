"""Group tables that run out of memory: an error, and a table that is still sound. In a process of its own, with little
address space."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

START = """
import resource

from cbt.aggregate import Finish, StateKind
from cython_ext.column import Column
from cython_ext.groups import GroupTable
from job.types import Kind

def limit(more_bytes):
    pages = int(open("/proc/self/statm").read().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + more_bytes,) * 2)

def longs(start, rows):
    return Column.from_list(Kind.BIGINT, list(range(start, start + rows)))
"""

FULL = """
table = GroupTable([Kind.BIGINT], [StateKind.COUNT])
ROWS = 10_000
blocks = [longs(n * ROWS, ROWS) for n in range(40)]
other = GroupTable([Kind.BIGINT], [StateKind.COUNT])
other.update([blocks[-1]], [None], [None], ROWS)
limit(4 << 20)
errors = 0
for block in blocks * 2:  # much more than fits; blocks that are in already must still be found
    try:
        table.update([block], [None], [None], ROWS)
    except MemoryError:
        errors += 1
        table.check()
groups = len(table)
assert errors and ROWS < groups < 40 * ROWS, (errors, groups)
try:
    table.merge(other)
except MemoryError:
    pass
else:
    raise AssertionError("there is memory after all")
table.check()
table.update([blocks[0]], [None], [None], ROWS)
assert len(table) >= groups
print("sound")
"""

TEXTS = """
table = GroupTable([Kind.BIGINT], [StateKind.MAX_STRING])
keys = longs(0, 1)
size = 1 << 20
texts = [Column.from_list(Kind.STRING, ["abcdefghijklmnop"[n] * (size << n)]) for n in range(4)]
large = Column.from_list(Kind.STRING, ["z" * (64 << 20)])
for text in texts:
    table.update([keys], [text], [None], 1)
before = table.bytes_used
limit(16 << 20)
for _ in range(3):
    try:
        table.update([keys], [large], [None], 1)
    except MemoryError:
        pass
    else:
        raise AssertionError("there is memory after all")
assert table.bytes_used == before, (table.bytes_used, before)
table.check()
assert table.finish(0, Finish.VALUE)[0].to_list() == ["d" * (size << 3)]
print("sound")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and a limit on address space")
@pytest.mark.skipif("libasan" in os.environ.get("LD_PRELOAD", ""), reason="AddressSanitizer takes terabytes of it")
@pytest.mark.parametrize("script", [FULL, TEXTS], ids=["groups", "texts"])
def test_a_table_without_memory_stays_sound(script: str) -> None:
    """A failed growth once left more groups than the slots are for, until a search no longer ended; and a failed text
    was no longer counted, so that it was never freed."""
    environment = os.environ | {"PYTHONMALLOC": "malloc"}
    done = subprocess.run(
        [sys.executable, "-c", START + script], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "sound\n"), done.stderr
