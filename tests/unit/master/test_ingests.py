"""Windows that were computed elsewhere: the entry, what follows from it, and what the leader makes of requests."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import pytest
import zstandard

from cbt.budget import Budget
from cbt.options import Options
from job.derived import Derived
from job.plan import Field
from job.plan_book import NEVER_US
from job.settings import Settings
from job.types import BIGINT
from master.committed import Committed
from master.entries import (
    PART_BYTES,
    DerivedEntry,
    Era,
    Ingest,
    PlanEntry,
    PlanText,
    Stop,
    decode_entry,
    encode_entries,
    encode_entry,
)
from master.given_windows import given_windows
from master.group_events import Committed as LogCommitted
from master.group_events import Leading, Propose
from master.group_messages import Lineage
from master.ingests import COMMIT_WINDOWS, PATIENCE_S, WAITING_BYTES_MAX, WAITING_MAX, Ingests
from master.job_events import ReadResults, ResultsRead
from master.problems import Problem
from master.requests import (
    BACKFILL,
    Answer,
    Ask,
    GivenWindow,
    IngestView,
    IngestWindows,
    Refusal,
    ResultColumn,
    ResultRecord,
)
from master.root import AppendIngests, ChangeDerived, ChangePlan, Root
from master.snapshots import restored, snapshot
from srt.automaton import Instant, Ref
from tests.plans import SECOND_US, counting

HOUR_US = 3600 * SECOND_US
TEN = counting("window(time, '10 seconds')")
DERIVED = Derived((Field("path", BIGINT), Field("hits", BIGINT)), 10 * SECOND_US, "a join")
COLUMNS = (ResultColumn("path", "STRING"), ResultColumn("hits", "BIGINT"))
PACKED = zstandard.compress(b'[["/",1]]')


def entry(start_s: int, edition: int = 1, made_s: int = 0, **other: Any) -> Ingest:
    found = Ingest(
        start_s * SECOND_US, (start_s + 10) * SECOND_US, edition, 1, 1, 1, PACKED, b"d", made_s * SECOND_US
    )
    return msgspec.structs.replace(found, **other)


def given(start_s: int, digest: bytes = b"d", packed: bytes = PACKED) -> GivenWindow:
    return GivenWindow(1, start_s * SECOND_US, (start_s + 10) * SECOND_US, 1, COLUMNS, 1, 1, packed, digest)


class Log:
    def __init__(self, *entries: Any) -> None:
        self.state = Committed(Budget(), Options.tiny())
        self(*entries)

    def __call__(self, *entries: Any) -> list[Any]:
        data = [part for one in entries for part in encode_entries(one)]
        return [found for one in data for found in self.state.apply(self.state.index + 1, one)]

    def plan(self, start_s: int, **settings: int) -> None:
        made = Settings(retain_us=HOUR_US, **settings)
        self(PlanEntry(self.state.book.revised(start_s * SECOND_US, TEN, made), history=1))


@pytest.fixture
def log() -> Log:
    made = Log()
    made.plan(100)
    return made


# the state


def test_a_given_window_is_a_result_like_others(log: Log) -> None:
    (record,) = log(entry(90, made_s=7))
    assert isinstance(record, ResultRecord)
    assert (record.index, record.start_us, record.edition, record.status) == (2, 90 * SECOND_US, 1, "final")
    assert (record.columns, record.plan, record.published_us, record.origin) == (
        COLUMNS,
        1,
        7 * SECOND_US,
        BACKFILL,
    )
    assert (log.state.published, log.state.editions, log.state.ingested.count) == (2, 1, 1)
    assert not list(log.state.windows), "it is no window that may be published again"


@pytest.mark.parametrize(
    "wrong",
    [
        entry(100),  # live
        entry(95),  # no window of the plan starts there
        entry(90, end_us=NEVER_US),
        entry(90, revision=2),
        entry(90, edition=0),
    ],
)
def test_what_cannot_be_a_window_is_void(log: Log, wrong: Ingest) -> None:
    assert log(wrong) == []
    assert (log.state.counts.void, log.state.ingested.count) == (1, 0)


def test_no_plan_begins_before_the_boundary(log: Log) -> None:
    """Or a window would have two owners."""
    log.plan(90)
    assert (log.state.boundary_us, log.state.counts.void) == (100 * SECOND_US, 1)
    log.plan(200)
    assert (log.state.boundary_us, log.state.counts.void) == (100 * SECOND_US, 1)
    assert log(entry(100)) == []


def test_a_stopped_job_and_one_of_another_lineage_take_no_old_numbers(log: Log) -> None:
    log(Era(2))
    assert log(entry(90)) == []
    (record,) = log(entry(90, edition=(1 << 20) + 1))
    assert record.index >> 40 == 1
    log(Stop())
    assert log(entry(80, edition=(1 << 20) + 1)) == []


def test_a_large_window_takes_several_positions_of_the_log(log: Log) -> None:
    large = entry(90, packed=bytes(3 * PART_BYTES))
    assert len(encode_entries(large)) == 4
    (record,) = log(large)
    assert (len(record.packed), record.index) == (3 * PART_BYTES, 5)


def test_snapshots_have_derived_jobs_and_what_was_ingested(log: Log) -> None:
    log(entry(90, made_s=5), entry(20))
    derived = Log(DerivedEntry(1, DERIVED, Settings(), PlanText("both", made_us=3), 1))
    assert derived(entry(7, edition=1))
    for one in (log, derived):
        again = restored(list(snapshot(one.state)), Budget(), Options.tiny())
        assert (again.derived, again.boundary_us) == (one.state.derived, one.state.boundary_us)
        assert again.ingested == one.state.ingested
        assert again.exists
    assert (log.state.ingested.low_us, log.state.ingested.high_us) == (20 * SECOND_US, 90 * SECOND_US)


def test_a_snapshot_of_an_older_version_tells_its_boundary(log: Log) -> None:
    log.plan(150)
    head, *rest = snapshot(log.state)
    older = msgspec.msgpack.encode(msgspec.msgpack.decode(head)[:-3])
    again = restored([older, *rest], Budget(), Options.tiny())
    assert (again.boundary_us, again.derived, again.ingested.count) == (100 * SECOND_US, (), 0)


def test_a_derived_job_takes_no_plan_and_a_job_with_a_plan_is_not_derived(log: Log) -> None:
    made = DerivedEntry(1, DERIVED, Settings(), PlanText("both"), 1)
    log(made)
    assert log.state.derived == ()
    derived = Log(made)
    derived.plan(100)
    derived(made)
    assert (derived.state.book.revisions, derived.state.counts.void, derived.state.revision) == ((), 2, 1)
    derived(msgspec.structs.replace(made, number=2, settings=Settings(retain_us=HOUR_US)))
    assert (derived.state.revision, derived.state.settings.retain_us) == (2, HOUR_US)
    assert derived.state.ingested.retain_us == HOUR_US


def test_the_bytes_of_the_entries_stay_as_they_are() -> None:
    """Logs and stores on disk are read by later versions."""
    assert encode_entry(entry(90, 2, 7, packed=b"p")).hex() == (
        "9aa6696e67657374ce055d4a80ce05f5e100020101" + "01c40170c40164ce006acfc0"
    )
    derived = DerivedEntry(2, DERIVED, Settings(), PlanText("both", made_us=3), 1)
    assert decode_entry(encode_entry(derived)) == derived
    digest = hashlib.blake2b(encode_entry(derived), digest_size=8).hexdigest()
    assert digest == "dc6dfe7576c3253a"


def test_records_of_older_versions_are_live_ones(log: Log) -> None:
    (record,) = log(entry(90))
    older = msgspec.msgpack.encode(msgspec.msgpack.decode(msgspec.msgpack.encode(record))[:-2])
    assert msgspec.msgpack.decode(older, type=ResultRecord).origin == "live"


# the leader


class Leader:
    """A root whose log commits when the test says so, and a store that has what was committed."""

    def __init__(self, derived: bool = False) -> None:
        self.root = Root(Ref(b"r" * 16, "root", 1), Budget(), tree_options=Options.tiny())
        self.core = Ingests(self.root, lambda index: index <= self.stored)
        self.now, self.index, self.stored = 0.0, 0, 1 << 60
        self.waiting: list[bytes] = []
        self.latest: dict[tuple[int | None, int | None], tuple[int, bytes]] = {}
        self.answers: dict[int, Any] = {}
        self.commits: list[int] = []
        """Windows of each group commit."""
        self.silent = False
        """The store does not answer."""
        self.questions: list[ReadResults] = []
        self.root_takes(Leading(Lineage(1, bytes(8)), 1))
        settings = Settings(retain_us=HOUR_US)
        self.root_takes(
            ChangeDerived(0, DERIVED, settings) if derived else ChangePlan(0, TEN, 100 * SECOND_US, settings)
        )
        self.commit()

    @property
    def instant(self) -> Instant:
        return Instant(self.now, int(self.now * 1e6))

    def root_takes(self, event: Any) -> None:
        for effect in self.root.handle(event, self.instant):
            if isinstance(effect, Propose):
                self.waiting += effect.data
            elif isinstance(effect, ResultRecord):
                self.latest[effect.start_us, effect.end_us] = effect.edition, effect.digest

    def take(self, effects: list[Any]) -> None:
        for effect in effects:
            if isinstance(effect, Answer):
                assert effect.token not in self.answers
                self.answers[effect.token] = effect.body
            elif isinstance(effect, ReadResults):
                self.questions.append(effect)
                if not self.silent:
                    self.read(effect)
            else:
                assert isinstance(effect, AppendIngests)
                self.commits.append(len(effect.entries))
                self.root_takes(effect)

    def read(self, question: ReadResults) -> None:
        found = tuple(self.latest.get(window, (0, b"")) for window in question.windows)
        self.take(self.core.read(ResultsRead(question.token, (), False, b"", b"", found), self.instant))

    def ask(self, token: int, *windows: GivenWindow) -> None:
        self.take(self.core.ask(Ask(token, b"", IngestWindows(windows)), self.instant))

    def commit(self, *foreign: Any) -> None:
        """All that is on its way, and what follows from that; before it entries of others."""
        for one in foreign:
            self.waiting.insert(0, encode_entry(one))
        while self.waiting:
            entries, self.waiting = self.waiting, []
            for one in entries:
                self.index += 1
                self.root_takes(LogCommitted(self.index, one))
            self.take(self.core.go_on(self.instant))


def test_each_window_gets_its_next_edition_and_the_same_none() -> None:
    leader = Leader()
    leader.ask(1, given(0), given(10))
    assert leader.answers == {}, "nothing is told before the commit"
    leader.commit()
    assert leader.answers.pop(1) == IngestView(2, 0, 0)
    leader.ask(2, given(0), given(10, b"e"), given(20))
    leader.commit()
    assert leader.answers.pop(2) == IngestView(1, 1, 1)
    assert {start: edition for (start, _), (edition, _) in leader.latest.items()} == {
        0: 1, 10 * SECOND_US: 2, 20 * SECOND_US: 1,
    }  # fmt: skip


def test_requests_wait_for_each_other_and_for_the_store() -> None:
    leader = Leader()
    leader.stored = 0
    leader.ask(1, given(0))
    leader.commit()
    assert leader.answers == {}, "it is committed, and not yet stored here"
    leader.ask(2, given(0, b"e"))
    assert len(leader.questions) == 1
    leader.stored = leader.index
    leader.take(leader.core.go_on(leader.instant))
    assert leader.answers == {1: IngestView(1, 0, 0)}
    assert len(leader.questions) == 2, "now the store has what the first one made"
    leader.stored = 1 << 60
    leader.commit()
    assert leader.answers[2] == IngestView(0, 0, 1)


def test_the_log_is_given_few_windows_at_a_time() -> None:
    leader = Leader()
    leader.ask(1, *(given(-10 * number) for number in range(COMMIT_WINDOWS + 1)))
    leader.commit()
    assert leader.commits == [COMMIT_WINDOWS, 1]
    leader.commits.clear()
    leader.ask(2, *(given(-10 * number, b"e", bytes(200_000)) for number in range(3)))
    leader.commit()
    assert leader.commits == [1, 1, 1]
    assert leader.answers[2] == IngestView(0, 0, 3)


def test_what_waits_is_bounded_in_number_in_bytes_and_in_time() -> None:
    leader = Leader()
    leader.silent = True
    for token in range(WAITING_MAX + 1):
        leader.ask(token, given(0))
    assert leader.answers.pop(WAITING_MAX).kind == "busy"
    leader.now = PATIENCE_S
    leader.take(leader.core.go_on(leader.instant))
    assert {one.kind for one in leader.answers.values()} == {"busy"}
    assert (len(leader.answers), leader.core.busy) == (WAITING_MAX, False)
    half = given(0, packed=bytes(WAITING_BYTES_MAX // 2 + 1))
    leader.ask(100, half)
    leader.ask(101, half)
    assert leader.answers[101].kind == "busy"
    assert 100 not in leader.answers
    assert leader.core.lost() == [100]
    leader.read(leader.questions[-1])
    assert not leader.waiting, "an answer of the store to who is gone"


def test_what_is_void_in_the_log_is_asked_for_again() -> None:
    """The leader is the first of another lineage, and that entry is not committed yet."""
    leader = Leader()
    leader.ask(1, given(0))
    leader.commit(Era(2))
    assert leader.answers.pop(1).kind == "busy"
    leader.ask(2, given(0))
    leader.commit()
    assert leader.answers[2] == IngestView(1, 0, 0)
    assert leader.latest[0, 10 * SECOND_US][0] == (1 << 20) + 1


def test_a_job_that_was_stopped_meanwhile_takes_nothing() -> None:
    leader = Leader()
    leader.ask(1, given(0))
    leader.commit(Stop())
    refused = leader.answers[1]
    assert isinstance(refused, Refusal)
    assert (refused.kind, refused.field) == ("invalid", "state")


def test_a_window_that_was_kept_long_enough_gets_a_number_beyond_all_given() -> None:
    """Readers have seen a first edition of it: another content may not have its number."""
    leader = Leader()
    for token, digest in enumerate((b"a", b"b", b"c")):
        leader.ask(token, given(0, digest), given(50, digest))
        leader.commit()
    leader.latest.clear()
    leader.now = 3599.0
    leader.ask(10, given(20))
    leader.now = 3601.0
    leader.ask(11, given(-10), given(0, b"d"), given(60))
    leader.commit()
    editions = {start: edition for (start, _), (edition, _) in leader.latest.items()}
    assert editions == {
        20 * SECOND_US: 1,  # nothing can be gone yet
        -10 * SECOND_US: 1,  # no window so early was ever here
        0: 8,  # six results, and one since
        60 * SECOND_US: 1,
    }


def test_a_given_digest_is_of_columns_and_rows() -> None:
    def digest(**other: Any) -> bytes:
        line = {
            "window": None, "revision": 1, "lines": 1, "rows": [["/", 1]],
            "columns": [{"name": "a", "type": "STRING"}, {"name": "b", "type": "BIGINT"}], **other,
        }  # fmt: skip
        (found,) = given_windows(msgspec.json.encode(line))
        return found.digest

    assert digest() == digest(lines=7, revision=2)
    others = [{"name": "a", "type": "STRING"}, {"name": "c", "type": "BIGINT"}]
    assert len({digest(), digest(rows=[["/", 2]]), digest(rows=[]), digest(columns=others)}) == 4


def test_values_are_written_as_results_have_them() -> None:
    types = ["DOUBLE", "DECIMAL(5,2)", "TIMESTAMP", "ARRAY<DOUBLE>", "BOOLEAN", "NULL", "DECIMAL(3,3)"]
    columns = [{"name": f"c{number}", "type": type} for number, type in enumerate(types)]
    rows = [
        [1, "-1.50", "2025-11-28T20:00:00.000001Z", [1, None, "NaN"], True, None, "0.125"],
        ["Infinity", None, None, None, None, None, None],
    ]
    line = {"window": None, "revision": 1, "lines": 1, "rows": rows, "columns": columns}
    (found,) = given_windows(msgspec.json.encode(line))
    assert zstandard.decompress(found.packed) == (
        b'[[1.0,"-1.50","2025-11-28T20:00:00.000001Z",[1.0,null,"NaN"],true,null,"0.125"],'
        b'["Infinity",null,null,null,null,null,null]]'
    )


@pytest.mark.parametrize(("type", "value"), [("DECIMAL(5,2)", "1.50\n"), ("TIMESTAMP", "2025-11-28T20:00:00Z\n")])
def test_nothing_stands_behind_a_value(type: str, value: str) -> None:
    line = {
        "window": None, "revision": 1, "lines": 1, "rows": [[value]], "columns": [{"name": "a", "type": type}],
    }  # fmt: skip
    with pytest.raises(Problem):
        given_windows(msgspec.json.encode(line))


@pytest.mark.parametrize(
    ("type", "value", "said"),
    [
        ("TIMESTAMP", "2025-11-28T19:30:00+00:00", "this is no time in UTC: write 2025-11-28T19:30:00Z, or "),
        ("TIMESTAMP", "2025-11-28T19:30:00.5Z", "this is no time in UTC: write 2025-11-28T19:30:00Z, or "),
        ("DECIMAL(5,2)", "1.5", "this is no DECIMAL of its column: write a text of at most 3 digits and 2 behind the point"),
        ("DECIMAL(2,2)", "1", "this is no DECIMAL of its column: write a text of at most 1 digits and 2 behind the point"),
        ("DECIMAL(18,0)", "1.0", "this is no DECIMAL of its column: write a text of at most 18 digits"),
    ],
)
def test_a_value_in_another_form_is_told_the_one_there_is(type: str, value: str, said: str) -> None:
    line = {
        "window": {"start": "2025-11-28T19:30:00Z", "end": "2025-11-28T19:30:10Z"}, "revision": 1, "lines": 0,
        "columns": [{"name": "a", "type": type}], "rows": [[value]],
    }  # fmt: skip
    with pytest.raises(Problem) as raised:
        given_windows(msgspec.json.encode(line))
    assert raised.value.detail.startswith(said)
    assert "regex" not in raised.value.detail
    assert raised.value.field == "rows[0][0]"
