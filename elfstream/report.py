"""What is said about a finished reading, on standard error: nothing that a script did not ask for, a line or two to people.

Two exceptions, of which everyone is told: when most lines do not fit the format, the answer is about something else, and
when nothing but blank lines was there, the format is a guess.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.json import encode

from agent.log_format import UNDETECTED
from elfstream.progress import rate_text
from elfstream.terminal import DIM, cut, has_colour, is_terminal, paint, pointed, quantity, visible

if TYPE_CHECKING:
    from elfstream.live_query import LiveQuery
    from elfstream.result import RejectSample, Result, Stats

FORMAT_WIDTH_MAX = 40


def report_query(result: Result, stats: bool, quiet: bool, is_kept: bool) -> None:
    """Says what a query read: JSON when asked for; to people a summary unless `quiet`, and rejects in any case."""
    read = result.stats
    if stats:
        print(stats_json(read), file=sys.stderr)
    elif result.detection == UNDETECTED:
        if not quiet:
            print(undetected(), file=sys.stderr)
    elif read.rejected > read.parsed:
        print(misfit(result.format, read.rejected, read.lines, read.samples), file=sys.stderr)
    if read.trailing_garbage and not stats:
        print(trailing_garbage(read.trailing_garbage), file=sys.stderr)
    if not is_terminal(sys.stderr):
        return
    if not quiet and not stats:
        print(paint(summary(result), DIM, has_colour(sys.stderr)), file=sys.stderr)
    if read.rejected:
        print(rejected_text(read.rejected_by, is_kept), file=sys.stderr)


def trailing_garbage(paths: Sequence[str]) -> str:
    """A warning about compressed files that do not end where their data does."""
    named = ", ".join(visible(path) for path in paths[:3]) + (" and others" if len(paths) > 3 else "")
    return f"elfstream: warning: {named}: bytes behind the end of the gzip data were ignored"


def undetected() -> str:
    """A warning about logs without a line to tell their format from."""
    return f"elfstream: warning: {UNDETECTED}"


def report_follow(query: LiveQuery, seconds: float, stats: bool, quiet: bool) -> None:
    """Says what a followed query read in `seconds`, as `report_query` does."""
    counts = query.counts
    if stats:
        print(follow_json(query, seconds), file=sys.stderr)
        return
    if not is_terminal(sys.stderr) or quiet:
        return
    parts = [
        f"{counted(counts.lines, 'line')} ({quantity(query.bytes, 'B')}) in {seconds:.1f} s",
        f"format {cut(visible(query.format.name), FORMAT_WIDTH_MAX)}",
        f"{query.late:,} late",
    ]
    if query.gap_bytes:
        parts.append(f"{quantity(query.gap_bytes, 'B')} lost")
    if query.eval_errors:
        parts.append(f"{counted(query.eval_errors, 'expression')} failed and became NULL")
    print(paint(" · ".join(parts), DIM, has_colour(sys.stderr)), file=sys.stderr)
    if counts.rejected:
        print(rejected_text(counts.rejected, is_kept=True), file=sys.stderr)


def follow_json(query: LiveQuery, seconds: float) -> str:
    """The figures of `--stats` for a followed query."""
    from elfstream.result import Stats

    counts = query.counts
    read = Stats(
        lines=counts.lines, parsed=counts.parsed, directives=counts.directives, rejected_by=counts.rejected,
        eval_errors=query.eval_errors, overflow=query.overflow, bytes=query.bytes, seconds=seconds,
        peak_memory=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    )  # fmt: skip
    figures = read.asdict() | {"late": query.late, "lost_bytes": query.gap_bytes}
    del figures["groups"]  # those of closed windows are gone
    return encode(figures).decode()


def stats_json(stats: Stats) -> str:
    """The counts as one JSON object: bytes of uncompressed text, wall time, peak resident memory in bytes."""
    return encode(stats.asdict()).decode()


def counted(number: int, noun: str) -> str:
    """`1 row`, `12,345 rows`."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def summary(result: Result) -> str:
    """One line about a finished query."""
    stats = result.stats
    read = f"{counted(stats.lines, 'line')} ({quantity(stats.bytes, 'B')})"
    parts = [
        counted(len(result), "row"),
        f"{read} in {stats.seconds:.2f} s, {rate_text(stats.lines, stats.seconds)}",
        f"format {cut(visible(result.format), FORMAT_WIDTH_MAX)}, {visible(result.detection)}",
    ]
    if stats.eval_errors:
        parts.append(f"{counted(stats.eval_errors, 'expression')} failed and became NULL")
    if stats.overflow:
        parts.append(f"{counted(stats.overflow, 'aggregate')} overflowed and became NULL")
    if stats.spilled_bytes:
        memory, disk = quantity(stats.peak_tree_memory, "B"), quantity(stats.spilled_bytes, "B")
        parts.append(f"groups took {memory} of memory, {disk} went to disk")
    return " · ".join(parts)


def rejected_text(rejected_by: Mapping[str, int], is_kept: bool) -> str:
    """How many lines were rejected and why, the most frequent reason first."""
    ranked = sorted(rejected_by.items(), key=lambda item: (-item[1], item[0]))
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in ranked)
    hint = "" if is_kept else "; --rejects FILE keeps them"
    return f"{counted(sum(rejected_by.values()), 'line')} rejected: {reasons}{hint}"


def misfit(format: str, rejected: int, lines: int, samples: Sequence[RejectSample]) -> str:
    """A warning for a log of which most lines do not fit, with the place where the first one stops fitting."""
    verb = "does" if rejected == 1 else "do"
    text = f"elfstream: warning: {rejected:,} of {counted(lines, 'line')} {verb} not fit the format "
    text += cut(visible(format), FORMAT_WIDTH_MAX)
    if samples:
        first = samples[0]
        text += f"; line {first.line_number} stops at column {first.position + 1} ({first.reason}):\n"
        text += pointed(first.text, first.position)
    return text
