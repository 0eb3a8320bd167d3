"""Compares what the fleet publishes, window by window, with what the webservers meant. Pure.

Both come when they come: a window waits for the truth of its last second, and the truth of a window is kept for as long as
a revision of it may come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple, TypeVar

from elfstream.demo.checks import QUANTILE_ERROR, Check, figure, percentile_bounds
from elfstream.demo.webservers import EndpointTruth, Second
from elfstream.terminal import quantity

WINDOW_S = 10
"""Seconds of the sliding windows; a new one starts every second."""
HOT_PRODUCTS = 8
LOGINS_LEAST = 5
KEPT_S = 300

_W = f"window(time, '{WINDOW_S} seconds', '1 second') AS w"
HOT_SQL = f"""\
SELECT {_W}, split_part(path, '/', 3) AS product, count(*) AS views
FROM access
WHERE path LIKE '/product/%' AND status = 200
GROUP BY w, product
ORDER BY views DESC
LIMIT {HOT_PRODUCTS}"""
LOGINS_SQL = f"""\
SELECT {_W}, remote_addr AS client, count(*) AS attempts
FROM access
WHERE method = 'POST' AND path = '/login'
GROUP BY w, client
HAVING count(*) >= {LOGINS_LEAST}
ORDER BY attempts DESC"""
_ENDPOINTS = """\
SELECT {window}concat('/', split_part(path, '/', 2)) AS endpoint,
       count(*) AS requests, count_if(status >= 500) AS errors, approx_percentile(request_time, 0.99) AS p99{more}
FROM access
WHERE method IS NOT NULL AND status <> 404
GROUP BY {keys}endpoint
ORDER BY requests DESC"""
ENDPOINTS_SQL = _ENDPOINTS.format(window=f"{_W},\n       ", keys="w, ", more="")
CHANGED_SQL = _ENDPOINTS.format(
    window=f"{_W},\n       ", keys="w, ", more=",\n       max(request_time) AS slowest"
)
"""What the job of the endpoints is changed to while it runs: one more aggregate over the lines."""
ENDPOINT_TOTALS_SQL = _ENDPOINTS.format(window="", keys="", more="")
TOTALS_SQL = """\
SELECT count(*) AS requests, count(DISTINCT remote_addr) AS clients, sum(bytes) AS bytes,
       count_if(status >= 500) AS errors
FROM access"""

Key = TypeVar("Key")
Rows = Sequence[Sequence[Any]]


class Finished(NamedTuple):
    """What elfstream says at the end."""

    lines: int
    rejected: int
    late: int
    gap_bytes: int
    totals: Sequence[Any]
    endpoints: Rows
    changed_at: int
    """The second from which on windows are those of CHANGED_SQL."""


class Verdicts:
    """The windows of one job: which were due, which came, which are right."""

    def __init__(self, is_due: Callable[[Second], bool], is_right: Callable[[Second, Rows], bool]) -> None:
        self.due: set[int] = set()
        """The starts of windows with rows, by the truth."""
        self.wrong: set[int] = set()
        self.is_due, self.is_right = is_due, is_right
        self.columns: dict[int, int] = {}
        """Values in a row of each window that came with rows."""
        self._came: set[int] = set()

    def judge(self, start: int, truth: Second, rows: Rows) -> None:
        """The window that starts at `start` was published; a later edition replaces the one before."""
        self._came.add(start)
        if rows:
            self.columns[start] = len(rows[0])
        if self.is_right(truth, rows):
            self.wrong.discard(start)
        else:
            self.wrong.add(start)

    @property
    def right(self) -> int:
        """Windows with rows that came and equal the truth."""
        return len((self.due & self._came) - self.wrong)

    def check(self, what: str) -> Check:
        """The line of the final comparison."""
        is_same = self.right == len(self.due) and not self.wrong
        return Check(what, f"{len(self.due):,}", f"{self.right:,} equal", is_same)


class Referee:
    """Truth in, publications in, verdicts out."""

    def __init__(self, began: int) -> None:
        """Windows are due that start at `began` or later."""
        self.began = began
        self.hot = Verdicts(
            lambda truth: bool(truth.views),
            lambda truth, rows: [tuple(row) for row in rows] == hot_products(truth),
        )
        self.logins = Verdicts(
            lambda truth: bool(hammering(truth)),
            lambda truth, rows: [tuple(row) for row in rows] == hammering(truth),
        )
        self.endpoints = Verdicts(
            lambda truth: bool(truth.endpoints),
            lambda truth, rows: all(is_same for _, _, is_same in compared(truth, rows)),
        )
        self.total = Second(0)
        """Everything logged so far."""
        self._seconds: dict[int, Second] = {}
        self._windows: dict[int, Second] = {}
        """The truth of windows, by their start."""
        self._next: int | None = None
        """The start of the first window whose seconds are not all known."""
        self._waiting: list[tuple[Verdicts, int, Rows]] = []

    @property
    def verdicts(self) -> tuple[Verdicts, ...]:
        return self.hot, self.endpoints, self.logins

    def told(self, truth: Second) -> None:
        """The truth of a second; they come in order."""
        self._seconds[truth.second] = truth
        _add(self.total, truth)
        self.total.second = truth.second
        if self._next is None:
            self._next = truth.second - WINDOW_S + 1
        self._complete(truth.second)

    def published(self, verdicts: Verdicts, start: int, rows: Rows) -> None:
        """A final window of one of the jobs, from second `start` on: its rows without the window column."""
        truth = self._windows.get(start)
        if truth is not None:
            verdicts.judge(start, truth, rows)
        elif self._next is not None and start < self._next:
            verdicts.judge(start, Second(start), rows)  # forgotten, or nobody logged anything
        else:
            self._waiting.append((verdicts, start, rows))

    def ended(self) -> None:
        """Nothing more was logged: windows that still wait for seconds see that these are empty."""
        self._complete(self.total.second + WINDOW_S - 1)

    def _complete(self, second: int) -> None:
        """All windows that end with `second` or before are known now."""
        assert self._next is not None
        first, self._next = self._next, max(self._next, second - WINDOW_S + 2)
        # Between seconds far apart nothing was logged, so windows there are empty.
        for start in range(max(first, self._next - KEPT_S), self._next):
            truth = Second(start)
            for part in range(start, start + WINDOW_S):
                if (known := self._seconds.get(part)) is not None:
                    _add(truth, known)
            self._windows[start] = truth
            self._windows.pop(start - KEPT_S, None)
            self._seconds.pop(start - KEPT_S, None)
            for verdicts in self.verdicts:
                if start >= self.began and verdicts.is_due(truth):
                    verdicts.due.add(start)
        waiting, self._waiting = self._waiting, []
        for item in waiting:
            self.published(*item)

    def checks(self, ours: Finished) -> Iterator[Check]:
        """The final comparison, line by line."""
        truth = self.total
        yield figure("lines", truth.lines, ours.lines)
        yield figure("lines rejected (garbage)", truth.garbage, ours.rejected)
        yield figure("lines late or bytes lost", 0, ours.late + ours.gap_bytes)
        requests, clients, size, errors = ours.totals
        yield figure("requests", truth.lines - truth.garbage, requests)
        yield figure("distinct clients", truth.clients, clients)
        yield figure("bytes sent", truth.size, size or 0)
        yield figure("server errors", truth.errors, errors)
        for expected, row, is_same in compared(truth, ours.endpoints):
            name = (expected or row)[0]
            yield Check(f"{name}: requests, p99", _endpoint_text(expected), _endpoint_text(row), is_same)
        yield self.hot.check("windows of hot products, row by row")
        yield self.endpoints.check("windows of endpoints, value by value")
        yield self.logins.check("windows of hammered logins, row by row")
        yield self._change(ours.changed_at)

    def _change(self, at: int) -> Check:
        """Every window from `at` on has the further column, none before has it."""
        columns = self.endpoints.columns
        late = sum(1 for start in columns if start >= at)
        as_it_should = sum((count == 5) == (start >= at) for start, count in columns.items())
        told = f"{as_it_should:,} of {len(columns):,} windows"
        return Check(
            "the change, from its window on", f"{late:,} after it", told, as_it_should == len(columns)
        )


def _add(total: Second, part: Second) -> None:
    total.lines += part.lines
    total.garbage += part.garbage
    total.size += part.size
    total.errors += part.errors
    total.clients += part.clients
    _add_counts(total.views, part.views)
    _add_counts(total.logins, part.logins)
    for name, truth in part.endpoints.items():
        mine = total.endpoints.setdefault(name, EndpointTruth())
        mine.requests += truth.requests
        mine.errors += truth.errors
        _add_counts(mine.millis, truth.millis)


def _add_counts(total: dict[Key, int], part: Mapping[Key, int]) -> None:
    for key, count in part.items():
        total[key] = total.get(key, 0) + count


def hot_products(truth: Second) -> list[tuple[str, int]]:
    """The rows of HOT_SQL by the truth."""
    ranked = sorted(truth.views.items(), key=lambda item: (-item[1], item[0]))
    return ranked[:HOT_PRODUCTS]


def hammering(truth: Second) -> list[tuple[str, int]]:
    """The rows of LOGINS_SQL by the truth."""
    found = [(client, count) for client, count in truth.logins.items() if count >= LOGINS_LEAST]
    return sorted(found, key=lambda item: (-item[1], item[0]))


def compared(truth: Second, rows: Rows) -> list[tuple[Any, Any, bool]]:
    """(expected row, our row, whether they are equal) of ENDPOINTS_SQL or CHANGED_SQL; one is None where the other has too
    many. The p99 of the truth is a pair of bounds in seconds."""
    expected = [
        (
            name,
            one.requests,
            one.errors,
            tuple(bound / 1000 for bound in percentile_bounds(one.millis, 0.99)),
            Decimal(max(one.millis)) / 1000,
        )
        for name, one in sorted(truth.endpoints.items(), key=lambda item: (-item[1].requests, item[0]))
    ]
    pairs: list[tuple[Any, Any, bool]] = []
    for number in range(max(len(expected), len(rows))):
        want = expected[number] if number < len(expected) else None
        have = rows[number] if number < len(rows) else None
        pairs.append((want, have, want is not None and have is not None and _equal(want, have)))
    return pairs


def _equal(want: Sequence[Any], have: Sequence[Any]) -> bool:
    low, high = want[3]
    is_slowest = len(have) < 5 or have[4] == want[4]
    return tuple(want[:3]) == tuple(have[:3]) and bool(low <= have[3] <= high) and is_slowest


def _endpoint_text(row: Sequence[Any] | None) -> str:
    if row is None:
        return "none"
    p99 = row[3]
    if isinstance(p99, tuple):  # bounds of a value: the truth
        p99 = p99[1] / (1 + QUANTILE_ERROR)
    return f"{quantity(row[1])}, {p99:.3f} s"
