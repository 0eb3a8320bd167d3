"""The life of jobs over whole nodes: submitted, changed, stopped, removed; results read back on any member."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from job.plan import Plan
from master.requests import (
    ChangeJob,
    DescribeJob,
    DescribeNode,
    DescribeVertex,
    ForgetAgent,
    JobView,
    NodeView,
    Refusal,
    RemoveJob,
    StopJob,
    SubmitJob,
    VertexView,
)
from tests.plans import plan
from tests.sim.node_fleet import KEY, PLAN, SECOND_US, SETTINGS, SPEC, WRITE_S, NodeFleet

BY_STATUS = plan("window(time, '4 seconds')", "status")
HAVING = plan("window(time, '4 seconds')", having="count(*) > 3")
SLIDING = plan("window(time, '4 seconds', '2 seconds')")
ENDLESS = plan("")


def change(fleet: NodeFleet, sql: str, wanted: Plan, expected: int = 0, **settings: int) -> ChangeJob:
    fleet.plans[sql] = wanted
    changed = msgspec.structs.replace(SETTINGS, **settings)
    return ChangeJob(msgspec.structs.replace(SPEC, sql=sql, settings=changed), wanted, expected)


def explained(seed: int, run: Callable[[NodeFleet], None], agents: int = 4) -> NodeFleet:
    fleet = NodeFleet(seed, agents)
    fleet.explained(lambda: run(fleet))
    return fleet


def drained(fleet: NodeFleet) -> None:
    """Everything is final, on every member, and as one query over the lines answers it."""
    fleet.settle()
    fleet.run(WRITE_S + 10.0)
    fleet.asked(StopJob(drain=True))
    fleet.until_right(40.0)


def test_submitting_once_more_is_no_error_and_another_job_of_that_name_is() -> None:
    def run(fleet: NodeFleet) -> None:
        fleet.submit()
        again = fleet.asked(SubmitJob(SPEC, PLAN))
        assert isinstance(again, JobView)
        assert (again.revision, again.state, len(again.revisions)) == (1, "running", 1)
        other = msgspec.structs.replace(SPEC, sql="other")
        refused = fleet.asked(SubmitJob(other, BY_STATUS))
        assert isinstance(refused, Refusal)
        assert refused.kind == "exists"

    explained(1, run)


def test_a_change_names_the_revision_that_it_replaces() -> None:
    def run(fleet: NodeFleet) -> None:
        fleet.submit()
        fleet.run(3.0)
        first = fleet.asked(change(fleet, "by status", BY_STATUS, expected=1))
        assert isinstance(first, JobView)
        assert [one.sql for one in first.revisions] == ["first", "by status"]
        stale = fleet.asked(change(fleet, "sliding", SLIDING, expected=1))
        assert isinstance(stale, Refusal)
        assert (stale.kind, stale.detail) == ("stale", "revision 2 is the current one, not 1")
        same = fleet.asked(change(fleet, "by status", BY_STATUS))
        assert isinstance(same, JobView)
        assert same.revision == 2
        drained(fleet)

    explained(2, run)


def test_two_changes_at_once_with_the_same_expectation_are_one_change_and_one_refusal() -> None:
    def run(fleet: NodeFleet) -> None:
        fleet.submit()
        fleet.run(3.0)
        leader = fleet.leader()
        assert leader is not None
        answers: list[object] = []
        fleet.at(leader, KEY, change(fleet, "by status", BY_STATUS, expected=1), answers.append)
        fleet.at(leader, KEY, change(fleet, "sliding", SLIDING, expected=1), answers.append)
        fleet.world.run(fleet.world.now + 5.0, lambda: len(answers) == 2)
        kinds = sorted(one.kind if isinstance(one, Refusal) else "" for one in answers)  # type: ignore[attr-defined]
        assert kinds == ["", "stale"]

    explained(3, run)


def test_settings_alone_can_change_and_come_into_force() -> None:
    def run(fleet: NodeFleet) -> None:
        fleet.submit()
        fleet.run(3.0)
        view = fleet.asked(change(fleet, "first", PLAN, emit_us=SECOND_US // 5, deadline_us=SECOND_US))
        assert isinstance(view, JobView)
        assert (view.revision, view.revisions[-1].settings["emit"]) == (2, "200ms")
        fleet.world.run(fleet.world.now + 2.0)
        core = fleet.core("a0")
        assert core is not None
        assert core.agent is not None
        assert core.agent.jobs[KEY].emit_s == 0.2
        drained(fleet)

    explained(4, run)


def test_what_cannot_change_is_refused_with_its_field() -> None:
    def run(fleet: NodeFleet) -> None:
        fleet.submit()
        elsewhere = msgspec.structs.replace(PLAN, source="mail")
        refused = fleet.asked(change(fleet, "mail", elsewhere))
        assert isinstance(refused, Refusal)
        assert (refused.kind, refused.field) == ("invalid", "sql")
        refused = fleet.asked(change(fleet, "endless", ENDLESS))
        assert isinstance(refused, Refusal)
        assert refused.kind == "invalid"
        refused = fleet.asked(ForgetAgent("nobody"))
        assert isinstance(refused, Refusal)
        assert (refused.kind, refused.field) == ("unknown", "agent")

    explained(5, run)


@pytest.mark.parametrize("seed", range(20, 26))
def test_changes_under_faults(seed: int) -> None:
    """Two in a row, one in the past, one of the result phase, while nodes crash, among them masters; an agent joins."""

    def run(fleet: NodeFleet) -> None:
        fleet.submit()
        world, begun = fleet.world, fleet.begun_s
        for _ in range(5):
            world.at(begun + 1.0 + fleet.rng.random() * 10.0, fleet.fault)
        world.at(begun + 3.0, lambda: fleet.ask(change(fleet, "by status", BY_STATUS)))
        world.at(begun + 3.1, lambda: fleet.ask(change(fleet, "sliding", SLIDING)))
        world.at(begun + 6.0, lambda: crash_leader(fleet))
        world.at(begun + 6.05, lambda: fleet.ask(change(fleet, "having", HAVING)))
        world.at(begun + 8.0, lambda: join(fleet, "a9"))
        drained(fleet)
        assert not [one for one in fleet.answers if isinstance(one, Refusal) and one.kind != "invalid"]

    explained(seed, run)


def crash_leader(fleet: NodeFleet) -> None:
    leader = fleet.leader()
    if leader is not None:
        process = fleet.world.processes[leader]
        fleet.world.crash(process)
        fleet.world.after(2.0, lambda: fleet.world.boot(process) if process.core is None else None)


def join(fleet: NodeFleet, name: str) -> None:
    fleet.spawn(name)
    fleet.write(name)


def test_a_plan_that_an_agent_cannot_run_goes_back() -> None:
    def run(fleet: NodeFleet) -> None:
        fleet.machine("a1").unfit = BY_STATUS
        fleet.submit()
        fleet.run(3.0)
        fleet.asked(change(fleet, "by status", BY_STATUS))
        fleet.world.run(fleet.world.now + 6.0)
        view = fleet.asked(DescribeJob())
        assert isinstance(view, JobView)
        assert [(one.sql, one.state) for one in view.revisions] == [
            ("first", "open"),
            ("by status", "failed"),
            ("first", "open"),
        ]
        assert view.revisions[1].problem == "a1: no such field"
        drained(fleet)

    explained(7, run)


def test_a_removed_job_leaves_nothing_and_its_name_may_be_used_again() -> None:
    def run(fleet: NodeFleet) -> None:
        fleet.submit()
        fleet.run(8.0)
        away = next(name for name in fleet.members() if name != fleet.leader())
        others = set(fleet.here()) - {away}
        fleet.world.network.partition({away}, others)
        view = fleet.asked(RemoveJob())
        assert isinstance(view, JobView)
        assert (view.state, view.wanted) == ("removed", "removed")
        fleet.world.run(fleet.world.now + 5.0)
        assert [name for name in fleet.here() if has(fleet, name)] == [away]
        fleet.world.network.heal()
        fleet.world.run(fleet.world.now + 20.0, lambda: not any(has(fleet, name) for name in fleet.here()))
        assert not any(has(fleet, name) for name in fleet.here())
        refused = fleet.asked(DescribeJob())
        assert isinstance(refused, Refusal)
        assert refused.kind == "unknown"
        again = fleet.asked(SubmitJob(SPEC, PLAN))
        assert isinstance(again, JobView)
        assert (again.revision, again.editions) == (1, 0)

    explained(8, run)


def has(fleet: NodeFleet, name: str) -> bool:
    disks = fleet.world.processes[name].disks
    return any(key.startswith(KEY) for store in ("groups", "results") for key in disks[store].durable)  # type: ignore[union-attr]


def test_a_stopped_job_keeps_what_is_published_and_takes_nothing_more() -> None:
    def run(fleet: NodeFleet) -> None:
        fleet.submit()
        fleet.run(10.0)
        view = fleet.asked(StopJob())
        assert isinstance(view, JobView)
        assert (view.state, view.wanted) == ("stopped", "stopped")
        fleet.world.run(fleet.world.now + 1.0)
        before = [fleet.reader(name).since(KEY, 0, 1000) for name in fleet.members()]
        assert before[0]
        fleet.world.run(fleet.world.now + 10.0)
        assert [fleet.reader(name).since(KEY, 0, 1000) for name in fleet.members()] == before
        assert isinstance(fleet.asked(ForgetAgent("a0")), JobView)  # it waits for nobody any more
        refused = fleet.asked(change(fleet, "by status", BY_STATUS))
        assert isinstance(refused, Refusal)
        assert (refused.kind, refused.field) == ("invalid", "state")

    explained(9, run)


def test_a_new_member_gets_the_results_that_it_lacks() -> None:
    """In parts that are smaller than a record; while the others go on."""

    def run(fleet: NodeFleet) -> None:
        fleet.submit()
        fleet.run(12.0)
        gone = next(name for name in fleet.members() if name != fleet.leader())
        fleet.world.crash(fleet.world.processes[gone])
        fleet.world.processes[gone].disks["groups"].durable.clear()  # type: ignore[union-attr]
        fleet.world.run(fleet.world.now + 8.0)
        assert gone not in fleet.members()
        newcomers = [name for name in fleet.members() if fleet.reader(name).last_index(KEY)]
        assert len(newcomers) == 3
        drained(fleet)

    explained(10, run)


def test_any_node_describes_the_job_and_itself() -> None:
    def run(fleet: NodeFleet) -> None:
        fleet.submit()
        fleet.run(8.0)
        view = fleet.asked(DescribeJob())
        assert isinstance(view, JobView)
        assert view.coverage.agents == 4
        assert view.coverage.lines > 0
        answers: list[object] = []
        for name in fleet.here():
            fleet.at(name, KEY, DescribeVertex(), answers.append)
            fleet.at(name, KEY, DescribeNode(), answers.append)
        vertices = [one for one in answers if isinstance(one, VertexView)]
        nodes = [one for one in answers if isinstance(one, NodeView)]
        assert [one.ref.address for one in vertices if one.role == "root"] == [fleet.leader()]
        assert max(one.agents for one in vertices) == 4
        assert sorted(one.kind for one in nodes) == ["agent"] * 4 + ["worker"] * 4
        assert [one.ref.address for one in nodes if KEY.hex() in one.masters] == [fleet.leader()]

    explained(11, run)


def test_an_endless_job_is_shown_at_every_emit_and_final_when_it_is_drained() -> None:
    def run(fleet: NodeFleet) -> None:
        fleet.plans["first"] = ENDLESS
        fleet.first_plan = ENDLESS
        fleet.submit()
        fleet.run(10.0)
        (seen,) = fleet.reader(fleet.members()[0]).since(KEY, 0, 1000)  # each took the place of the one before
        assert seen.edition > 5
        assert (seen.start_us, seen.end_us, seen.status) == (None, None, "tentative")
        drained(fleet)

    explained(12, run)


def test_empty_windows_are_shown_if_they_are_wanted() -> None:
    def run(fleet: NodeFleet) -> None:
        fleet.spec = msgspec.structs.replace(SPEC, settings=msgspec.structs.replace(SETTINGS, empty=True))
        fleet.silence = (4.0, 13.0)
        fleet.submit()
        fleet.settle()
        fleet.run(WRITE_S + 10.0)
        fleet.asked(StopJob(drain=True))
        fleet.until_right(40.0)
        finals = list(fleet.finals(fleet.members()[0]).values())
        starts = [one.start_us for one in finals if one.start_us is not None]
        assert starts == list(range(starts[0], starts[-1] + 1, 4 * SECOND_US))
        assert [one for one in finals if not one.lines and not one.rows]

    explained(13, run)
