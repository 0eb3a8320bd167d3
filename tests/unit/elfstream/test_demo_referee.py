"""The referee of the live demonstration must be able to say no."""

from __future__ import annotations

import msgspec
import pytest

from elfstream.demo.referee import WINDOW_S, Finished, Referee, compared, hot_products
from elfstream.demo.webservers import EndpointTruth, Second

START = 1_700_000_000


def second(at: int, views: int = 3) -> Second:
    endpoints = {"/product": EndpointTruth(4, 1, {10: 3, 900: 1}), "/": EndpointTruth(2, 0, {5: 2})}
    logins = {"203.0.113.9": 6, "203.0.113.1": 1}
    return Second(START + at, 7, 1, 100, 1, 2, {"desk": views, "lamp": 1}, endpoints, logins)


def rows_of(*seconds: Second) -> tuple[list[tuple[str, int]], list[tuple[object, ...]]]:
    """Right rows of both queries."""
    referee = Referee(0)
    for one in seconds:
        referee.told(msgspec.convert(msgspec.to_builtins(one), Second))
    endpoints = [(*row[:3], sum(row[3]) / 2) for row, _, _ in compared(referee.total, [])]
    return hot_products(referee.total), endpoints


def judged(referee: Referee) -> tuple[int, int]:
    return referee.hot.right, referee.endpoints.right


def test_right_windows_are_right_whenever_they_come() -> None:
    referee = Referee(0)
    hot, endpoints = rows_of(second(0), second(1))
    referee.told(second(0))
    referee.published(referee.hot, START, hot)  # the truth of the window's other seconds is not there yet
    assert judged(referee) == (0, 0)
    referee.told(second(1))
    for at in range(2, WINDOW_S):
        referee.told(Second(START + at))
    assert judged(referee) == (1, 0)
    referee.published(referee.endpoints, START, endpoints)
    assert judged(referee) == (1, 1)


@pytest.mark.parametrize("wrong", ["count", "missing", "order", "errors", "p99"])
def test_wrong_windows_are_wrong_until_revised(wrong: str) -> None:
    referee = Referee(0)
    for at in range(WINDOW_S):
        referee.told(second(at))
    right = rows_of(*map(second, range(WINDOW_S)))
    hot, endpoints = list(right[0]), list(right[1])
    if wrong == "count":
        hot[0] = (hot[0][0], hot[0][1] + 1)
    elif wrong == "missing":
        hot.pop()
    elif wrong == "order":
        endpoints.reverse()
    elif wrong == "errors":
        endpoints[0] = (*endpoints[0][:2], 0, endpoints[0][3])
    else:
        endpoints[0] = (*endpoints[0][:3], 0.95)
    verdicts, mine, true = (
        (referee.hot, hot, right[0]) if wrong in ("count", "missing") else (referee.endpoints, endpoints, right[1])
    )
    referee.published(verdicts, START, mine)
    assert (verdicts.right, verdicts.wrong) == (0, {START})
    referee.published(verdicts, START, true)
    assert (verdicts.right, verdicts.wrong) == (1, set())


def test_windows_that_never_came_are_missed() -> None:
    referee = Referee(0)
    referee.told(second(0))
    referee.told(second(1))
    referee.told(second(30))
    referee.ended()
    assert len(referee.hot.due) == (WINDOW_S + 1) + WINDOW_S
    hot, _ = rows_of(second(0))
    referee.published(referee.hot, START - WINDOW_S + 1, hot)
    assert referee.hot.check("w").ours == "1 equal"
    assert not referee.hot.check("w").is_same


def test_the_final_comparison_looks_at_every_number() -> None:
    referee = Referee(0)
    referee.told(second(0))
    _, endpoints = rows_of(second(0))
    right = Finished(7, 1, 0, 0, (6, 2, 100, 1), endpoints, START)
    assert {check.what for check in referee.checks(right) if not check.is_same} == {
        "windows of hot products, row by row", "windows of endpoints, value by value",
        "windows of hammered logins, row by row",
    }  # fmt: skip
    wrongs = [
        right._replace(lines=8), right._replace(rejected=0), right._replace(late=1), right._replace(gap_bytes=1),
        *(right._replace(totals=(*right.totals[:at], 99, *right.totals[at + 1 :])) for at in range(4)),
        right._replace(endpoints=endpoints[:1]), right._replace(endpoints=[*endpoints, endpoints[0]]),
        right._replace(endpoints=[("/product", 5, *endpoints[0][2:]), endpoints[1]]),
    ]  # fmt: skip
    for wrong in wrongs:
        assert sum(not check.is_same for check in referee.checks(wrong)) == 4, wrong


def test_windows_before_the_job_began_are_not_due() -> None:
    referee = Referee(START - 2)
    referee.told(second(0))
    referee.ended()
    assert referee.hot.due == {START - 2, START - 1, START}


def test_clients_that_hammer_the_login_page() -> None:
    referee = Referee(START)
    referee.told(second(0))
    referee.ended()
    referee.published(referee.logins, START, [("203.0.113.9", 5)])
    assert referee.logins.wrong == {START}
    referee.published(referee.logins, START, [("203.0.113.9", 6)])
    assert referee.logins.check("w").is_same


def test_the_change_is_looked_for_in_every_window() -> None:
    referee = Referee(START)
    for at in range(2):
        referee.told(second(at))
    referee.ended()
    plain = [(*row[:3], sum(row[3]) / 2) for row, _, _ in compared(second(0), [])]
    changed = [(*one, row[4]) for one, (row, _, _) in zip(plain, compared(second(0), []), strict=True)]
    finished = Finished(0, 0, 0, 0, (0, 0, 0, 0), [], START + 1)
    referee.published(referee.endpoints, START, plain)
    referee.published(referee.endpoints, START + 1, changed)
    assert list(referee.checks(finished))[-1].is_same
    assert not list(referee.checks(finished._replace(changed_at=START)))[-1].is_same
    wrong = [(*one[:4], one[4] + 1) for one in changed]
    referee.published(referee.endpoints, START + 1, wrong)
    assert START + 1 in referee.endpoints.wrong
