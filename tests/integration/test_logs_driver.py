"""Agents on real files: what reaches the root is the fold of what was written, whatever becomes of the files."""

from __future__ import annotations

import gzip
import random
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from agent.errors import JournalFull
from agent.log_id import of_source, source_tag
from agent.sources import Source, Sources
from agent.tail_options import TailOptions
from cbt.budget import Budget
from cbt.memory import Memory
from cbt.options import BudgetOptions, Options
from job.formats import find
from job.plan import Plan, Schema
from job.sql import compile_sql
from job.types import BIGINT, STRING
from srt.frame_messages import Counters
from tests.small_agent import SmallAgent, SmallRoot, content_of, truth_of

COMBINED = find("combined")
SECOND_US = 1_000_000
SQL = """SELECT path, count(*) AS n, sum(bytes) AS b, count(DISTINCT status) AS s, window(time, '10 seconds') AS w
         FROM {} WHERE status < 500 GROUP BY path, w"""
START_S = 1_431_857_100  # 17/May/2015:10:05:00
KEY = b"j" * 16


def plan_of(sql: str = SQL, name: str = "access") -> Plan:
    return compile_sql(sql.format(name), {name: Schema(COMBINED.fields, aliases=COMBINED.aliases)})


def source_of(folder: Path, name: str = "access", pattern: str = "access.log*", **options: object) -> Source:
    tail = TailOptions(**{"read_from": "beginning", **options})  # type: ignore[arg-type]
    return Source(name, (str(folder / pattern),), COMBINED, tail)


class Lines:
    """Makes log lines whose time goes on, some of them broken."""

    def __init__(self, seed: int = 1) -> None:
        self.random, self.second = random.Random(seed), 0.0

    def take(self, count: int) -> bytes:
        return b"".join(self.one() for _ in range(count))

    def one(self) -> bytes:
        random = self.random
        self.second += random.random() * 0.2
        minute, second = divmod(5 * 60 + int(self.second), 60)
        hour, minute = divmod(minute, 60)
        if random.random() < 0.03:
            return b"no line of a web server\n"
        return (
            f"10.0.0.{random.randrange(9)} - - [17/May/2015:{10 + hour:02}:{minute:02}:{second:02} +0000] "
            f'"GET /{random.randrange(20)} HTTP/1.1" {random.choice([200, 200, 404, 503])} '
            f'{random.randrange(5000)} "-" "x"\n'
        ).encode()


def append(path: Path, data: bytes) -> bytes:
    with open(path, "ab") as file:
        file.write(data)
    return data


def check(root: SmallRoot, source: Source, texts: list[bytes], plan: Plan, revision: int = 1) -> None:
    panes, counters = truth_of(plan, source, texts)
    stream = root.stream(revision)
    assert stream.counters == counters
    assert content_of(stream) == panes


class WithLog(NamedTuple):
    """An agent that has read the `first` lines of a log."""

    source: Source
    plan: Plan
    lines: Lines
    log: Path
    root: SmallRoot
    agent: SmallAgent
    first: bytes


def with_a_log(folder: Path, count: int, settled_s: float = 2.0, **options: object) -> WithLog:
    """`options` are those of the source."""
    source, plan, lines, log = source_of(folder, **options), plan_of(), Lines(), folder / "access.log"
    first = append(log, lines.take(count))
    root = SmallRoot(KEY, plan)
    agent = SmallAgent(folder, [source], [root])
    agent.settle(settled_s)
    return WithLog(source, plan, lines, log, root, agent, first)


def test_what_grows_is_folded(tmp_path: Path) -> None:
    source, plan, lines = source_of(tmp_path), plan_of(), Lines()
    log = tmp_path / "access.log"
    text = append(log, lines.take(300))
    root = SmallRoot(KEY, plan)
    agent = SmallAgent(tmp_path, [source], [root])
    for _ in range(20):
        text += append(log, lines.take(30))
        agent.step()
    agent.settle(2.0)
    check(root, source, [text], plan)
    assert agent.troubles == []


def test_each_source_feeds_its_own_jobs(tmp_path: Path) -> None:
    names = ("access", "shop")
    sources = [source_of(tmp_path, name, f"{name}.log*") for name in names]
    plans = [plan_of(name=name) for name in names]
    roots = [SmallRoot(name.encode().ljust(16, b"#"), plan) for name, plan in zip(names, plans, strict=True)]
    agent = SmallAgent(tmp_path, sources, roots, seed=3)
    makers, texts = [Lines(1), Lines(2)], [b"", b""]
    for number in range(12):
        for index, name in enumerate(names):
            texts[index] += append(tmp_path / f"{name}.log", makers[index].take(20))
        agent.step(0.5)
        if number == 6:
            agent.crash()
            agent.boot()
    agent.settle(2.0)
    for root, source, plan, text in zip(roots, sources, plans, texts, strict=True):
        check(root, source, [text], plan)
    tags = {name[:8] for name in agent.streams.journal.newest.files}
    assert tags == {source_tag(name) for name in names}


def test_a_source_that_is_quiet_holds_no_other_back(tmp_path: Path) -> None:
    sources = [source_of(tmp_path, name, f"{name}.log*") for name in ("access", "old")]
    old, new = Lines(1), Lines(2)
    new.second = 3600.0
    append(tmp_path / "access.log", new.take(100))
    append(tmp_path / "old.log", old.take(100))
    root = SmallRoot(KEY, plan_of())
    agent = SmallAgent(tmp_path, sources, [root])
    agent.settle(2.0)
    assert root.stream().watermark_us == (START_S + int(new.second)) * SECOND_US


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT count(*) AS n FROM other", "there is no source 'other' on this agent; it has access"),
        ("SELECT max(weight) AS n FROM access", "source 'access' (format combined) has no field 'weight'"),
        ("SELECT max(status) AS n FROM access", "field 'status' of source 'access' (format combined) is"),
    ],
)
def test_what_cannot_be_run_is_refused_by_name(sql: str, why: str, tmp_path: Path) -> None:
    schema = Schema({**COMBINED.fields, "weight": BIGINT, "status": STRING})
    root = SmallRoot(KEY, compile_sql(sql, {"access": schema, "other": schema}))
    agent = SmallAgent(tmp_path, [source_of(tmp_path)], [root])
    agent.tell(root)
    assert root.refused
    assert why in root.refused[0]
    assert not root.streams


def test_windows_over_lines_without_time_are_refused(tmp_path: Path) -> None:
    untimed = find("$remote_addr $status")
    source = Source("access", (str(tmp_path / "*.log"),), untimed)
    assert "no field 'time'" in (Sources([source]).can_run(plan_of()) or "")
    plan = compile_sql(
        "SELECT status, count(*) AS n FROM access GROUP BY status", {"access": Schema(untimed.fields)}
    )
    assert Sources([source]).can_run(plan) is None


def test_reading_begins_at_the_end_and_never_goes_back(tmp_path: Path) -> None:
    source, plan, lines = source_of(tmp_path, read_from="end"), plan_of(), Lines()
    log = tmp_path / "access.log"
    append(log, lines.take(100))
    append(tmp_path / "access.log.1", lines.take(100))
    root = SmallRoot(KEY, plan)
    agent = SmallAgent(tmp_path, [source], [root])
    agent.step()
    assert agent.streams.journal.newest.files == {}  # files at rest need not be in cuts
    text = append(log, lines.take(40))
    agent.step()
    agent.crash()
    agent.boot()
    text += append(log, lines.take(40))
    new = append(tmp_path / "access.log.2", lines.take(10))
    agent.settle(8.0)
    check(root, source, [text, new], plan)


def test_bytes_that_are_gone_are_counted_whoever_reads(tmp_path: Path) -> None:
    """A log is cut without a copy: what was seen and not read is lost, for the first reading and for a later one."""
    source, plan, lines, log, root, agent, text = with_a_log(tmp_path, 50, lost_wait_s=1.0)
    unread = append(log, lines.one()[:-1])  # half a line is read, and waits
    agent.settle(2.0)
    log.write_bytes(b"")
    agent.settle(4.0)
    text += append(log, lines.take(50))
    agent.settle(2.0)
    panes, counters = truth_of(plan, source, [text])
    assert root.stream().counters == counters + Counters(lost_bytes=len(unread))
    assert content_of(root.stream()) == panes
    root.change(plan, START_S // 10 * 10 * SECOND_US)
    agent.tell(root)
    agent.settle(4.0)
    # The second revision reads again, and the first fifty lines are not there any more.
    again = root.stream(2).counters
    assert again.lines == 50
    assert again.lost_bytes == len(unread) + len(text) - log.stat().st_size


def rotate_and_delete(log: Path) -> None:
    old = log.with_name("access.log.1")
    log.rename(old)
    old.unlink()


def with_a_deleted_log(folder: Path) -> WithLog:
    """Of 200 lines; it was rotated and deleted then."""
    made = with_a_log(folder, 200)
    rotate_and_delete(made.log)
    return made


def test_a_rotated_and_deleted_log_stays_open_until_it_is_released(tmp_path: Path) -> None:
    source, plan, lines, log, root, agent, first = with_a_deleted_log(tmp_path)
    second = append(log, lines.take(10))
    agent.settle(20.0)
    root.change(plan, (START_S - 60) // 10 * 10 * SECOND_US)
    agent.tell(root)
    agent.settle(4.0)
    check(root, source, [first, second], plan, 2)
    assert agent.reader.figures()[0].held_files == 2
    root.horizon_us = (START_S + 3600) * SECOND_US
    agent.tell(root)
    text = append(log, lines.take(10))
    lines.second += 3700
    text += append(log, lines.take(10))
    agent.settle(4.0)
    assert agent.reader.figures()[0].held_files == 1
    assert len(agent.streams.journal.newest.files) == 1
    assert text


@pytest.mark.parametrize("change", ["another source", "other paths", "another format"])
def test_a_deleted_log_stays_open_when_the_configuration_is_read_again(change: str, tmp_path: Path) -> None:
    source, plan, lines, log, root, agent, first = with_a_deleted_log(tmp_path)
    second = append(log, lines.take(10))
    agent.settle(2.0)
    unread = append(log, lines.take(20))
    agent.reader.idle()
    rotate_and_delete(log)
    agent.reader.idle()
    match change:
        case "another source":
            shop = source_of(tmp_path, "shop", "shop.log*")
            agent.reload([shop, source])
        case "other paths":
            (tmp_path / "new").mkdir()
            agent.reload([source_of(tmp_path / "new")])
            log = tmp_path / "new" / "access.log"
        case _:
            agent.reload([replace(source, format=msgspec.structs.replace(COMBINED, name="mine"))])
    third = append(log, lines.take(10))
    agent.settle(6.0)
    check(root, source, [first, second + unread, third], plan)
    root.change(plan, (START_S - 60) // 10 * 10 * SECOND_US)
    agent.tell(root)
    agent.settle(4.0)
    check(root, source, [first, second + unread, third], plan, 2)
    assert agent.troubles == []


def two_sources(tmp_path: Path, lines: int) -> tuple[Source, Source, SmallRoot, SmallAgent]:
    """The second one has 20 lines; all have been read."""
    source, shop = source_of(tmp_path), source_of(tmp_path, "shop", "shop.log*")
    append(tmp_path / "access.log", Lines().take(lines))
    append(tmp_path / "shop.log", Lines().take(20))
    root = SmallRoot(KEY, plan_of())
    agent = SmallAgent(tmp_path, [source, shop], [root])
    agent.settle(2.0)
    return source, shop, root, agent


def test_a_source_that_goes_lets_go_of_its_files(tmp_path: Path) -> None:
    source, _shop, root, agent = two_sources(tmp_path, 20)

    def held() -> set[str]:
        return {name for fd in Path("/proc/self/fd").iterdir() if (name := _target(fd)).startswith(str(tmp_path))}

    assert held() == {str(tmp_path / "access.log"), str(tmp_path / "shop.log")}
    agent.reload([source])
    assert held() == {str(tmp_path / "access.log")}
    text = append(tmp_path / "access.log", Lines(2).take(5))
    agent.settle(2.0)
    assert root.stream().counters.lines == 25
    assert text


def test_cuts_let_go_of_the_logs_of_a_source_that_went_once_nobody_can_need_them(tmp_path: Path) -> None:
    source, shop, root, agent = two_sources(tmp_path, 200)

    def named() -> list[str]:
        files = agent.streams.journal.newest.files
        return [one.name for one in (source, shop) if any(of_source(one.name, name) for name in files)]

    agent.reload([source])
    append(tmp_path / "access.log", Lines(2).take(5))
    agent.settle(2.0)
    assert named() == ["access", "shop"], "a later plan may begin before it"
    agent.reader.close()
    agent.sources = Sources([source])
    agent.boot()
    root.horizon_us = START_S * SECOND_US * 2
    agent.tell(root)
    for number in range(3, 6):
        append(tmp_path / "access.log", Lines(number).take(5))
        agent.settle(2.0)
    assert named() == ["access"]
    assert root.stream().counters.lines == 200 + 5 + 15
    assert root.stream().counters.lost_bytes == 0


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_source_that_comes_back_goes_on_where_it_was(is_restarted: bool, tmp_path: Path) -> None:
    source, shop = source_of(tmp_path), source_of(tmp_path, "shop", "shop.log*")
    append(tmp_path / "access.log", Lines().take(20))
    append(tmp_path / "shop.log", Lines().take(30))
    root, other = SmallRoot(KEY, plan_of()), SmallRoot(b"o" * 16, plan_of(name="shop"))
    agent = SmallAgent(tmp_path, [source, shop], [root, other])
    agent.settle(2.0)
    agent.reload([source])
    append(tmp_path / "access.log", Lines(2).take(5))
    append(tmp_path / "shop.log", Lines(2).take(7))
    agent.settle(2.0)
    if is_restarted:
        agent.reader.close()
        agent.sources = Sources([source, shop])
        agent.boot()
    else:
        agent.reload([source, shop])
    append(tmp_path / "shop.log", Lines(3).take(4))
    agent.settle(4.0)
    assert (root.stream().counters.lines, root.stream().counters.lost_bytes) == (25, 0)
    assert (other.stream().counters.lines, other.stream().counters.lost_bytes) == (41, 0)


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:  # that of the listing itself
        return ""


def test_lines_beyond_the_limit_are_one_reject_each_time(tmp_path: Path) -> None:
    source, plan, lines = source_of(tmp_path), plan_of(), Lines()
    source = replace(
        source, tail=replace(source.tail, read_bytes=2048, turn_bytes_max=4096, line_bytes_max=4096)
    )
    log = tmp_path / "access.log"
    text = append(
        log, lines.take(30) + b"x" * 4096 + b"\n" + lines.take(30) + b"y" * 50_000 + b"\n" + lines.take(30)
    )
    root = SmallRoot(KEY, plan)
    agent = SmallAgent(tmp_path, [source], [root], fold_bytes_max=3000, advance_bytes_max=3000)
    agent.settle(2.0)
    append(log, b"z" * 9000)
    agent.settle(2.0)
    rest = append(log, b"zz\n" + lines.take(30))
    agent.settle(2.0)
    check(root, source, [text + b"z" * 9000 + rest], plan)
    root.change(plan, (START_S - 60) // 10 * 10 * SECOND_US)
    agent.tell(root)
    agent.settle(2.0)
    check(root, source, [text + b"z" * 9000 + rest], plan, 2)
    figures = agent.reader.figures()[0]
    assert figures.rejected["too_long"] == 3
    assert any(sample.text.startswith(b"zzzz") for sample in figures.samples)


def test_lines_from_the_future_are_rejected_in_every_reading(tmp_path: Path) -> None:
    source, plan, lines = source_of(tmp_path), plan_of(), Lines()
    log = tmp_path / "access.log"
    text = append(log, lines.take(20))
    far = b'10.0.0.1 - - [17/May/2031:10:00:00 +0000] "GET /far HTTP/1.1" 200 1 "-" "x"\n'
    append(log, far)
    text += append(log, lines.take(20))
    root = SmallRoot(KEY, plan)
    agent = SmallAgent(tmp_path, [source], [root])
    agent.settle(2.0)
    agent.now += 2 * 366 * 86400.0  # by now it would not lie in the future any more
    root.change(plan, (START_S - 60) // 10 * 10 * SECOND_US)
    agent.tell(root)
    agent.settle(2.0)
    panes, counters = truth_of(plan, source, [text])
    for revision in (1, 2):
        assert content_of(root.stream(revision)) == panes
        assert root.stream(revision).counters == counters + Counters(lines=1, rejected=1)
    assert agent.reader.figures()[0].rejected["future"] == 1


def test_columns_that_a_log_names_are_known_in_the_middle_of_it(tmp_path: Path) -> None:
    format = find("w3c")
    plan = compile_sql(
        "SELECT status, count(*) AS n FROM access GROUP BY status", {"access": Schema(format.fields)}
    )
    source = Source("access", (str(tmp_path / "*.log"),), format, TailOptions(read_from="beginning"))
    log = tmp_path / "iis.log"
    head = b"#Software: x\n#Fields: date time cs-method cs-uri-stem sc-status\n"
    line = b"2015-05-17 10:05:%02d GET /x %d\n"
    text = append(log, head + b"".join(line % (second, 200) for second in range(20)))
    root = SmallRoot(KEY, plan)
    agent = SmallAgent(tmp_path, [source], [root])
    agent.settle(2.0)
    agent.crash()
    agent.boot()
    text += append(log, b"".join(line % (second, 404) for second in range(20)))
    agent.settle(2.0)
    text += append(log, b"#Fields: sc-status date time\n503 2015-05-17 10:06:00\n")
    agent.loss = 1.0
    for _ in range(20):
        agent.step()  # nobody answers, so it will be read again
    agent.settle(2.0)
    check(root, source, [text], plan)
    assert root.stream().counters.rejected == 0


def test_what_is_known_of_logs_may_be_lost(tmp_path: Path) -> None:
    source, plan, lines = source_of(tmp_path, read_from="end"), plan_of(), Lines()
    log = tmp_path / "access.log"
    log.touch()
    root = SmallRoot(KEY, plan)
    agent = SmallAgent(tmp_path, [source], [root])
    text = append(log, lines.take(100))
    agent.settle(2.0)
    append(tmp_path / "access.log.0", lines.take(50))  # would be read from its start, were the other known
    agent.crash()
    (tmp_path / "logs").write_bytes(b"rotten")
    text += append(log, lines.take(100))
    agent.boot()
    agent.settle(2.0)
    check(root, source, [text], plan)
    assert ["damaged" in one for one in agent.troubles] == [True]


def test_a_journal_without_room_reads_again_what_was_not_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, plan, lines, log, root, agent, text = with_a_log(tmp_path, 100)
    cut = agent.streams.journal.cut
    refusals = 0

    def full(*arguments: object) -> object:
        nonlocal refusals
        refusals += 1
        raise JournalFull("no slot is free")

    monkeypatch.setattr(agent.streams.journal, "cut", full)
    for _ in range(12):
        text += append(log, lines.take(10))
        agent.step()
    assert refusals > 1
    monkeypatch.setattr(agent.streams.journal, "cut", cut)
    text += append(log, lines.take(10))
    agent.settle(2.0)
    check(root, source, [text], plan)


def test_memory_that_is_short_parks_streams_and_loses_nothing(tmp_path: Path) -> None:
    """A cap that no catching up at once fits under, held partly by others for a while."""
    source, lines = source_of(tmp_path), Lines()
    sql = "SELECT path, remote_addr, bytes, count(*) AS n FROM {} GROUP BY path, remote_addr, bytes"
    plan = plan_of(sql)
    log = tmp_path / "access.log"
    text = append(log, lines.take(30_000))
    memory = Memory(Budget(BudgetOptions(memory_max=2 << 20)), Options(table_bytes_max=1 << 20))
    others = memory.hold()
    others.resize(2_000_000)
    root = SmallRoot(KEY, plan)
    agent = SmallAgent(tmp_path, [source], [root], memory=memory)
    for _ in range(40):
        agent.step()
    assert agent.shrinks > 0
    others.resize(0)
    agent.settle(4.0)
    check(root, source, [text], plan)
    assert memory.budget.peak_bytes < 4 << 20


@pytest.mark.parametrize("kept", ["journal", "knowledge"])
def test_cuts_and_what_is_known_of_logs_may_be_of_different_age(kept: str, tmp_path: Path) -> None:
    """A crash leaves one of the two older than the other; nothing was committed since."""
    source, plan, lines, log, root, agent, text = with_a_log(tmp_path, 100, settled_s=4.0)
    known = tmp_path / "logs"
    agent.loss = 1.0
    old = bytes(agent.data), known.read_bytes()
    for _ in range(20):
        text += append(log, lines.take(10))
        agent.step()
    assert agent.data != old[0]
    assert known.read_bytes() != old[1]
    agent.crash()
    if kept == "journal":
        known.write_bytes(old[1])
    else:
        agent.data[:] = old[0]
    log.rename(tmp_path / "access.log.1")
    text2 = append(log, lines.take(10))
    agent.boot()
    agent.settle(8.0)
    check(root, source, [text, text2], plan)
    assert agent.troubles == []


def test_the_archive_of_a_log_that_is_done_with_is_not_read_again(tmp_path: Path) -> None:
    source, plan, lines, log, root, agent, first = with_a_deleted_log(tmp_path)
    second = append(log, lines.take(10))
    agent.settle(10.0)
    root.horizon_us = (START_S + 3600) * SECOND_US
    lines.second += 3700
    second += append(log, lines.take(10))
    agent.tell(root)
    for _ in range(100):
        agent.step()
        if len(agent.streams.journal.newest.files) == 1:
            break  # before anything else is saved
    else:
        raise AssertionError("the log stays in the cuts")
    agent.crash()
    agent.boot()
    (tmp_path / "access.log.1.gz").write_bytes(gzip.compress(first))
    agent.settle(8.0)
    counters = truth_of(plan, source, [first, second])[1]
    assert root.stream().counters.lines == counters.lines


def test_lines_of_a_format_that_lacks_what_a_running_job_asks_for_are_counted_as_lost(tmp_path: Path) -> None:
    source, shop = source_of(tmp_path), source_of(tmp_path, "shop", "shop.log*")
    append(tmp_path / "access.log", Lines().take(20))
    append(tmp_path / "shop.log", Lines().take(20))
    other = SmallRoot(b"o" * 16, plan_of(name="shop"))
    root = SmallRoot(KEY, plan_of())
    agent = SmallAgent(tmp_path, [source, shop], [root, other])
    agent.settle(2.0)
    before = root.stream().counters
    agent.reload([replace(source, format=find("$remote_addr $status")), shop])
    append(tmp_path / "access.log", b"127.0.0.1 200\n" * 5)
    append(tmp_path / "shop.log", Lines(2).take(7))
    agent.settle(2.0)
    assert other.stream().counters.lines == 27
    assert root.stream().counters == before + Counters(lost_bytes=14 * 5)
    assert "a running job gets no lines of this agent any more: source 'access'" in "".join(agent.troubles)
    agent.reload([source, shop])
    append(tmp_path / "access.log", Lines(3).take(4))
    agent.settle(2.0)
    assert root.stream().counters.lines == 24
