"""The cut protocol with a rule of plans, finality or groups switched off; `cut_mutants` has the others and the table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from agent.stream_job import Job
from agent.streams import Streams
from job.plan_book import NEVER_US, PlanBook, PlanBookError, Revision
from master.commit_group import CommitGroup
from master.committed import Committed
from master.committed_parts import WindowPublished
from master.entries import FINAL, PlanEntry, Publish, decode_entry
from master.finality import Finality
from master.group_events import Propose
from master.group_leader import Leadership
from master.open_windows import OpenWindows
from master.root import Root, Spread
from srt.automaton import Instant
from srt.frame_messages import LIVE, Span, StreamId

Patch = pytest.MonkeyPatch


# C: plans change


def c1_by_pane(patch: Patch) -> None:
    def panes(book: PlanBook, feed: int) -> tuple[int, int]:
        ranges = [(one.start_us, book.end_us(one.number)) for one in book.fed_by(feed)]
        some = [(first, end) for first, end in ranges if end > first]
        return (min(first for first, _ in some), max(end for _, end in some)) if some else (0, 0)

    patch.setattr(PlanBook, "panes", panes)


def c2_no_horizon(patch: Patch) -> None:
    check = PlanBook._check_order
    patch.setattr(
        PlanBook,
        "_check_order",
        lambda book, revision, last, horizon_us: check(book, revision, last, -NEVER_US),
    )


def c3_old_streams_again(patch: Patch) -> None:
    """A plan that was there before is fed by the streams that it had then."""
    revised = PlanBook.revised

    def reopened(book: PlanBook, start_us: int, plan: Any, *args: Any, **more: Any) -> Revision:
        made = revised(book, start_us, plan, *args, **more)
        same = [one for one in book.revisions if one.plan == plan and one.feed != made.feed]
        if not same:
            return made
        return msgspec.structs.replace(made, feed=same[-1].feed, pane_us=same[-1].pane_us)

    patch.setattr(PlanBook, "revised", reopened)
    patch.setattr(PlanBook, "_check_feed", lambda book, revision: None)


def c4_spread_before_commit(patch: Patch) -> None:
    handle = Root.handle

    def hasty(root: Root, event: Any, now: Instant) -> list[Any]:
        effects = handle(root, event, now)
        proposed = [data for one in effects if isinstance(one, Propose) for data in one.data]
        for entry in map(decode_entry, proposed):
            if isinstance(entry, PlanEntry):
                try:
                    book = root.committed.book.add(entry.revision, root.committed.plan_horizon_us)
                except PlanBookError:
                    continue
                effects.append(
                    Spread(msgspec.structs.replace(root.news(now), book=book, version=book.version))
                )
        return effects

    patch.setattr(Root, "handle", hasty)


def c5_no_lateness(patch: Patch) -> None:
    first = Revision.first_open
    patch.setattr(
        Revision, "first_open", lambda revision, mark: first(revision, mark + revision.settings.lateness_us)
    )


def c5_closed_at_once(patch: Patch) -> None:
    close = PlanBook.close
    patch.setattr(PlanBook, "close", lambda book, horizon_us: close(book, NEVER_US))


def c6_refusals_ignored(patch: Patch) -> None:
    patch.setattr(Root, "_refused", lambda root, *refusal: [])


# F: what is final


def f1_one_agent_is_enough(patch: Patch) -> None:
    def reach(state: Committed, feed: int) -> int | None:
        marks = [state.agent_reach(feed, agent) for agent, on in state.roster.items() if on]
        return max([mark for mark in marks if mark is not None], default=None)

    patch.setattr(Committed, "reach", reach)


def f1_history_ignored(patch: Patch) -> None:
    def reach(state: Committed, feed: int, agent: bytes) -> int | None:
        live = state.streams.get(StreamId(feed, agent, LIVE))
        return None if live is None else live.watermark_us

    patch.setattr(Committed, "agent_reach", reach)


def f2_shown_before_commit(patch: Patch) -> None:
    handle = Root.handle

    def showing(root: Root, event: Any, now: Instant) -> list[Any]:
        effects = handle(root, event, now)
        proposed = [data for one in effects if isinstance(one, Propose) for data in one.data]
        for entry in map(decode_entry, proposed):
            key = (entry.start_us, entry.end_us) if isinstance(entry, Publish) else (0, 0)
            owner = root.committed.window_owner(key)
            if isinstance(entry, Publish) and owner is not None:
                tables, lines = root.committed.window_tables(owner, key)
                covered = root.committed.coverage(entry.agents, entry.missing, None)
                shown = WindowPublished(
                    0, *key, entry.count, entry.status, 0, (), owner, tables, lines, covered, entry.made_us
                )
                effects.append(shown)
        return effects

    patch.setattr(Root, "handle", showing)


def f3_late_lines_unseen(patch: Patch) -> None:
    mark = OpenWindows.mark

    def marked(windows: OpenWindows, key: Any) -> None:
        known = windows.get(key)
        if known is None or known.status != FINAL:
            mark(windows, key)

    patch.setattr(OpenWindows, "mark", marked)


def f3_too_late_taken(patch: Patch) -> None:
    patch.setattr(
        Committed,
        "_drop_reason",
        lambda state, pane: None if state.book.keeps(pane.revision, pane.start_us) else "outside",
    )
    spec = Job.spec

    def open_for_ever(*args: Any, **named: Any) -> Any:
        return spec(*args, **named)._replace(closed_us=-NEVER_US)

    patch.setattr(Job, "spec", open_for_ever)


def f4_no_waiting(patch: Patch) -> None:
    patch.setattr(Finality, "_may_start", lambda finality, now_s: True)


def f4_stays_forgotten(patch: Patch) -> None:
    advance = Committed._advance

    def advanced(state: Committed, span: Span) -> None:
        on = state.roster[span.stream.agent]
        advance(state, span)
        state.roster[span.stream.agent] = on

    patch.setattr(Committed, "_advance", advanced)


def f5_no_end_of_time(patch: Patch) -> None:
    mark = Streams._mark

    def marked(streams: Streams, job: Job) -> int | None:
        drained, job.drained_from = job.drained_from, None
        found = mark(streams, job)
        job.drained_from = drained
        return found

    patch.setattr(Streams, "_mark", marked)


# G: the group


def g1_no_majority(patch: Patch) -> None:
    patch.setattr(Leadership, "committable", lambda leading: max(leading._group.commit, leading._log.stored))


def g1_vote_for_anybody(patch: Patch) -> None:
    """Whatever the candidate lacks."""
    asked: Callable[..., Any] = CommitGroup._asked

    def flattered(group: CommitGroup, sender: Any, ask: Any) -> None:
        asked(group, sender, msgspec.structs.replace(ask, last_epoch=1 << 40, last_index=1 << 40))

    patch.setattr(CommitGroup, "_asked", flattered)


def g1_no_promise(patch: Patch) -> None:
    """What a member promised is not remembered: it votes twice, and follows older leaders."""
    asked: Callable[..., Any] = CommitGroup._asked

    def free(group: CommitGroup, sender: Any, ask: Any) -> None:
        group.log.set_meta(voted=b"")
        asked(group, sender, ask)

    patch.setattr(CommitGroup, "_asked", free)


def g1_answer_before_durable(patch: Patch) -> None:
    write: Callable[..., Any] = CommitGroup.write

    def hasty(group: CommitGroup, changes: Any, then: Any = None) -> None:
        write(group, changes)
        group.log.stored = group.log.last
        if then is not None:
            then()

    patch.setattr(CommitGroup, "write", hasty)


def g2_leads_on(patch: Patch) -> None:
    patch.setattr(Leadership, "lease_until", lambda leading, now_s: float("inf"))


def g3_all_at_once(patch: Patch) -> None:
    """Members change together, whether the new ones have caught up or not."""
    steer = Leadership.steer

    def hasty(leading: Leadership, now_s: float) -> None:
        wanted = {ref.id for ref in leading.wanted}
        members = {member.id for member in leading._log.members}
        settled = leading.established and leading._log.members_index <= leading._group.commit
        if settled and wanted and wanted != members:
            refs = list(leading.wanted)
            leading._keep_learners(members, [ref for ref in refs if ref.id not in members], now_s)
            leading._change_members(refs, now_s)
        else:
            steer(leading, now_s)

    patch.setattr(Leadership, "steer", hasty)


def g4_frames_of_any_history(patch: Patch) -> None:
    judge = Root._frame
    patch.setattr(
        Root, "_frame", lambda root, sender, frame: judge(root, sender, frame._replace(history=root.history))
    )


def g4_history_ignored(patch: Patch) -> None:
    told = Streams._told

    def deaf(streams: Streams, job: Any, news: Any) -> None:
        if job.history < 0:
            told(streams, job, news)
        else:
            job.history = max(job.history, news.history)
            told(streams, job, news)

    patch.setattr(Streams, "_told", deaf)
