"""What `elfstream top` and `elfstream job watch` draw: all jobs with their rates, or one job's newest window. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, NamedTuple

from elfstream.remote_results import WindowResult
from elfstream.screen import sparkline
from elfstream.terminal import BOLD, DIM, GREEN, RED, YELLOW, cells, cut, cut_middle, pad, paint, visible
from elfstream.views.jobs import agents_text, state_text
from elfstream.views.windows import window_parts, window_table
from elfstream.views.words import count, rate, span
from job.types import Kind

Document = Mapping[str, Any]

SAMPLES = 60
"""Of a rate, kept."""
ROOMY_LINES = 16
"""Of a screen that has room for titles of two lines."""
BARS_MIN = 6
"""Fewer show nothing."""
WINDOWS = 30
"""Of a job, kept for its trends."""


class LineRates:
    """Lines a second of a job, as its master told them at each look."""

    def __init__(self) -> None:
        self.history: deque[float] = deque(maxlen=SAMPLES)
        """Oldest first."""
        self.now: float | None = None
        """None: the master does not know, or the job reads nothing."""
        self._created = ""

    def note(self, job: Document) -> None:
        """Takes the rate of a document; another job of the same name begins anew."""
        if job["created"] != self._created:
            self._created = job["created"]
            self.history.clear()
        self.now = (job["rates"] or {}).get("lines_per_second")
        if self.now is not None:
            self.history.append(self.now)


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
    rates: LineRates
    problem: str = ""


class FleetState(NamedTuple):
    """`jobs_all` counts also those that are not asked about because they would not fit."""

    url: str
    nodes: Sequence[Document]
    jobs: Sequence[JobState]
    jobs_all: int
    clock: str
    trouble: str = ""


_GAP = 2
_WIDTHS = {"state": 9, "rev": 4, "agents": 8, "lines/s": 9, "behind": 8, "results": 11}
"""Columns of a fleet's picture, beside name and bars."""
_GOING = (("results", 28), ("rev", 28), ("agents", 16), ("lines/s", 12))
"""Those that are left out on narrow screens, the first first: for names of fewer columns than this, or that look alike."""


def jobs_room(lines: int) -> int:
    """Jobs that fit a screen of so many lines."""
    return max(lines - 7, 1)


def fleet_picture(state: FleetState, columns: int, lines: int, colour: bool) -> list[str]:
    """All jobs: state, agents, rate with bars, lag, results."""
    kinds = [node["kind"] for node in state.nodes if not node["left"]]
    nodes = ", ".join(count(kinds.count(kind), kind) for kind in ("agent", "worker"))
    facts = f"{nodes} · {count(state.jobs_all, 'job')}"
    head = f"elfstream at {state.url} · {facts}"
    head = _ends(head if cells(head) <= columns - len(state.clock) - _GAP else facts, state.clock, columns, colour)
    jobs = state.jobs[: jobs_room(lines)]
    layout = _layout([visible(one.name) for one in jobs], columns, any(len(one.rates.history) > 1 for one in jobs))
    titles = {name: pad(name, size, right=name != "state") for name, size in layout.facts.items()}
    title = _row(pad("job", layout.name), titles, " " * layout.bars, layout)
    drawn = [head, "", paint(cut(title, columns), BOLD, colour)]
    drawn += [_job_row(one, layout, columns, colour) for one in jobs]
    if not state.jobs and not state.trouble:
        drawn.append("no job yet; 'elfstream job submit' makes one")
    hidden = state.jobs_all - len(jobs)
    if hidden > 0:
        drawn.append(paint(f"… and {count(hidden, 'job')} more", DIM, colour))
    return [*drawn, "", *_foot(state.trouble, columns, colour)]


class _Layout(NamedTuple):
    """How wide what is, in columns."""

    name: int
    facts: dict[str, int]
    bars: int


def _layout(names: Sequence[str], columns: int, has_bars: bool) -> _Layout:
    """Facts go one after the other while names would be cut short, or so that two look alike."""
    widest = max(map(cells, names), default=0)
    least, facts = _telling(names, widest), dict(_WIDTHS)
    for going, comfort in _GOING:
        if _room(facts, columns) >= max(min(widest, comfort), least):
            break
        del facts[going]
    name = max(min(widest, _room(facts, columns)), len("job"))
    bars = min(_room(facts, columns) - name - _GAP, SAMPLES) if has_bars and "lines/s" in facts else 0
    return _Layout(name, facts, bars if bars >= BARS_MIN else 0)


def _room(facts: Mapping[str, int], columns: int) -> int:
    """What is left for a name."""
    return columns - _GAP - sum(facts.values())


def _telling(names: Sequence[str], widest: int) -> int:
    """The least width at which names that are cut in the middle are still told apart. O(names * widest)."""
    return next(
        (size for size in range(1, widest) if len({cut_middle(one, size) for one in names}) == len(set(names))), widest
    )


def _row(name: str, facts: Mapping[str, str], bars: str, layout: _Layout) -> str:
    shown = [text + (" " * _GAP + bars if fact == "lines/s" and layout.bars else "") for fact, text in facts.items()]
    return f"{name}{' ' * _GAP}{''.join(shown)}"


def _job_row(one: JobState, layout: _Layout, columns: int, colour: bool) -> str:
    job = one.job
    name = pad(cut_middle(visible(one.name), layout.name), layout.name)
    if job is None:
        problem = cut(visible(one.problem or "..."), columns - layout.name - _GAP)
        return f"{name}{' ' * _GAP}{paint(problem, RED if one.problem else DIM, colour)}"
    coverage = job["coverage"]
    missing, agents = len(coverage["missing"]) + len(job.get("waits_for", ())), coverage["agents"]
    is_on = job["state"] != "stopped"
    texts = {
        "state": job["state"],
        "rev": str(job["revision"]),
        "agents": f"{agents - missing}/{agents}",
        "lines/s": rate(one.rates.now) if is_on else "-",
        "behind": span(job["lag_seconds"]) if is_on else "-",
        "results": f"{job['results']:,}",
    }
    passing = job["state"] in ("starting", "changing", "draining")
    hidden = missing and "agents" not in layout.facts  # then the state has to tell it
    styles = {
        "state": RED if job["problem"] else YELLOW if passing or hidden else "",
        "agents": YELLOW if missing else "",
    }
    facts = {
        fact: paint(pad(texts[fact], size, right=fact != "state"), style, colour and bool(style))
        for fact, size in layout.facts.items()
        for style in (styles.get(fact, ""),)
    }
    bars = paint(sparkline(list(one.rates.history), layout.bars), GREEN, colour)
    row = _row(name, facts, bars, layout)
    return row if colour else cut(row, columns)


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
    drawn = _job_title(one, columns, lines, colour)
    newest = windows.newest
    below = _foot(trouble, columns, colour) if foot or trouble else []
    if newest is None:
        return [*drawn, "", "no result yet", "", *below]
    style = YELLOW if newest.coverage.missing else ""
    drawn += [*(paint(line, style, colour) for line in _filled(window_parts(newest), columns, lines)), ""]
    trended, trends = windows.trends(one.job.get("keys", ()) if one.job is not None else ())
    room = max(lines - len(drawn) - len(below) - 2, 3)
    spark = min(WINDOWS, max(columns // 3, 8))
    drawn += window_table(newest, columns, room, colour, trends or None, spark, trended)
    return [*drawn, "", *below] if below else drawn


def _job_title(one: JobState, columns: int, lines: int, colour: bool) -> list[str]:
    job = one.job
    if job is None:
        return [paint(cut(f"{visible(one.name)}: {visible(one.problem or '...')}", columns), BOLD, colour)]
    parts = [f"{job['name']}: {state_text(job)}, revision {job['revision']}", agents_text(job)]
    if one.rates.now is not None and job["state"] != "stopped":
        parts.append(f"{rate(one.rates.now)} lines/s")
    if job["lag_seconds"] is not None and job["state"] != "stopped":
        parts.append(f"final {span(job['lag_seconds'])} behind")
    return [paint(line, BOLD, colour) for line in _filled(parts, columns, lines)]


def _filled(parts: Sequence[str], columns: int, lines: int) -> list[str]:
    """Parts one after the other, over a second line if they need it and the screen has so many `lines`."""
    first = next((n for n in range(len(parts), 1, -1) if cells(_joined(parts[:n])) <= columns), 1)
    if first == len(parts) or lines < ROOMY_LINES:
        return [cut(_joined(parts), columns)]
    return [cut(_joined(parts[:first]), columns), cut(_joined(parts[first:]), columns)]


def _joined(parts: Sequence[str]) -> str:
    return " · ".join(parts)


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
