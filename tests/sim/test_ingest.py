"""Windows that were computed elsewhere become results of a job, over whole nodes: each (window, edition) once, in the order
of the log, the same on every member, through crashes, takeovers and requests that come again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
import pytest
import zstandard

from job.derived import Derived
from job.plan import Field, Plan
from job.types import BIGINT, STRING
from master.given_windows import given_windows
from master.job_documents import time_text
from master.job_views import columns_document
from master.requests import (
    BACKFILL,
    ChangeJob,
    DescribeJob,
    IngestView,
    IngestWindows,
    JobView,
    Refusal,
    RemoveJob,
    ResultRecord,
    StopJob,
    SubmitJob,
)
from tests.plans import plan
from tests.sim.node_fleet import KEY, PLAN, SECOND_US, SETTINGS, SPEC, WINDOW_US, NodeFleet, Rows, rows_of
from tests.sim.test_jobs import change, crash_leader, drained, has, join

SLIDING = plan("window(time, '4 seconds', '2 seconds')")
DERIVED = Derived((Field("path", STRING), Field("n", BIGINT)), WINDOW_US, "a join of others")
DERIVED_SPEC = msgspec.structs.replace(SPEC, sql="", derived=DERIVED)
DERIVED_COLUMNS = [{"name": "path", "type": "STRING"}, {"name": "n", "type": "BIGINT"}]


def explained(seed: int, run: Callable[[NodeFleet], None]) -> None:
    fleet = NodeFleet(seed)
    fleet.explained(lambda: run(fleet))


def document(
    columns: Any, start_us: int | None, rows: Rows, revision: int = 1, **other: Any
) -> dict[str, Any]:
    window = start_us and {"start": time_text(start_us), "end": time_text(start_us + WINDOW_US)}
    return {
        "window": window, "revision": revision, "columns": columns, "rows": rows, "lines": len(rows), **other,
    }  # fmt: skip


def request(*documents: Mapping[str, Any]) -> IngestWindows:
    return IngestWindows(given_windows(b"\n".join(map(msgspec.json.encode, documents))))


def of_plan(start_us: int, rows: Rows, revision: int = 1, wanted: Plan = PLAN) -> dict[str, Any]:
    return document(columns_document(wanted), start_us, rows, revision)


def note(fleet: NodeFleet, windows: Iterable[Mapping[str, Any]]) -> None:
    """What shall be at the end."""
    for one in request(*windows).windows:
        fleet.given[one.start_us, one.end_us] = msgspec.json.decode(zstandard.decompress(one.packed))


def boundary(fleet: NodeFleet) -> int:
    view = fleet.asked(DescribeJob())
    assert isinstance(view, JobView)
    assert view.boundary_us is not None
    return view.boundary_us


def backfilled(fleet: NodeFleet, name: str) -> list[ResultRecord]:
    """In the order of the log."""
    return [one for one in fleet.reader(name).since(KEY, 0, 10_000) if one.origin == BACKFILL]


def put(fleet: NodeFleet, *windows: Mapping[str, Any]) -> tuple[int, int, int]:
    answer = fleet.asked(request(*windows))
    assert isinstance(answer, IngestView), answer
    note(fleet, windows)
    return answer.stored, answer.same, answer.replaced


def test_windows_before_the_boundary_are_results_beside_the_live_ones() -> None:
    def run(fleet: NodeFleet) -> None:
        fleet.submit()
        fleet.run(6.0)
        first = boundary(fleet)
        old = [of_plan(first - n * WINDOW_US, [["/", n, n, 1]]) for n in range(1, 200)]
        assert put(fleet, *old) == (199, 0, 0)
        leader = fleet.leader()
        assert leader is not None
        assert len(backfilled(fleet, leader)) == 199, "whoever has the answer sees them"
        assert put(fleet, *old[:3]) == (0, 3, 0)
        assert put(fleet, old[0], of_plan(first - WINDOW_US * 2, [["/", 7, 7, 1]])) == (0, 1, 1)
        assert put(fleet, of_plan(first - WINDOW_US * 2, [])) == (0, 0, 1)
        drained(fleet)
        records = backfilled(fleet, fleet.members()[0])
        assert [one.start_us for one in records[:199]] == [first - n * WINDOW_US for n in range(1, 200)]
        assert [(one.edition, one.rows) for one in records[199:]] == [(2, 1), (3, 0)]
        assert {(one.status, one.plan, one.lines) for one in records[:199]} == {("final", 1, 1)}
        page = fleet.reader(leader).between(
            KEY, first - WINDOW_US, first + WINDOW_US, status=None, editions=False, after=None, limit=9
        )
        assert [(one.start_us, one.origin) for one in page] == [
            (first - WINDOW_US, "backfill"),
            (first, "live"),
        ]

    explained(41, run)


def test_what_cannot_be_a_window_of_the_job_is_refused_with_line_and_field() -> None:
    def run(fleet: NodeFleet) -> None:
        fleet.submit()
        first = boundary(fleet)
        good = of_plan(first - WINDOW_US, [])
        early = {"start": time_text(first - WINDOW_US - SECOND_US), "end": time_text(first - SECOND_US)}
        short = {"start": time_text(first - WINDOW_US * 2), "end": time_text(first - WINDOW_US * 2 + 1)}
        for wrong, field in (
            (of_plan(first, []), "window.start"),
            ({**good, "window": early}, "window.start"),
            ({**good, "window": short}, "window.end"),
            ({**good, "window": None}, "window"),
            ({**good, "window": short, "revision": 2}, "revision"),
            (document(DERIVED_COLUMNS, first - 2 * WINDOW_US, []), "columns"),
        ):
            refused = fleet.asked(request(good, wrong))
            assert isinstance(refused, Refusal), wrong
            assert (refused.kind, refused.line, refused.field) == ("invalid", 2, field)
        assert not backfilled(fleet, fleet.members()[0]), "nothing of such a request is taken"

    explained(42, run)


def test_once_a_window_was_given_no_plan_reaches_before_the_boundary() -> None:
    def run(fleet: NodeFleet) -> None:
        fleet.submit()
        first = boundary(fleet)
        back = change(fleet, "sliding", SLIDING)
        put(fleet, of_plan(first - WINDOW_US, []))
        refused = fleet.asked(back._replace(start_us=first - WINDOW_US))
        assert isinstance(refused, Refusal)
        assert "before the horizon" in refused.detail
        drained(fleet)

    explained(43, run)


def test_a_window_of_another_revision_has_its_columns_and_may_reach_over_the_boundary() -> None:
    def run(fleet: NodeFleet) -> None:
        fleet.submit()
        first = boundary(fleet)
        fleet.run(3.0)
        fleet.asked(change(fleet, "sliding", SLIDING))
        at = first - SECOND_US * 2
        assert put(fleet, of_plan(at, [["/x", 1, 2, 3]], 2, SLIDING)) == (1, 0, 0)
        refused = fleet.asked(request(of_plan(at, [["/x", 1, 2, 3]], 1)))
        assert isinstance(refused, Refusal)
        drained(fleet)

    explained(44, run)


class Sender:
    """Gives windows, one request after the other, each again and again until it is answered."""

    def __init__(
        self, fleet: NodeFleet, first_us: int, made: Callable[[int, Rows], dict[str, Any]], until_s: float
    ) -> None:
        self.fleet, self.first_us, self.made, self.until_s = fleet, first_us, made, until_s
        self.answers: list[Any] = []
        self.under_way = False
        self.send()

    def send(self) -> None:
        fleet, rng = self.fleet, self.fleet.rng
        if fleet.world.now >= self.until_s:
            return
        windows = [
            self.made(self.first_us - n * WINDOW_US, [["/", rng.randrange(3), n, 1]][: rng.randrange(3)])
            for n in rng.sample(range(1, 60), rng.randrange(1, 30))
        ]
        self.under_way = True
        self.ask(windows)

    def ask(self, windows: list[dict[str, Any]]) -> None:
        self.fleet.ask(request(*windows), lambda body: self.told(body, windows))

    def told(self, body: Any, windows: list[dict[str, Any]]) -> None:
        if isinstance(body, Refusal) and body.kind == "unknown":
            # The closest node has just come: where gossip knows of the job the API says so, and is asked again.
            self.fleet.world.after(0.1, lambda: self.ask(windows))
            return
        self.answers.append(body)
        self.under_way = False
        if isinstance(body, IngestView):
            note(self.fleet, windows)
        self.fleet.world.after(self.fleet.rng.random() * 0.5, self.send)


def sent_all(fleet: NodeFleet, sender: Sender) -> None:
    fleet.world.run(fleet.world.now + 60.0, lambda: not sender.under_way)
    assert not sender.under_way
    assert all(isinstance(one, IngestView) for one in sender.answers), sender.answers
    assert len(sender.answers) > 5


@pytest.mark.parametrize("seed", [*range(50, 57), 1015])  # 1015: members go before results are copied
def test_windows_under_faults(seed: int) -> None:
    """While nodes crash, stop and lose messages, masters too; an agent joins, the plan changes, logs are shortened."""

    def run(fleet: NodeFleet) -> None:
        fleet.submit()
        world, begun = fleet.world, fleet.begun_s
        sender = Sender(fleet, boundary(fleet), of_plan, begun + 14.0)
        for _ in range(5):
            world.at(begun + 1.0 + fleet.rng.random() * 10.0, fleet.fault)
        for at in (2.0, 6.0, 10.0):
            world.at(begun + at + fleet.rng.random() * 2, lambda: crash_leader(fleet))
        world.at(begun + 5.0, lambda: fleet.ask(change(fleet, "sliding", SLIDING)))
        world.at(begun + 8.0, lambda: join(fleet, "a9"))
        fleet.settle()
        sent_all(fleet, sender)
        drained(fleet)

    explained(seed, run)


def test_a_new_member_gets_the_given_windows_too() -> None:
    def run(fleet: NodeFleet) -> None:
        fleet.submit()
        first = boundary(fleet)
        put(fleet, *(of_plan(first - n * WINDOW_US, [["/" * n, n, n, 1]]) for n in range(1, 60)))
        fleet.run(8.0)
        gone = next(name for name in fleet.members() if name != fleet.leader())
        fleet.world.crash(fleet.world.processes[gone])
        for store in ("groups", "results"):
            fleet.world.processes[gone].disks[store].durable.clear()  # type: ignore[union-attr]
        fleet.world.run(fleet.world.now + 8.0)
        assert gone not in fleet.members()
        drained(fleet)
        assert {len(backfilled(fleet, name)) for name in fleet.members()} == {59}

    explained(45, run)


# derived jobs


def derived(fleet: NodeFleet) -> JobView:
    fleet.world.run(60.0, fleet._is_whole)
    view = fleet.asked(SubmitJob(DERIVED_SPEC, None))
    assert isinstance(view, JobView), view
    fleet.begun_s = fleet.world.now
    return view


def test_a_derived_job_has_a_master_and_takes_windows_at_any_time() -> None:
    def run(fleet: NodeFleet) -> None:
        view = derived(fleet)
        assert (view.state, view.revision, view.derived, view.boundary_us) == ("running", 1, DERIVED, None)
        assert view.revisions[0].plan is None
        again = fleet.asked(SubmitJob(DERIVED_SPEC, None))
        assert isinstance(again, JobView)
        refused = fleet.asked(SubmitJob(SPEC, PLAN))
        assert isinstance(refused, Refusal)
        assert refused.kind == "exists"
        at = fleet.first_us = 1_764_360_000 * SECOND_US
        windows = [document(DERIVED_COLUMNS, at + n, [["/", n]]) for n in (3, 1, 2)]
        assert put(fleet, *windows) == (3, 0, 0)
        assert [one.start_us for one in backfilled(fleet, fleet.members()[0])] == [at + 3, at + 1, at + 2]
        settings = msgspec.structs.replace(SETTINGS, retain_us=3600 * SECOND_US)
        changed = fleet.asked(ChangeJob(msgspec.structs.replace(DERIVED_SPEC, settings=settings), None, 1))
        assert isinstance(changed, JobView)
        assert (changed.revision, changed.revisions[-1].settings["retain"]) == (2, "1h")
        other = msgspec.structs.replace(DERIVED_SPEC, derived=msgspec.structs.replace(DERIVED, size_us=1))
        for spec, wanted in ((other, None), (SPEC, PLAN)):
            refused = fleet.asked(ChangeJob(spec, wanted, 0))
            assert isinstance(refused, Refusal)
            assert (refused.kind, refused.field) == ("invalid", "derived")
        assert put(fleet, document(DERIVED_COLUMNS, at, [], 2)) == (1, 0, 0)
        fleet.world.run(fleet.world.now + 60.0)  # it is not idle
        stopped = fleet.asked(StopJob(drain=True))
        assert isinstance(stopped, JobView)
        fleet.world.run(fleet.world.now + 2.0)
        refused = fleet.asked(request(document(DERIVED_COLUMNS, at, [])))
        assert isinstance(refused, Refusal)
        assert (refused.kind, refused.field) == ("invalid", "state")
        fleet.until_right(20.0)

    explained(46, run)


def test_a_derived_job_without_windows_has_one_that_is_replaced() -> None:
    def run(fleet: NodeFleet) -> None:
        fleet.world.run(60.0, fleet._is_whole)
        endless = msgspec.structs.replace(DERIVED, size_us=0)
        fleet.asked(SubmitJob(msgspec.structs.replace(DERIVED_SPEC, derived=endless), None))
        for rows in ([["/", 1]], [["/", 1]], [["/", 2]]):
            put(fleet, document(DERIVED_COLUMNS, None, rows))
        fleet.until_right(20.0)
        assert [(one.edition, rows_of(one)) for one in backfilled(fleet, fleet.members()[0])] == [
            (1, [["/", 1]]),
            (2, [["/", 2]]),
        ]

    explained(47, run)


@pytest.mark.parametrize("seed", range(60, 64))
def test_a_derived_job_under_faults(seed: int) -> None:
    def run(fleet: NodeFleet) -> None:
        derived(fleet)
        world, begun = fleet.world, fleet.begun_s
        at = 1_764_360_000 * SECOND_US
        sender = Sender(
            fleet,
            at,
            lambda start, rows: document(DERIVED_COLUMNS, start, [row[:2] for row in rows]),
            begun + 14.0,
        )
        for _ in range(5):
            world.at(begun + 1.0 + fleet.rng.random() * 10.0, fleet.fault)
        world.at(begun + 6.0, lambda: crash_leader(fleet))
        fleet.settle()
        sent_all(fleet, sender)
        fleet.until_right(40.0)

    explained(seed, run)


def test_a_derived_job_is_removed_like_others() -> None:
    def run(fleet: NodeFleet) -> None:
        derived(fleet)
        put(fleet, document(DERIVED_COLUMNS, 1_764_360_000 * SECOND_US, [["/", 1]]))
        assert isinstance(fleet.asked(StopJob()), JobView)
        assert isinstance(fleet.asked(RemoveJob()), JobView)
        fleet.world.run(fleet.world.now + 20.0, lambda: not any(has(fleet, name) for name in fleet.here()))
        assert not any(has(fleet, name) for name in fleet.here())

    explained(48, run)
