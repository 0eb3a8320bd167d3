"""What `elfstream top` and `elfstream job watch` draw: all jobs with their rates, or one job's newest window. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import isfinite
from typing import Any, NamedTuple

from elfstream.remote_results import WindowResult
from elfstream.screen import sparkline
from elfstream.terminal import BOLD, DIM, GREEN, RED, YELLOW, cells, cut, pad, paint, quantity, visible
from elfstream.views.jobs import agents_text, state_text
from elfstream.views.windows import window_table, window_title
from elfstream.views.words import count, span
from job.types import Kind

Document = Mapping[str, Any]

SAMPLES = 60
"""Of a rate, kept."""
RATE_SAMPLES = 5
"""A rate is told over so many: agents send in steps."""
WINDOWS = 30
"""Of a job, kept for its trends."""


class Rate:
    """Lines a second of a job, from its counter."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque(maxlen=SAMPLES)

    def note(self, now_s: float, lines: int) -> None:
        """A counter that went back is another job of the same name: it begins anew."""
        if self._seen and lines < self._seen[-1][1]:
            self._seen.clear()
        self._seen.append((now_s, lines))

    @property
    def history(self) -> list[float]:
        """Of each step, oldest first."""
        seen = list(self._seen)
        return [_rate(before, after) for before, after in pairwise(seen)]

    @property
    def now(self) -> float | None:
        """Over the last steps; None before there is one."""
        if len(self._seen) < 2:
            return None
        return _rate(self._seen[max(len(self._seen) - 1 - RATE_SAMPLES, 0)], self._seen[-1])


def _rate(before: tuple[float, int], after: tuple[float, int]) -> float:
    return (after[1] - before[1]) / max(after[0] - before[0], 1e-6)


class Windows:
    """The newest windows of a job, by time; of each the last that was published."""

    def __init__(self) -> None:
        self._kept: dict[Any, WindowResult] = {}

    def note(self, result: WindowResult) -> None:
        known = self._kept.get(result.window)
        if known is not None and known.id > result.id:
            return
        if result.status == "withdrawn":
            self._kept.pop(result.window, None)
            return
        self._kept[result.window] = result
        if len(self._kept) > WINDOWS:
            del self._kept[min(self._kept)]

    @property
    def newest(self) -> WindowResult | None:
        return self._kept[max(self._kept)] if None not in self._kept and self._kept else self._kept.get(None)

    def trends(self, keys: Sequence[str]) -> tuple[str, dict[int, list[float]]]:
        """A column, and by number of a row of the newest window its values in all windows, 0 where the row was missing.
        It is the first column of numbers that is no key."""
        newest = self.newest
        if newest is None or len(self._kept) < 2:
            return "", {}
        numbers = (
            at for at, one in enumerate(newest.columns) if one.type.is_numeric and one.name not in keys
        )
        column = next(numbers, None)
        if column is None:
            return "", {}
        found: dict[int, list[float]] = {number: [] for number in range(len(newest.rows))}
        for window in sorted(self._kept):
            result = self._kept[window]
            if result.columns != newest.columns:
                continue
            known = {_key(row, keys, result): row[column] for row in result.rows}
            for number, row in enumerate(newest.rows):
                found[number].append(_bar(known.get(_key(row, keys, result))))
        return newest.columns[column].name, found


def _bar(value: Any) -> float:
    """What a bar can show of a number: no less than nothing, and nothing endless."""
    return max(float(value), 0.0) if value is not None and isfinite(value) else 0.0


def _key(row: Sequence[Any], keys: Sequence[str], result: WindowResult) -> tuple[Any, ...]:
    return tuple(
        value
        for value, column in zip(row, result.columns, strict=True)
        if column.name in keys and column.type.kind is not Kind.WINDOW
    )


class JobState(NamedTuple):
    """A job with its rate: `job` is None while the fleet did not answer for it, `problem` says why."""

    name: str
    job: Document | None
    rate: Rate
    problem: str = ""


class FleetState(NamedTuple):
    """`jobs_all` counts also those that are not asked about because they would not fit."""

    url: str
    nodes: Sequence[Document]
    jobs: Sequence[JobState]
    jobs_all: int
    clock: str
    trouble: str = ""


_NAME_MIN, _FACTS = 4, 51
"""Columns of the name at least, and of what stands behind it without the bars."""


def jobs_room(lines: int) -> int:
    """Jobs that fit a screen of so many lines."""
    return max(lines - 7, 1)


def fleet_picture(state: FleetState, columns: int, lines: int, colour: bool) -> list[str]:
    """All jobs: state, agents, rate with bars, lag, results."""
    kinds = [node["kind"] for node in state.nodes if not node["left"]]
    parts = [
        f"elfstream at {state.url}",
        f"{count(kinds.count('agent'), 'agent')}, {count(kinds.count('worker'), 'worker')}",
    ]
    parts.append(count(state.jobs_all, "job"))
    head = _ends(" · ".join(parts), state.clock, columns, colour)
    names = [visible(one.name) for one in state.jobs]
    width = max(min(max(map(cells, names), default=0), columns - _FACTS - 2), _NAME_MIN)
    is_narrow = columns < width + _FACTS + 2  # then the end of a row is cut, and colours would be cut with it
    bars = min(max(columns - width - _FACTS - 2, 0), SAMPLES)
    title = f"{pad('job', width)}  {'state':<9}{'rev':>4}{'agents':>8}{'lines/s':>9}"
    title += f"  {pad('', bars)}{'behind':>8}{'results':>11}"
    drawn = [head, "", paint(cut(title, columns), BOLD, colour)]
    for one, name in zip(state.jobs[: jobs_room(lines)], names, strict=False):
        row = _job_row(one, pad(cut(name, width), width), bars, columns, colour and not is_narrow)
        drawn.append(cut(row, columns) if is_narrow else row)
    if not state.jobs and not state.trouble:
        drawn.append("no job yet; 'elfstream job submit' makes one")
    hidden = state.jobs_all - len(state.jobs[: jobs_room(lines)])
    if hidden > 0:
        drawn.append(paint(f"… and {count(hidden, 'job')} more", DIM, colour))
    return [*drawn, "", *_foot(state.trouble, columns, colour)]


def _job_row(one: JobState, name: str, bars: int, columns: int, colour: bool) -> str:
    job = one.job
    if job is None:
        return (
            name
            + "  "
            + paint(
                cut(visible(one.problem or "..."), columns - cells(name) - 2),
                RED if one.problem else DIM,
                colour,
            )
        )
    coverage = job["coverage"]
    missing, agents = len(coverage["missing"]), coverage["agents"]
    rate = "-" if one.rate.now is None else quantity(one.rate.now)
    lag = job["lag_seconds"] if job["state"] != "stopped" else None
    shown = f"{agents - missing}/{agents}"
    state = pad(job["state"], 9)
    style = RED if job["problem"] else YELLOW if job["state"] in ("starting", "changing", "draining") else ""
    return (
        f"{name}  {paint(state, style, colour)}{job['revision']:>4}"
        f"{paint(f'{shown:>8}', YELLOW if missing else '', colour)}{rate:>9}  "
        f"{paint(sparkline(one.rate.history, bars), GREEN, colour)}{span(lag):>8}{job['results']:>11,}"
    )


def job_picture(
    one: JobState,
    windows: Windows,
    columns: int,
    lines: int,
    colour: bool,
    trouble: str = "",
    foot: bool = True,
) -> list[str]:
    """One job: its state, and its newest window with the trend of each row over the last windows."""
    drawn = [_job_title(one, columns, colour)]
    newest = windows.newest
    below = _foot(trouble, columns, colour) if foot or trouble else []
    if newest is None:
        return [*drawn, "", "no result yet", "", *below]
    drawn += [
        cut_painted(window_title(newest), columns, YELLOW if newest.coverage.missing else "", colour),
        "",
    ]
    trended, trends = windows.trends(one.job.get("keys", ()) if one.job is not None else ())
    room = max(lines - len(drawn) - len(below) - 2, 3)
    spark = min(WINDOWS, max(columns // 3, 8))
    drawn += window_table(newest, columns, room, colour, trends or None, spark, trended)
    return [*drawn, "", *below] if below else drawn


def _job_title(one: JobState, columns: int, colour: bool) -> str:
    job = one.job
    if job is None:
        return paint(cut(f"{visible(one.name)}: {visible(one.problem or '...')}", columns), BOLD, colour)
    parts = [f"{job['name']}: {state_text(job)}, revision {job['revision']}", agents_text(job["coverage"])]
    if one.rate.now is not None:
        parts.append(f"{quantity(one.rate.now)} lines/s")
    if job["lag_seconds"] is not None and job["state"] != "stopped":
        parts.append(f"final {span(job['lag_seconds'])} behind")
    return paint(cut(" · ".join(parts), columns), BOLD, colour)


def cut_painted(text: str, columns: int, style: str, colour: bool) -> str:
    """`text`, cut and painted: colours take no columns."""
    return paint(cut(text, columns), style, colour)


def _ends(left: str, right: str, columns: int, colour: bool) -> str:
    left = cut(left, columns - len(right) - 2)
    return paint(pad(left, columns - len(right)), BOLD, colour) + paint(right, DIM, colour)


def _foot(trouble: str, columns: int, colour: bool) -> list[str]:
    if trouble:
        return [cut_painted(visible(trouble), columns, RED, colour)]
    return [paint("q quits", DIM, colour)]
