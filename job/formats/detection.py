"""Which format a log has: the real scanners of the catalogue read its first lines, and the best one wins."""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from cython_ext.scan import Scanner, Trace
from job.errors import FormatError
from job.formats import catalogue, w3c
from job.formats.explanation import explain
from job.formats.fields import SIZED
from job.formats.format import Format
from job.formats.program import JsonProgram
from job.formats.scanner import SourceScanner

HEAD_BYTES_MAX = 64 << 10
HEAD_LINES_MAX = 200


class Detection(NamedTuple):
    """The format of a log, and why it was chosen, as a sentence."""

    format: Format
    reason: str


class _Candidate(NamedTuple):
    format: Format
    good: int
    directives: int


def detect(head: bytes) -> Detection:
    """The format of the log that starts with `head`, of which at most 64 KiB and 200 lines are read.

    The format with the most good lines is chosen if at least half of the lines that are not blank are good. Raises
    FormatError with the best guess and the column where it stopped matching.
    """
    lines = _whole_lines(head)
    filled = [line for line in lines if line.strip()]
    if not filled:
        raise FormatError("there is no line to tell the format from; name it, such as --format combined")
    sample = b"".join(line + b"\n" for line in lines)
    candidates = sorted((_tried(format, sample) for format in _formats(filled)), key=_rank)
    best, second = _preferred(candidates)
    records = len(filled) - best.directives
    if best.good == 0 or 2 * best.good < records:
        raise FormatError(_refusal(candidates, filled, records))
    name = best.format.name
    lines_match = "line matches" if records == 1 else "lines match"
    reason = f"detected {name}: {best.good} of {records} {lines_match} (next best: {second.format.name}, {second.good})"
    return Detection(best.format, reason)


def _whole_lines(head: bytes) -> list[bytes]:
    cut = head[:HEAD_BYTES_MAX]
    lines = cut.split(b"\n", HEAD_LINES_MAX)
    if len(lines) > 1:
        lines.pop()  # what follows the last line end looked at: nothing, the rest, or half a line
        if b"\n" not in head[len(cut) - 1 :] and len(head) <= HEAD_BYTES_MAX and len(lines) < HEAD_LINES_MAX:
            lines.append(cut[cut.rfind(b"\n") + 1 :])
    return lines


def as_logged(format: Format, head: bytes) -> Format:
    """`format`, one of those whose logs name their columns, with the columns that the first `#Fields:` line of `head`
    names; as it is where there is no such line."""
    named = _as_directed(_whole_lines(head))
    return format if named is None else replace(named, name=format.name, title=format.title)


def _formats(lines: list[bytes]) -> list[Format]:
    """All formats of the catalogue; those with directives as the log's own first #Fields line says."""
    found = [
        catalogue.named(name)
        for name in catalogue.ENTRIES
        if not catalogue.named(name).directives
    ]
    named = _as_directed(lines)
    return found if named is None else [*found, named]


def _as_directed(lines: list[bytes]) -> Format | None:
    """The format that the first #Fields line describes; None without one that can be read."""
    directive = next((line for line in lines if line.startswith(w3c.DIRECTIVE.encode())), None)
    if directive is None:
        return None
    text = directive.decode("utf-8", "backslashreplace")
    try:
        program = w3c.compile_format(text)
    except FormatError:
        return None
    program = replace(program, fields={**w3c.CANONICAL_FIELDS, **program.fields})
    name = "cloudfront" if "x-edge-location" in text.lower() else "w3c"
    return Format(name, program, text, title=catalogue.named(name).title)


def _tried(format: Format, sample: bytes) -> _Candidate:
    batches = SourceScanner(format, []).feed(sample)
    return _Candidate(format, sum(batch.rows for batch in batches), sum(batch.directives for batch in batches))


def _rank(candidate: _Candidate) -> tuple[int, int]:
    """Most good lines first, then the more specific format, then the order of the catalogue (the sort is stable)."""
    return -candidate.good, -_specificity(candidate.format) if candidate.good else 0


def _specificity(format: Format) -> int:
    if isinstance(format.program, JsonProgram):
        return sum(value.required for value in format.program.values)
    return len(format.program.steps)


def _preferred(candidates: list[_Candidate]) -> tuple[_Candidate, _Candidate]:
    """The best and the second best. Any object is `json`, so a service's own documents need only be half of the lines:
    the others are its messages."""
    best = candidates[0]
    if best.format.name == "json":
        for candidate in candidates[1:]:
            if isinstance(candidate.format.program, JsonProgram) and candidate.good * 2 >= best.good:
                return candidate, best
    return best, candidates[1]


def _refusal(candidates: list[_Candidate], lines: list[bytes], records: int) -> str:
    """The best guess is the format with the most good lines, then the one that fits its first bad line best."""
    most = candidates[0].good
    stops = [_first_stop(candidate.format, lines) for candidate in candidates if candidate.good == most]
    stop = max((stop for stop in stops if stop is not None), key=_fit)
    return (
        f"no known format matches these lines. The best guess is {stop.format.name}, {most} of {records} match; the "
        f"first other line stops matching at {explain(stop.format, stop.line).message}. Give the format with --format: "
        f"a name, or the server's own format string"
    )


class _Stop(NamedTuple):
    """The first line that a format does not match."""

    format: Format
    line: bytes
    trace: Trace


def _first_stop(format: Format, lines: list[bytes]) -> _Stop | None:
    scanner = Scanner(format.program, [])
    for line in lines:
        if not (format.directives and line.startswith(b"#")):
            trace = scanner.trace(line)
            if not trace.ok:
                return _Stop(format, line, trace)
    return None


def _fit(stop: _Stop) -> tuple[int, bool]:
    """How much of a line a format has understood: what stands between fields and fields that cannot be just anything
    count, words do not. With the same fit, a line that only goes on too long is closer than one with another column."""
    program = stop.format.program
    if isinstance(program, JsonProgram):
        return (stop.trace.position if stop.line.lstrip().startswith(b"{") else 0), False
    fit = 0
    for step, start, end in stop.trace.steps:
        fit += len(program.steps[step].until.strip(b" \t-"))
        if program.steps[step].content in SIZED and stop.line[start:end] != b"-":
            fit += 4
    return fit, stop.trace.reason == "trailing"
