"""Fuzzes the scan kernel against the plain reference: `python tests/stress/fuzz_scan.py [SECONDS] [SEED]`.

Each round makes a program (of a real format, or random), a block of lines that nearly fit it, mutates them, and compares
everything that kernel and reference say. A failure prints the seed of its round. To look for reads out of bounds too,
build with ELFSTREAM_SANITIZE=1 and run with LD_PRELOAD="$(gcc -print-file-name=libasan.so)" and ASAN_OPTIONS=detect_leaks=0.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from cython_ext import reference_scan
from cython_ext.scan import Scanner
from job.formats.program import LineProgram, Program
from tests import scan_cases


def compare(program: Program, wanted: list[str], block: bytes, line_bytes_max: int = 4 << 20) -> int:
    """Scans the block both ways; raises AssertionError where they differ. Returns the number of good lines."""
    ours = Scanner(program, wanted, samples_max=1000, line_bytes_max=line_bytes_max).scan(block)
    theirs = reference_scan.scan(program, wanted, block, samples_max=1000, line_bytes_max=line_bytes_max)
    for name in ("lines", "directives", "consumed", "directive", "samples", "rejected", "rows"):
        assert getattr(ours, name) == getattr(theirs, name), (name, getattr(ours, name), getattr(theirs, name))
    assert ours.lines == ours.rows + sum(ours.rejected.values()) + ours.directives
    for name, column, values in zip(wanted, ours.columns, theirs.columns, strict=True):
        assert column.to_list() == values, (name, column.to_list(), values)
    return ours.rows


def one_round(seed: int) -> tuple[int, int]:
    """Lines and good lines of the round."""
    random = Random(seed)
    if random.random() < 0.4:
        case = random.choice(list(scan_cases.CASES.values()))
        program: Program = case.program
        lines = [random.choice(case.lines) for _ in range(20)]
    elif random.random() < 0.7:
        program = line_program = scan_cases.random_line_program(random)
        lines = [scan_cases.random_line(random, line_program) for _ in range(20)]
    else:
        program = json_program = scan_cases.random_json_program(random)
        lines = [scan_cases.random_document(random, json_program) for _ in range(20)]
    if isinstance(program, LineProgram) and program.directives and random.random() < 0.2:
        lines.insert(random.randrange(len(lines)), random.choice([b"#Fields: a b", b"#", b"#Fields"]))
    ends = [random.choice([b"\n", b"\n", b"\n", b"\r\n"]) for _ in lines]
    block = b"".join(scan_cases.mutate(random, line) + end for line, end in zip(lines, ends, strict=True))
    block = block[: len(block) - random.randrange(3)]
    wanted = scan_cases.wanted_of(program)
    random.shuffle(wanted)
    wanted = wanted[: random.randint(0, len(wanted))] if random.random() < 0.5 else wanted
    good = compare(program, wanted, block, random.choice([4 << 20, 4 << 20, 60]))
    return block.count(b"\n"), good


def main() -> None:
    seconds, seed = float((sys.argv[1:2] or ["60"])[0]), int((sys.argv[2:3] or ["1"])[0])
    until = time.monotonic() + seconds
    rounds = lines = good = 0
    while time.monotonic() < until:
        try:
            tried, fine = one_round(seed + rounds)
        except BaseException:
            print(f"failed in the round of seed {seed + rounds}", file=sys.stderr)
            raise
        rounds, lines, good = rounds + 1, lines + tried, good + fine
    print(f"{rounds} programs, {lines} lines ({good} good), kernel and reference agree")


if __name__ == "__main__":
    main()
