"""What a node has of one job whose group it is in: group, root, results, and while it leads, who waits for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from master.commit_group import CommitGroup
from master.group_messages import Lineage
from master.job_figures import FIGURES_S, JobFigures, figures_of
from master.jobs import Desk, spec_of
from master.options import GroupOptions
from master.requests import Ask, Refusal
from master.results import Results, ResultsOptions
from master.root import DropJob, HaltJob, Root, RootOptions
from master.service import JobNotice
from srt.automaton import NEVER, Ref
from srt.due_times import Ticks
from srt.frame_messages import News
from srt.ids import job_key

ANSWERING_S = 10.0
"""Who spoke so lately counts as there: without a leader members ask each other every few leases."""


@dataclass(frozen=True)
class MastersOptions:
    group_size: int = 3
    """Members of a job's commit group: the root and so many less one of its neighbours."""
    news_s: float = 0.25
    """How often the root's news go into the PONGs."""
    clock_s: float = 60.0
    """How often they tell the clock alone: agents go on from it by clocks that nobody sets."""
    want_s: float = 1.0
    """How often the leader looks who should be in the group while it is on its way there."""
    want_rest_s: float = 10.0
    """The same at the latest, when it is there."""
    log_entries_max: int = 256
    """A log that is longer gives way to a snapshot."""
    copy_s: float = 30.0
    """A leader that lacks results, which others may have, removes no member for so long."""
    return_s: float = 5.0
    """A leader that finds fewer nodes than it wants removes no member for so long of whom nobody said that it is gone."""
    announce_s: float = 60.0
    """How often the fleet is told of a job in which nothing changes."""
    seek_s: float = 0.5
    """How long a node that is to make a job waits for those who might have it."""
    tick_s: float = 0.05
    """So much later may be what many jobs are looked at for one by one: a node with 1,000 would do nothing else."""
    idle_s: float = 30.0
    """A group whose job never got a plan is removed after so long."""
    linger_s: float = 1.0
    """A leader stays so long after its job was removed, so that the members learn it."""
    retry_s: float = 2.0
    graves_max: int = 4096
    """Removed jobs that are remembered until the process ends."""
    group: GroupOptions = field(default_factory=GroupOptions)
    root: RootOptions = field(default_factory=RootOptions)
    results: ResultsOptions = field(default_factory=ResultsOptions)


@dataclass
class Mastership:
    """One job on one member of its group."""

    group: CommitGroup
    root: Root
    results: Results
    desk: Desk | None = None
    """While it leads."""
    submitted: list[Ask] = field(default_factory=list)
    """Wait until it leads."""
    lineage: Lineage | None = None
    """None: the group has not told its state yet."""
    led_s: float = 0.0
    spoke_s: dict[bytes, float] = field(default_factory=dict)
    """When other members spoke last, while there was no leader."""
    trees: tuple[bytes, ...] = ()
    """The keys of the trees whose root this node is, one per partition."""
    told: News | None = None
    """The news that the tree carries, without their clock."""
    told_s: float = NEVER
    told_version: int = 0
    tell_at: float = NEVER
    want_at: float = NEVER
    announced: JobNotice | None = None
    announce_at: float = NEVER
    figures: JobFigures | None = None
    """While it leads a job that has begun."""
    figures_at: float = -NEVER
    figures_index: int = -1
    halting: bool = False
    removed_s: float | None = None

    @property
    def leading(self) -> bool:
        return self.desk is not None

    def standing(self, now_s: float) -> Refusal:
        """Why there is no leader."""
        log = self.group.log
        if not log.members:
            return Refusal("electing", "no leader is known, and the log of the job is not here")
        silent = [
            member.address
            for member in log.members
            if member.id != self.group.ref.id and now_s >= self.spoke_s.get(member.id, -NEVER) + ANSWERING_S
        ]
        answering = len(log.members) - len(silent)
        verb = "answers" if answering == 1 else "answer"
        who = f", not {' nor '.join(sorted(silent))}" if silent else ""
        lacks = "; the log here has lost entries" if log.meta.damaged else ""
        text = f"{answering} of {len(log.members)} members {verb}{who}{lacks}"
        if 2 * answering > len(log.members) and not lacks:
            return Refusal("electing", f"a leader is being elected: {text}")
        return Refusal("leaderless", f"no leader: {text}")

    def unrecoverable(self) -> Refusal | None:
        """Why this member should not go on alone; None: it may."""
        if not self.group.log.members:
            return Refusal("unknown", "the log of the job is not on this node; ask one that has it", "name")
        leader = self.group.leader
        if leader is None:
            return None
        return Refusal("invalid", f"{leader.address} leads the job, so nothing has to be recovered", "confirm")

    @property
    def wake_at(self) -> float:
        return min(self.group.wake_at, self._others_at)

    def wake_by(self, ticks: Ticks) -> float:
        """The same where the group has time: shared beats prolong its lease again and again."""
        return min(ticks.after(self.group.wake_at), self._others_at)

    @property
    def _others_at(self) -> float:
        own = min(self.tell_at, self.want_at, self.announce_at) if self.leading else NEVER
        return min(self.root.wake_at, self.results.wake_at, own)

    @property
    def longest_us(self) -> int:
        """The length of the longest windows that there are results of."""
        state = self.root.committed
        sizes = [revision.size_us for revision in (*state.past, *state.book.revisions)]
        return max([*sizes, *(one.derived.size_us for one in state.derived)], default=0)

    @property
    def is_grown(self) -> bool:
        """The members are all that are wanted, and that is committed."""
        log = self.group.log
        wanted = {ref.id for ref in self.group.wanted}
        return log.members_index <= self.group.commit and wanted <= {member.id for member in log.members}

    @property
    def may_shorten(self) -> bool:
        """The state stands for a whole log, and results are kept by themselves: while some are not stored the log stays."""
        log, state = self.group.log, self.root.committed
        return log.stored >= state.index > log.first and not state.between and self.results.settled

    def lead(self, ref: Ref, now_s: float) -> Desk:
        """Begins to lead."""
        log = self.group.log
        self.desk = Desk(
            self.root, ref, lambda: tuple(log.members), lambda: self.is_grown, self.results.stores
        )
        self.led_s, self.halting, self.announced = now_s, False, None
        self.tell_at = self.want_at = now_s
        self.announce_at = NEVER
        return self.desk

    def follow(self) -> Desk | None:
        """Leads no more; returns what it led with."""
        desk, self.desk, self.told = self.desk, None, None
        self.figures, self.figures_at, self.figures_index = None, -NEVER, -1
        return desk

    def wanted_trees(self, key: bytes) -> tuple[bytes, ...]:
        """The keys of the trees that there should be, the job's own first, while it leads."""
        state = self.root.committed
        if self.desk is None:
            return ()
        if len(self.trees) == state.book.trees:
            return self.trees
        further = range(1, state.book.trees)
        return (key, *(job_key(spec_of(state).name, partition) for partition in further))

    def look(self, now_s: float) -> None:
        """Makes new figures, if something was committed since and they are not young."""
        state = self.root.committed
        if not state.exists or self.figures_index == state.index or now_s < self.figures_at + FIGURES_S:
            return
        self.figures, self.figures_at, self.figures_index = figures_of(state), now_s, state.index

    def ending(self, now_s: float, idle_s: float) -> HaltJob | DropJob | None:
        """A job that is drained stops once its last results are stored; one that never got a plan goes. Once per lead."""
        state = self.root.committed
        if self.halting or state.stopped:
            return None
        empty = not state.exists and not (self.desk and self.desk.busy)
        drained = state.draining and state.drained and self.results.settled
        self.halting = drained or (empty and now_s >= self.led_s + idle_s)
        if not self.halting:
            return None
        return HaltJob() if drained else DropJob()

    def keeps(
        self, found: int, gone: Callable[[Ref], bool], now_s: float, options: MastersOptions
    ) -> Sequence[Ref]:
        """Members that may not go yet, where `found` nodes were found for the group. Who is removed deletes his results, and
        may be the last who has them while the leader lacks some: not for ever, and not more than so many. And a ring that
        has just begun knows few nodes: who is not known to be `gone` may be coming back, as after a start of all."""
        members, size = self.group.log.members, options.group_size
        if self.results.lacking and now_s < self.led_s + options.copy_s and len(members) < 2 * size:
            return members
        if found < size and now_s < self.led_s + options.return_s:
            return [member for member in members if not gone(member)]
        return ()

    def lingered(self, now_s: float, linger_s: float) -> bool:
        """The job was removed, and the members have had time to learn it."""
        if self.removed_s is None:
            self.removed_s = now_s
        return len(self.group.log.members) == 1 or now_s >= self.removed_s + linger_s
