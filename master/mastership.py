"""What a node has of one job whose group it is in: group, root, results, and while it leads, who waits for it."""

from __future__ import annotations

from dataclasses import dataclass, field

from master.commit_group import CommitGroup
from master.group_messages import Lineage
from master.jobs import Desk
from master.options import GroupOptions
from master.requests import Ask
from master.results import Results, ResultsOptions
from master.root import DropJob, HaltJob, Root, RootOptions
from master.service import JobNotice
from srt.automaton import NEVER, Ref


@dataclass(frozen=True)
class MastersOptions:
    group_size: int = 3
    """Members of a job's commit group: the root and so many less one of its neighbours."""
    news_s: float = 0.25
    """How often the root's news go into the PONGs."""
    want_s: float = 1.0
    """How often the leader looks at the latest who should be in the group."""
    log_entries_max: int = 256
    """A log that is longer gives way to a snapshot."""
    announce_s: float = 60.0
    """How often the fleet is told of a job in which nothing changes."""
    seek_s: float = 0.5
    """How long a node that is to make a job waits for those who might have it."""
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
    told: bytes = b""
    """The news that the tree carries."""
    told_version: int = 0
    tell_at: float = NEVER
    want_at: float = NEVER
    announced: JobNotice | None = None
    announce_at: float = NEVER
    halting: bool = False
    removed_s: float | None = None

    @property
    def leading(self) -> bool:
        return self.desk is not None

    @property
    def wake_at(self) -> float:
        own = min(self.tell_at, self.want_at, self.announce_at) if self.leading else NEVER
        return min(self.group.wake_at, self.root.wake_at, self.results.wake_at, own)

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
        self.desk = Desk(self.root, ref, lambda: tuple(log.members), lambda: self.is_grown)
        self.led_s, self.halting, self.announced = now_s, False, None
        self.tell_at = self.want_at = now_s
        self.announce_at = NEVER
        return self.desk

    def ending(self, now_s: float, idle_s: float) -> HaltJob | DropJob | None:
        """A job that is drained stops; one that never got a plan goes. Once per lead."""
        state = self.root.committed
        if self.halting or state.stopped:
            return None
        empty = not state.book.revisions and not (self.desk and self.desk.busy)
        drained = state.draining and state.drained
        self.halting = drained or (empty and now_s >= self.led_s + idle_s)
        if not self.halting:
            return None
        return HaltJob() if drained else DropJob()

    def lingered(self, now_s: float, linger_s: float) -> bool:
        """The job was removed, and the members have had time to learn it."""
        if self.removed_s is None:
            self.removed_s = now_s
        return len(self.group.log.members) == 1 or now_s >= self.removed_s + linger_s


@dataclass
class Founding:
    """A job that is to be made here, while others are asked whether it is there already."""

    asks: list[Ask]
    silent: set[bytes]
    """Who has not answered."""
    due_s: float
