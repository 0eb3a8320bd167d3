"""What nodes tell each other of jobs, nodes and sources, and what a node does about it."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from agent.stream_events import Trouble
from elfstream.notice_board import About, HaveSources, JoinJob, LeaveJob, NoticeBoard
from elfstream.notices import (
    FIELDS_MAX,
    JOB,
    NODE,
    NODE_LIVES_S,
    REMOVED_S,
    NoticeError,
    SourceNotice,
    job_entry,
    node_entry,
    notice_of,
    source_entry,
)
from job.plan import Schema
from job.types import BIGINT, SECONDS, STRING, TIMESTAMP
from master.job_events import Announce, JobRemovedElsewhere
from master.service import JobNotice, NodeNotice
from srt.automaton import WAKE, Instant, Received, Ref, Send
from srt.directory_messages import Entry, Rumours
from srt.ids import job_key
from srt.ring import LeaveRing, Ring, RingActive
from srt.ring_messages import LeafRequest
from srt.tree_messages import Kind

WALL_US = 1_764_000_000_000_000
SCHEMA = Schema({"time": TIMESTAMP, "status": BIGINT, "took": SECONDS}, False, {"request_time": "took"})
KEY = job_key("hot")


def at(seconds: float) -> Instant:
    return Instant(seconds, WALL_US + int(seconds * 1e6))


def ref(number: int, boot: int = 1) -> Ref:
    return Ref(random.Random(number).randbytes(16), f"n{number}", boot)


def job(state: str = "running", created: int = 10, changed: int = 20, source: str = "shop") -> JobNotice:
    return JobNotice("hot", source, state, 3, created, changed)


def board(kind: Kind = Kind.AGENT) -> NoticeBoard:
    ring = Ring(ref(0), (), random.Random(0))
    ring.handle(WAKE, at(0.0))
    ring.handle(Received(ref(1), LeafRequest(0)), at(0.0))
    return NoticeBoard(ring, kind, random.Random(0), {}, About("web-1", "1.2"))


def heard(entry: Entry) -> Received:
    return Received(ref(1), Rumours([entry], hot=True))


def told(effects: list[Any], kind: int) -> list[Entry]:
    return [
        entry
        for one in effects
        if isinstance(one, Send) and isinstance(one.message, Rumours)
        for entry in one.message.entries
        if entry.kind == kind
    ]


def test_notices_survive_their_bytes() -> None:
    node = NodeNotice("web-1", ref(1, 7), "agent", "0.1", 5, 9, ("shop", "api"), True)
    source = SourceNotice("shop", SCHEMA)
    assert notice_of(job_entry(KEY, job())) == job()
    divided = msgspec.structs.replace(job(), trees=64)
    assert notice_of(job_entry(KEY, divided)) == divided
    assert notice_of(node_entry(node)) == node
    assert notice_of(source_entry(source, 5)) == source
    assert source_entry(source, 5).key == source_entry(source, 6).key
    assert source_entry(source, 5).key != source_entry(SourceNotice("shop", Schema({"time": TIMESTAMP})), 5).key


def test_a_removal_beats_its_creation_and_a_later_creation_beats_both() -> None:
    order = [
        job_entry(KEY, notice)
        for notice in (
            job("running", 10, 20), job("stopped", 10, 30), job("removed", 10, 25), job("running", 11, 12),
        )
    ]  # fmt: skip
    versions = [entry.version for entry in order]
    assert versions == sorted(versions)
    assert len(set(versions)) == 4
    assert order[2].until_us == 25 + int(REMOVED_S * 1e6)
    assert order[0].until_us == 0


def test_what_is_beyond_the_limits_is_no_notice() -> None:
    good = job_entry(KEY, job())
    values = [
        b"", b"\x91" * 2000, msgspec.msgpack.encode(["x" * 65, "s", "running", 1, 1, 1]),
        msgspec.msgpack.encode(["x", "s", "paused", 1, 1, 1]), msgspec.msgpack.encode(["x", "s", "running", -1, 1, 1]),
    ]  # fmt: skip
    for value in values:
        assert notice_of(Entry(JOB, KEY, (1, 1), value)) is None
    assert notice_of(Entry(0, KEY, (1, 1), good.value)) is None
    node = node_entry(NodeNotice("web-1", ref(1), "agent", "0.1", 5, 9))
    assert notice_of(Entry(NODE, KEY, node.version, node.value)) is None, "another node's place"
    many = Schema({f"f{number}": STRING for number in range(FIELDS_MAX + 1)})
    with pytest.raises(NoticeError, match="limits"):
        source_entry(SourceNotice("shop", many), 1)
    with pytest.raises(NoticeError, match="fewer or shorter"):
        source_entry(SourceNotice("shop", Schema({"x" * 200 + str(n): STRING for n in range(200)})), 1)


def test_an_agent_takes_part_in_jobs_that_read_its_sources() -> None:
    node = board()
    assert node.handle(heard(job_entry(KEY, job())), at(1.0))[0] != JoinJob(KEY)
    assert JoinJob(KEY) in node.handle(HaveSources({"shop": SCHEMA}), at(2.0))
    assert JoinJob(KEY) not in node.handle(heard(job_entry(KEY, job(changed=21))), at(3.0)), "it does already"
    assert LeaveJob(KEY) in node.handle(heard(job_entry(KEY, job("stopped", changed=22))), at(4.0))
    assert JoinJob(KEY) in node.handle(heard(job_entry(KEY, job(changed=23))), at(5.0))
    assert LeaveJob(KEY) in node.handle(HaveSources({"api": SCHEMA}), at(6.0))
    assert node.handle(heard(job_entry(KEY, job(changed=24, source="api"))), at(7.0))[0] == JoinJob(KEY)


def test_a_job_made_anew_is_left_and_joined() -> None:
    """Its streams begin again; the removal between the two may have passed by unheard."""
    node = board()
    node.handle(HaveSources({"shop": SCHEMA}), at(1.0))
    node.handle(heard(job_entry(KEY, job())), at(2.0))
    effects = node.handle(heard(job_entry(KEY, job(created=30, changed=30))), at(3.0))
    assert effects[:2] == [LeaveJob(KEY), JoinJob(KEY)]


def test_masters_learn_of_a_removal_elsewhere_however_late_they_come() -> None:
    node = board(Kind.WORKER)
    gone = JobRemovedElsewhere(KEY, 10)
    removed = job("removed", changed=WALL_US // 1)
    assert gone in node.handle(heard(job_entry(KEY, removed)), at(1.0))
    assert gone in node.handle(Announce(KEY, job(changed=2 * WALL_US)), at(2.0))
    assert node.jobs() == []
    effects = node.handle(Announce(KEY, job(created=11)), at(3.0))
    assert gone not in effects
    assert [one.created_us for one in node.jobs()] == [11]


def test_a_node_tells_of_itself_while_it_runs_and_when_it_goes() -> None:
    node = board()
    effects = node.handle(RingActive(), at(0.0)) + node.handle(HaveSources({"shop": SCHEMA}), at(0.1))
    found = [notice_of(entry) for entry in told(effects, NODE)]
    assert found[0] == NodeNotice("web-1", ref(0), "agent", "1.2", WALL_US, WALL_US, ())
    assert [one.sources for one in node.nodes()] == [("shop",)]
    first = node.nodes()[0].told_us
    now = 0.1
    while now < 70.0:
        now = max(node.wake_at, now)
        node.handle(WAKE, Instant(now, WALL_US - 5_000_000))  # its clock was set back
    assert node.nodes()[0].told_us > first
    (farewell,) = told(node.handle(LeaveRing(), at(70.0)), NODE)
    assert node.nodes() == []
    notice = notice_of(farewell)
    assert isinstance(notice, NodeNotice)
    assert notice.left


def test_nodes_that_say_nothing_are_forgotten() -> None:
    node = board()
    node.handle(heard(node_entry(NodeNotice("web-2", ref(2), "agent", "1", WALL_US, WALL_US))), at(0.0))
    assert [one.name for one in node.nodes()] == ["web-2"]
    node.handle(WAKE, at(NODE_LIVES_S + 1))
    assert node.nodes() == []


def test_one_agent_tells_a_source_for_all() -> None:
    node = board()
    node.handle(RingActive(), at(0.0))
    node.handle(heard(source_entry(SourceNotice("shop", SCHEMA), WALL_US)), at(1.0))
    node.handle(HaveSources({"shop": SCHEMA}), at(2.0))
    (entry,) = node.directory.of_kind(3)
    assert entry.version == (WALL_US, 0), "another agent told it a second ago"
    node._tell_at = 4000.0
    node.handle(WAKE, at(4000.0))
    (entry,) = node.directory.of_kind(3)
    assert entry.version[0] > WALL_US


def test_schemas_are_what_all_agents_of_a_source_have() -> None:
    node = board()
    other = Schema({"time": TIMESTAMP, "status": STRING, "took": SECONDS, "host": STRING})
    for schema in (SCHEMA, other):
        node.handle(heard(source_entry(SourceNotice("shop", schema), WALL_US)), at(1.0))
    assert node.schemas() == {"shop": Schema({"time": TIMESTAMP, "took": SECONDS})}


def test_a_source_that_nobody_would_take_is_told_to_people() -> None:
    node = board()
    node.handle(RingActive(), at(0.0))
    many = Schema({f"f{number}": STRING for number in range(FIELDS_MAX + 1)})
    assert any(isinstance(one, Trouble) for one in node.handle(HaveSources({"shop": many}), at(1.0)))
