"""Whether the logs of a source are there, may be read, and look as the configuration says."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterator
from typing import NamedTuple

from agent.compression import BROKEN
from agent.errors import InputError
from agent.files import DENIED, LogFile, closed_folder
from agent.pipeline import SourcePipeline
from cython_ext.scan import Reject
from elfstream.check.finding import Finding, error, warning
from elfstream.config.model import SourceConfig
from elfstream.terminal import pointed, readable
from job import formats
from job.errors import FormatError
from job.formats import Format
from job.watermark import FUTURE_US

HEAD_BYTES = 64 << 10
HEAD_LINES = 200
HEADS_MAX = 16
"""Files of a source whose first lines are looked at: those that were written to last."""
SHOWN_MAX = 3
_DIRECTIVE = b"#Fields:"


class LogFacts(NamedTuple):
    """What a source has today. `good` of `lines` first lines fit its format."""

    name: str
    format: str
    files: int
    lines: int
    good: int


class _Head(NamedTuple):
    path: str
    lines: int
    good: int
    data: bytes
    reject: Reject | None
    latest_us: int | None


def check_source(number: int, source: SourceConfig, now_us: int) -> tuple[list[Finding], LogFacts]:
    """`number` is that of the source in keys; `now_us` microseconds since 1970. Reads at most 64 KiB of 16 files."""
    found: list[Finding] = []
    paths: dict[str, int] = {}
    for index, pattern in enumerate(source.paths):
        matches, problems = _matches(("sources", number, "paths", index), pattern)
        found += problems
        for path in matches:
            paths.setdefault(path, index)
    files = [path for path in paths if _is_file(path)]
    found += _strange(number, {path: paths[path] for path in paths if path not in files})
    denied = [path for path in files if not os.access(path, os.R_OK)]
    if denied:
        key = ("sources", number, "paths", paths[denied[0]])
        found.append(error(key, f"{_several(denied)} may not be read by the user {os.geteuid()}", _read_advice(denied[0])))
    try:
        format = source.log_format()
    except FormatError as refused:  # the server's own configuration has changed since it was loaded
        return [*found, error(("sources", number, "format"), str(refused).rstrip("."))], _facts(source, files, [])
    if "time" not in format.fields:
        found.append(
            warning(
                ("sources", number, "format"),
                "the format has no time, and windows need one",
                "Add it to the server's log_format, such as [$time_local].",
            )
        )
    heads = []
    for path in sorted((path for path in files if path not in denied), key=_changed, reverse=True)[:HEADS_MAX]:
        try:
            heads.append(_head(path, format))
        except InputError as broken:
            found.append(error(("sources", number, "paths", paths[path]), str(broken).rstrip(".")))
    found += _misfits(number, format, heads)
    found += _ahead(number, format, heads, now_us)
    return found, _facts(source, files, heads)


def _facts(source: SourceConfig, files: list[str], heads: list[_Head]) -> LogFacts:
    lines, good = sum(head.lines for head in heads), sum(head.good for head in heads)
    return LogFacts(source.name, source.format, len(files), lines, good)


def _matches(key: tuple[str | int, ...], pattern: str) -> tuple[list[str], list[Finding]]:
    if os.path.lexists(pattern):
        return [pattern], []
    matches = sorted(glob.glob(pattern, recursive=True))
    if matches:
        return matches, []
    folder = closed_folder(pattern)
    if folder is not None:
        return [], [error(key, f"{folder}: {DENIED}", _read_advice(folder))]
    what = "nothing matches" if glob.has_magic(pattern) else "there is no file"
    return [], [warning(key, f"{what} {pattern}", "It will be read when it comes; correct the path if it should be there.")]


def _read_advice(path: str) -> str:
    """A group that may read it is to be joined; where the group may not, either, the mode is to be changed."""
    try:
        found = os.stat(path)
    except OSError:
        return "Give the user of the service the right to enter its folder."
    group = _group_name(found.st_gid)
    letters, wanted = ("rx", 0o050) if stat.S_ISDIR(found.st_mode) else ("r", 0o040)
    if found.st_mode & wanted == wanted:
        return f"Add the user of the service to the group that may:  usermod -aG {group} elfstream"
    return f"Let the group {group} read it, also when it is rotated:  chmod g+{letters} {path}"


def _group_name(group: int) -> str:
    import grp

    try:
        name = grp.getgrgid(group).gr_name
    except KeyError:
        return str(group)
    return "adm" if name == "root" else name


def _is_file(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return False


def _changed(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def _strange(number: int, paths: dict[str, int]) -> Iterator[Finding]:
    """What is named and is no file: folders are a mistake, links to nowhere and devices are passed over."""
    for path, index in paths.items():
        key = ("sources", number, "paths", index)
        if os.path.isdir(path):
            yield error(key, f"{path} is a folder", f"Name its files, such as {path.rstrip('/')}/*.log*.")
        elif not os.path.exists(path):
            yield warning(key, f"{path} is a link to nowhere, or its folder may not be entered")
        else:
            yield warning(key, f"{path} is no regular file and will be passed over", "Have the server write to a file.")


def _several(paths: list[str]) -> str:
    more = f" and {len(paths) - SHOWN_MAX} more" if len(paths) > SHOWN_MAX else ""
    return ", ".join(paths[:SHOWN_MAX]) + more


def _head(path: str, format: Format) -> _Head:
    """Raises InputError."""
    try:
        with LogFile(path) as file:
            data = file.head[:HEAD_BYTES]
    except OSError as failed:
        raise InputError(path, failed.strerror or str(failed)) from failed
    except BROKEN as broken:
        raise InputError(path, str(broken)) from broken
    stop = 0
    for _ in range(HEAD_LINES):
        end = data.find(b"\n", stop)
        if end < 0:
            break
        stop = end + 1
    pipeline = SourcePipeline(format, [], timed="time" in format.fields)
    batches = pipeline.feed(data, 0, stop)
    counts = pipeline.counts
    blank = counts.rejected["blank"]
    rejects = [reject for batch in batches for reject in batch.samples if reject.reason != "blank"]
    lines = counts.lines - counts.directives - blank
    return _Head(path, lines, counts.parsed, data[:stop], rejects[0] if rejects else None, pipeline.latest_us)


def _misfits(number: int, format: Format, heads: list[_Head]) -> Iterator[Finding]:
    """One finding about the file whose lines fit worst: a wrong format is wrong for all."""
    bad = [head for head in heads if head.reject is not None]
    if not bad:
        return
    worst = min(bad, key=lambda head: head.good / head.lines)
    assert worst.reject is not None
    how = error if 2 * worst.good < worst.lines else warning
    lines = "none" if worst.good == 0 else f"only {worst.good}"
    message = f"{lines} of the first {worst.lines} lines of {worst.path} fit the format {format.name}"
    others = len(bad) - 1
    more = f"; {others} more {'file has' if others == 1 else 'files have'} such lines" if others else ""
    shown = _shown(format, worst.data, worst.reject)
    yield how(("sources", number, "format"), message + more, _would_fit(format, worst), shown)


def _shown(format: Format, data: bytes, reject: Reject) -> str:
    line = data[reject.offset : reject.offset + reject.size].rstrip(b"\r\n")
    directive = data.rfind(_DIRECTIVE, 0, reject.offset) if format.directives else -1
    before = data[directive : data.find(b"\n", directive) + 1] if directive >= 0 else b""
    explanation = formats.explain(format, before + line)
    if explanation.ok:  # rejected for where it stands, such as above any #Fields line
        return f"  {readable(line[:200])}\n  rejected as {reject.reason}"
    return f"{pointed(explanation.line, explanation.position)}\n  {explanation.message}"


def _would_fit(format: Format, head: _Head) -> str:
    try:
        found = formats.detect(head.data)
    except FormatError:
        return "No format with a name fits them: give the log_format or LogFormat string of the server's configuration."
    if found.format.name == format.name:
        return "The other lines do; these are counted as rejected."
    scanned = SourcePipeline(found.format, []).feed(head.data, 0, len(head.data))
    good = sum(batch.rows for batch in scanned)
    if good <= head.good:
        return "No format with a name fits more of them; these are counted as rejected."
    return f'{found.format.name} fits {good} of them: write format = "{found.format.name}".'


def _ahead(number: int, format: Format, heads: list[_Head], now_us: int) -> Iterator[Finding]:
    ahead = [head for head in heads if head.latest_us is not None and head.latest_us > now_us + FUTURE_US]
    if ahead:
        head = max(ahead, key=lambda one: one.latest_us or 0)
        hours = ((head.latest_us or 0) - now_us) / 3.6e9
        clocks = "Look at the clocks of this machine and the server."
        advice = "Set timezone to that of the log." if format.needs_zone else clocks
        yield warning(
            ("sources", number, "timezone" if format.needs_zone else "paths"),
            f"times in {head.path} lie {hours:.1f} hours ahead of this machine's clock, and such lines are rejected",
            advice,
        )
