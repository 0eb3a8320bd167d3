"""Compares what is published, window by window, with what the webservers meant. Pure.

Both come when they come: a window waits for the truth of its last second, and the truth of a second is kept for as long
as a window with it may come.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from elfstream.demo.checks import QUANTILE_ERROR, Check, figure, percentile_bounds
from elfstream.demo.webservers import EndpointTruth, Second
from elfstream.terminal import quantity

WINDOW_S = 10
"""Seconds of the sliding windows; a new one starts every second."""
HOT_PRODUCTS = 8
KEPT_S = 300

HOT_SQL = f"""\
SELECT window(time, '{WINDOW_S} seconds', '1 second') AS w, split_part(path, '/', 3) AS product, count(*) AS views
FROM access
WHERE path LIKE '/product/%' AND status = 200
GROUP BY w, product
ORDER BY views DESC
LIMIT {HOT_PRODUCTS}"""
_ENDPOINTS = """\
SELECT {window}concat('/', split_part(path, '/', 2)) AS endpoint,
       count(*) AS requests, count_if(status >= 500) AS errors, approx_percentile(request_time, 0.99) AS p99
FROM access
WHERE method IS NOT NULL AND status <> 404
GROUP BY {keys}endpoint
ORDER BY requests DESC"""
ENDPOINTS_SQL = _ENDPOINTS.format(window=f"window(time, '{WINDOW_S} seconds', '1 second') AS w,\n       ", keys="w, ")
ENDPOINT_TOTALS_SQL = _ENDPOINTS.format(window="", keys="")
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


class Verdicts:
    """The windows of one query: which were due, which came, which were right."""

    def __init__(self) -> None:
        self.due = 0
        """Windows with rows, by the truth."""
        self.wrong: set[int] = set()
        self._came = 0
        self._due_before: int | None = None

    def expect(self, second: int) -> None:
        """Something was logged at `second`: all windows with it are due. Seconds come in order."""
        first = second - WINDOW_S + 1
        if self._due_before is not None:
            first = max(first, self._due_before)
        self.due += second + 1 - first
        self._due_before = second + 1

    def judge(self, start: int, revision: int, is_right: bool) -> None:
        """The window that starts at `start` was published; a later revision replaces the one before."""
        self._came += revision == 1
        if is_right:
            self.wrong.discard(start)
        else:
            self.wrong.add(start)

    @property
    def right(self) -> int:
        """Windows that came and equal the truth."""
        return self._came - len(self.wrong)

    def check(self, what: str) -> Check:
        """The line of the final comparison."""
        is_same = self.due == self.right and not self.wrong
        return Check(what, f"{self.due:,}", f"{self.right:,} equal", is_same)


class Referee:
    """Truth in, publications in, verdicts out."""

    def __init__(self) -> None:
        self.hot, self.endpoints = Verdicts(), Verdicts()
        self.total = Second(0)
        """Everything logged so far."""
        self._seconds: dict[int, Second] = {}
        self._waiting: list[tuple[Verdicts, int, int, Rows]] = []

    def told(self, truth: Second) -> None:
        """The truth of a second; they come in order."""
        self._seconds[truth.second] = truth
        self._seconds.pop(truth.second - KEPT_S, None)
        _add(self.total, truth)
        self.total.second = truth.second
        if truth.views:
            self.hot.expect(truth.second)
        if truth.endpoints:
            self.endpoints.expect(truth.second)
        waiting, self._waiting = self._waiting, []
        for item in waiting:
            self._judge(*item)

    def published(self, verdicts: Verdicts, start: int, revision: int, rows: Rows) -> None:
        """A final window of one of the two queries, from second `start` on: its rows without the window column."""
        self._judge(verdicts, start, revision, rows)

    def ended(self) -> None:
        """Nothing more was logged: windows that still wait for seconds see that these are empty."""
        self.total.second += WINDOW_S
        waiting, self._waiting = self._waiting, []
        for item in waiting:
            self._judge(*item)

    def _judge(self, verdicts: Verdicts, start: int, revision: int, rows: Rows) -> None:
        if self.total.second < start + WINDOW_S - 1:
            self._waiting.append((verdicts, start, revision, rows))
            return
        truth = Second(start)
        for second in range(start, start + WINDOW_S):
            if (part := self._seconds.get(second)) is not None:
                _add(truth, part)
        if verdicts is self.hot:
            verdicts.judge(start, revision, [tuple(row) for row in rows] == hot_products(truth))
        else:
            verdicts.judge(start, revision, all(is_same for _, _, is_same in compared(truth, rows)))

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


def _add(total: Second, part: Second) -> None:
    total.lines += part.lines
    total.garbage += part.garbage
    total.size += part.size
    total.errors += part.errors
    total.clients += part.clients
    _add_counts(total.views, part.views)
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


def compared(truth: Second, rows: Rows) -> list[tuple[Any, Any, bool]]:
    """(expected row, our row, whether they are equal) of ENDPOINTS_SQL; one is None where the other has too many. The
    p99 of the truth is a pair of bounds in seconds."""
    expected = [
        (name, one.requests, one.errors, tuple(bound / 1000 for bound in percentile_bounds(one.millis, 0.99)))
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
    return tuple(want[:3]) == tuple(have[:3]) and bool(low <= have[3] <= high)


def _endpoint_text(row: Sequence[Any] | None) -> str:
    if row is None:
        return "none"
    p99 = row[3]
    if isinstance(p99, tuple):  # bounds of a value: the truth
        p99 = p99[1] / (1 + QUANTILE_ERROR)
    return f"{quantity(row[1])}, {p99:.3f} s"
