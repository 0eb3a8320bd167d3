"""Whole nodes with a rule broken, one for each thing that is looked at as it happens: what notices it says which it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from agent.journal import ORIGIN, Journal
from cbt.tree import Tree
from job.plan_book import Revision
from master import masters as node_masters
from master.committed import Committed
from master.committed_parts import WindowState
from srt.frame_messages import PaneLines, Span
from tests.sim import cut_master_mutants as masters
from tests.sim import cut_mutants as cuts

Patch = pytest.MonkeyPatch
WindowKey = tuple[int, int]


def late_too_early(patch: Patch) -> None:
    """The pane at the horizon is taken for one before it."""
    reason = Committed._drop_reason

    def dropped(state: Committed, pane: PaneLines) -> str | None:
        return "late" if pane.start_us == state.horizon_us else reason(state, pane)

    patch.setattr(Committed, "_drop_reason", dropped)


def groups_twice(patch: Patch) -> None:
    """Those of a piece that comes alone; its lines count once."""
    frame = Committed._frame

    def merged(state: Committed, entry: Any) -> Any:
        runs = entry.runs * 2 if len(entry.spans) == 1 else entry.runs
        return frame(state, entry.__class__(entry.spans, entry.panes, runs))

    patch.setattr(Committed, "_frame", merged)


def last_pane_not_shown(patch: Patch) -> None:
    tables: Callable[..., tuple[dict[int, Tree], int]] = Committed.window_tables

    def short(state: Committed, owner: Revision, key: WindowKey) -> Any:
        return tables(state, owner, (key[0], key[1] - owner.pane_us))

    patch.setattr(Committed, "window_tables", short)


def next_between_cuts(patch: Patch) -> None:
    """A piece of several cuts is committed up to the middle of them."""
    advance = Committed._advance

    def halfway(state: Committed, span: Span) -> None:
        advance(state, span)
        known = state.streams[span.stream]
        known.next = span.end - (span.end - span.start) // 2 if span.start > ORIGIN else span.end

    patch.setattr(Committed, "_advance", halfway)
    patch.setattr(Committed, "fits", lambda state, spans: True)


def lines_counted_twice(patch: Patch) -> None:
    advance = Committed._advance

    def counted(state: Committed, span: Span) -> None:
        advance(state, span)
        state.streams[span.stream].counters += span.counters

    patch.setattr(Committed, "_advance", counted)


def snapshots_forget(patch: Patch) -> None:
    """Who begins from one does not know which windows have changed since they were shown."""
    restored = node_masters.restored

    def forgetful(*args: Any) -> Committed:
        state = restored(*args)
        for window in state.windows.values():
            window.changed = False
        return state

    patch.setattr(node_masters, "restored", forgetful)


def editions_skipped(patch: Patch) -> None:
    number = Committed.next_edition

    def skipping(state: Committed, window: WindowState) -> int:
        return number(state, window) + (window.count == 1)

    patch.setattr(Committed, "next_edition", skipping)


def newest_plan_owns_all(patch: Patch) -> None:
    def owner(state: Committed, key: WindowKey) -> Revision | None:
        last = state.book.revisions[-1]
        fits = last.size_us == key[1] - key[0] and not key[0] % last.slide_us
        return last if fits else None

    patch.setattr(Committed, "window_owner", owner)


def cuts_in_one_slot(patch: Patch) -> None:
    """A journal writes over cuts that it needs."""
    patch.setattr(Journal, "_free", lambda journal, needed: (list(range(needed)), []))


class Mutant(NamedTuple):
    off: Callable[[Patch], None]
    told: str
    """How what notices begins."""
    found: int = 0
    """A seed that does."""
    changes: tuple[tuple[str, Any], ...] = ()
    """What is special about its run."""


MUTANTS: dict[str, Mutant] = {
    "1: lines are late a pane too early": Mutant(late_too_early, "invariant 1", 0, (("late", True),)),
    "1: groups are merged twice": Mutant(groups_twice, "invariant 1: table"),
    "1: a window is shown without its last pane": Mutant(last_pane_not_shown, "invariant 1: edition"),
    "2: next is no cut": Mutant(next_between_cuts, "invariant 2"),
    "2: overlapping pieces accepted": Mutant(cuts.r1_overlap, "invariant 2: next", 5),
    "3: committed without a majority": Mutant(masters.g1_no_majority, "invariant 3: entry", 4, (("faults", 10),)),
    "3: a snapshot is not the state": Mutant(snapshots_forget, "invariant 3: members have two states", 1),
    "3: an edition is left out": Mutant(editions_skipped, "invariant 3: edition"),
    "4: one agent is enough": Mutant(masters.f1_one_agent_is_enough, "invariant 4"),
    "4: old pieces carry the newest watermark": Mutant(cuts.a4_mark_of_the_frontier, "invariant 4", 1),
    "5: the newest plan owns all windows": Mutant(newest_plan_owns_all, "invariant 5", 0, (("plan_changes", 3),)),
    "6: the horizon is ignored": Mutant(cuts.a7_no_horizon, "invariant 6"),
    "7: lines are counted twice": Mutant(lines_counted_twice, "invariant 7"),
    "7: no credit": Mutant(cuts.a8_no_credit, "invariant 7", 1),
    "7: a vertex forgets nothing": Mutant(cuts.v4_nothing_forgotten, r"\d+ frames are on", 0, (("tight", True),)),
    "7: cuts share slots": Mutant(cuts_in_one_slot, "slots are used twice"),
    "R2: acknowledged before the commit": Mutant(cuts.r2_ack_before_commit, "R2"),
    "R2: SYNC answered before the commit": Mutant(cuts.r2_synced_before_commit, "R2"),
    "C4: spread before it is committed": Mutant(masters.c4_spread_before_commit, "C4", 0, (("plan_changes", 3),)),
}
