"""The masters of one node: for each job its commit group and, while that leads, the root of its tree. Pure.

A group that this node is a member of, or learns from, is here with the state that follows from its log. What concerns ring,
trees and vertices leaves as their events.
"""

from __future__ import annotations

import heapq
import random
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from cbt.budget import Budget
from cbt.options import Options as TreeSizes
from master.commit_group import STORE as GROUPS
from master.commit_group import CommitGroup, Role
from master.committed import WindowPublished
from master.group_events import Committed, Compact, Dismissed, Following, Leading, Propose, Restored, Want
from master.group_messages import (
    Append,
    AskResults,
    Gone,
    Lineage,
    ResultsPart,
    Seek,
    SnapshotPart,
    Sought,
)
from master.job_events import (
    Announce,
    Finish,
    Finished,
    JobErased,
    JobRemovedElsewhere,
    ReadResults,
    ResultsRead,
)
from master.jobs import notice_of
from master.mastership import Founding, Mastership, MastersOptions
from master.requests import Answer, Ask, Refusal, SubmitJob
from master.result_store import STORE as RESULTS
from master.result_store import everything
from master.results import Results
from master.root import PlanAnswer, Root, Spread
from master.snapshots import restored, snapshot
from srt.automaton import (
    ANY_BOOT,
    NEVER,
    WAKE,
    Delete,
    Instant,
    Received,
    Ref,
    Send,
    Stored,
    StoreFailed,
    Wake,
    Write,
)
from srt.frame_messages import News
from srt.reducer_tree import ReducerTree
from srt.ring import MembersChanged, Ring
from srt.tree_events import Claim, ForwardTo, Multicast, Serve, SetContent, StopServing
from srt.vertices import AtRoot, ForVertex

KEY_BYTES = 16
_Parts = msgspec.msgpack.Decoder(list[bytes])
_encode = msgspec.msgpack.Encoder().encode


class OfJob(NamedTuple):
    """Effect: what the root of a job tells people."""

    key: bytes
    effect: Any


class NewsHere(NamedTuple):
    """Effect: what the tree carries down, for the agent of this node."""

    key: bytes
    news: bytes


class Masters:
    """All masters of one node. Reads `ring` and `trees`, changes neither."""

    def __init__(
        self,
        ref: Ref,
        ring: Ring,
        trees: ReducerTree,
        budget: Budget,
        rng: random.Random,
        stored: Mapping[bytes, bytes],
        options: MastersOptions,
        sizes: TreeSizes,
    ) -> None:
        """`stored` is what the store of groups holds. Raises GroupStoreError."""
        self.ref, self.options = ref, options
        self._ring, self._trees = ring, trees
        self._masters: dict[bytes, Mastership] = {}
        self._founding: dict[bytes, Founding] = {}
        self._graves: OrderedDict[bytes, Lineage] = OrderedDict()
        """Removed jobs, with the lineage that was removed: whoever still has it is told."""
        self._budget, self._rng, self._sizes = budget, rng, sizes
        self._tokens: dict[int, tuple[bytes, CommitGroup | Results, int]] = {}
        """What drivers were asked to do: for whom, and the token there."""
        self._erasing: dict[int, Write] = {}
        self._again: list[Write] = []
        self._again_at = NEVER
        self._token = self._cast = 0
        self._due: list[tuple[float, bytes]] = []
        """A heap; entries that are not those of `_due_at` are over."""
        self._due_at: dict[bytes, float] = {}
        self._touched: dict[bytes, None] = {}
        self._now = Instant(0.0, 0)
        self._out: list[Any] = []
        for key in sorted({name[:KEY_BYTES] for name in stored}):
            self._add(CommitGroup.reopen(key, ref, stored, options.group, rng))

    # the automaton

    @property
    def wake_at(self) -> float:
        """O(1), amortised."""
        while self._due and self._due_at.get(self._due[0][1]) != self._due[0][0]:
            heapq.heappop(self._due)
        first = self._due[0][0] if self._due else NEVER
        return min(first, self._again_at, *(one.due_s for one in self._founding.values()))

    def handle(self, event: Any, now: Instant) -> list[Any]:
        """O(jobs that the event is for, or whose time has come)."""
        self._now, self._out = now, []
        if isinstance(event, Received):
            self._message(event.sender, event.message)
        elif isinstance(event, AtRoot):
            self._to_root(event.key, Received(self.ref, event.message))
        elif isinstance(event, Ask):
            self._ask(event)
        elif isinstance(event, Wake):
            self._wake()
        elif isinstance(event, Stored | StoreFailed | Finished | ResultsRead):
            self._done(event)
        elif isinstance(event, Claim):
            self._claim(event.key)
        elif isinstance(event, MembersChanged):
            for key, master in self._masters.items():
                if master.leading:
                    master.want_at = now.s
                    self._touched[key] = None
        elif isinstance(event, JobRemovedElsewhere):
            self._removed_elsewhere(event)
        self._settle()
        return self._out

    def leads(self, key: bytes) -> bool:
        return key in self._masters and self._masters[key].leading

    def leader(self, key: bytes) -> Ref | None:
        """Who leads the job, as far as its group here knows."""
        master = self._masters.get(key)
        return None if master is None else self.ref if master.leading else master.group.leader

    @property
    def led(self) -> list[bytes]:
        return sorted(key for key, master in self._masters.items() if master.leading)

    def group(self, key: bytes) -> CommitGroup:
        """Raises KeyError where there is none."""
        return self._masters[key].group

    def asked_for(self, token: int) -> bytes:
        """The job for which a driver was asked to do something. Raises KeyError when that is done."""
        return self._tokens[token][0]

    def root(self, key: bytes) -> Root:
        """Raises KeyError where there is none."""
        return self._masters[key].root

    def results(self, key: bytes) -> Results:
        """Raises KeyError where there is none."""
        return self._masters[key].results

    def _wake(self) -> None:
        now = self._now
        while self.wake_at <= now.s and self._due and self._due[0][0] <= now.s:
            _, key = heapq.heappop(self._due)
            del self._due_at[key]
            self._touched[key] = None
            master = self._masters[key]
            if master.group.wake_at <= now.s:
                self._from_group(key, master.group.handle(WAKE, now))
            if key in self._masters and master.root.wake_at <= now.s:
                self._from_root(key, master.root.handle(WAKE, now))
            if key in self._masters and master.results.wake_at <= now.s:
                self._to_results(key, WAKE)
        for key, founding in list(self._founding.items()):
            if founding.due_s <= now.s:
                self._found(key)
        if self._again_at <= now.s:
            again, self._again, self._again_at = self._again, [], NEVER
            for write in again:
                self._erase_write(write)

    def _settle(self) -> None:
        """What follows for the jobs that something happened to, and when they have to be looked at again."""
        while self._touched:
            key, _ = self._touched.popitem()
            if key in self._masters:
                self._lead(key, self._masters[key])
            master = self._masters.get(key)
            if master is None:
                self._due_at.pop(key, None)
            elif self._due_at.get(key) != master.wake_at:
                self._due_at[key] = master.wake_at
                heapq.heappush(self._due, (master.wake_at, key))

    # groups

    def _add(self, group: CommitGroup) -> Mastership:
        key = group.log.key
        master = self._masters[key] = Mastership(
            group, self._root_of(None), Results(key, self.options.results)
        )
        self._due_at[key] = 0.0
        heapq.heappush(self._due, (0.0, key))
        return master

    def _root_of(self, state: bytes | None) -> Root:
        committed = restored(_Parts.decode(state), self._budget, self._sizes) if state else None
        return Root(self.ref, self._budget, self.options.root, self._sizes, committed)

    def _message(self, sender: Ref, message: Any) -> None:
        key, master = message.group, self._masters.get(message.group)
        if isinstance(message, Seek):
            known = None if master is None else self.leader(key) or self.ref
            self._out.append(Send(sender, Sought(key, known)))
        elif isinstance(message, Sought):
            self._sought(sender, message)
        elif isinstance(message, Gone):
            if master is not None and master.group.log.meta.lineage <= message.lineage:
                self._erase(key, message.lineage)
        elif isinstance(message, AskResults | ResultsPart):
            if master is not None:
                results = master.results
                if isinstance(message, AskResults):
                    self._from_results(key, results.asked(sender, message))
                else:
                    self._from_results(key, results.sent(message, self._now))
        else:
            self._to_group(sender, message)

    def _to_group(self, sender: Ref, message: Any) -> None:
        key = message.group
        grave = self._graves.get(key)
        if grave is not None and message.lineage <= grave:
            self._out.append(Send(sender, Gone(key, grave)))
            return
        master = self._masters.get(key)
        if master is None:
            if not isinstance(message, Append | SnapshotPart):
                return
            master = self._add(CommitGroup.join(key, self.ref, self.options.group, self._rng))
        self._from_group(key, master.group.handle(Received(sender, message), self._now))

    def _from_group(self, key: bytes, effects: Iterable[Any]) -> None:
        self._touched[key] = None
        master = self._masters[key]
        for effect in effects:
            if key not in self._masters:
                return  # it was removed meanwhile
            if isinstance(effect, Write):
                self._out.append(
                    Write(effect.store, effect.changes, self._given(key, master.group, effect.token))
                )
            elif isinstance(effect, Restored):
                self._restored(key, master, effect)
            elif isinstance(effect, Committed):
                self._to_root(key, effect)
            elif isinstance(effect, Leading):
                self._leading(key, master, effect)
            elif isinstance(effect, Following):
                self._following(key, master, effect)
            elif isinstance(effect, Dismissed):
                master.root = self._root_of(None)
                self._from_results(key, master.results.wiped(self._now))
            else:
                self._out.append(effect)

    def _restored(self, key: bytes, master: Mastership, effect: Restored) -> None:
        booted = master.lineage is None
        other = not booted and effect.lineage != master.lineage
        master.lineage = effect.lineage
        master.root = self._root_of(effect.state)
        if other and master.group.role not in (Role.CANDIDATE, Role.LEADER):  # else it is ours, recovered
            self._from_results(key, master.results.wiped(self._now))
        published = master.root.committed.published
        self._from_results(key, master.results.begun(published, booted, self._now))

    def _leading(self, key: bytes, master: Mastership, effect: Leading) -> None:
        desk = master.lead(self.ref, self._now.s)
        self._to_root(key, effect)
        self._out.append(Serve(key))
        wanted = self._ring.neighbours(key, self.options.group_size)
        self._from_group(key, master.group.handle(Want(wanted), self._now))
        asks, master.submitted = master.submitted, []
        for ask in asks:
            self._from_desk(key, desk.ask(ask, self._now))

    def _following(self, key: bytes, master: Mastership, effect: Following) -> None:
        desk, master.desk, master.told = master.desk, None, b""
        if desk is not None:
            self._out += desk.lost()
            self._out.append(StopServing(key))
        self._to_root(key, effect)
        for ask in master.submitted:
            self._out.append(Answer(ask.token, Refusal("busy", "another node leads the job now; ask again")))
        master.submitted = []

    def _given(self, key: bytes, owner: CommitGroup | Results, token: int) -> int:
        self._token += 1
        self._tokens[self._token] = key, owner, token
        return self._token

    def _done(self, event: Stored | StoreFailed | Finished | ResultsRead) -> None:
        """A driver has done what it was asked for."""
        if event.token in self._erasing:
            write = self._erasing.pop(event.token)
            if isinstance(event, StoreFailed):
                self._again.append(write)
                self._again_at = self._now.s + self.options.retry_s
            return
        key, owner, token = self._tokens.pop(event.token)
        master, told = self._masters.get(key), event._replace(token=token)
        if master is not None and master.group is owner:
            self._from_group(key, master.group.handle(told, self._now))
        elif master is not None and master.results is owner:
            self._to_results(key, told)

    def _claim(self, key: bytes) -> None:
        """Others look for the root here: the group says who it is."""
        leader = self.leader(key)
        if leader is not None:
            self._out.append(Serve(key) if leader == self.ref else ForwardTo(key, leader))

    # roots and results

    def _to_root(self, key: bytes, event: Any) -> None:
        if key in self._masters:
            self._from_root(key, self._masters[key].root.handle(event, self._now))

    def _from_root(self, key: bytes, effects: Iterable[Any]) -> None:
        self._touched[key] = None
        for effect in effects:
            master = self._masters.get(key)
            if master is None:
                return
            if isinstance(effect, Send):
                self._out.append(ForVertex(key, Received(self.ref, effect.message)))
            elif isinstance(effect, Propose):
                self._from_group(key, master.group.handle(effect, self._now))
            elif isinstance(effect, Spread):
                self._spread(key, effect.news)
            elif isinstance(effect, WindowPublished):
                self._from_results(key, master.results.published((effect,), self._now))
            elif isinstance(effect, PlanAnswer):
                if master.desk is not None:
                    self._from_desk(key, master.desk.planned(effect, self._now))
            else:
                self._out.append(OfJob(key, effect))

    def _to_results(self, key: bytes, event: Any) -> None:
        master = self._masters[key]
        state = master.root.committed
        peers = [member for member in master.group.log.members if member.id != self.ref.id]
        sizes = [revision.size_us for revision in (*state.past, *state.book.revisions)]
        effects = master.results.handle(event, self._now, peers, state.settings, max(sizes, default=0))
        self._from_results(key, effects)

    def _from_results(self, key: bytes, effects: Iterable[Any]) -> None:
        self._touched[key] = None
        results = self._masters[key].results
        for effect in effects:
            if isinstance(effect, Write | Finish | ReadResults):
                self._out.append(effect._replace(token=self._given(key, results, effect.token)))
            elif isinstance(effect, Send):
                self._out.append(Send(Ref(effect.to.id, effect.to.address, ANY_BOOT), effect.message))
            else:
                self._out.append(effect)

    def _spread(self, key: bytes, news: News) -> None:
        if self._trees.serves(key):
            self._cast += 1
            cast = self.ref.boot.to_bytes(8, "big") + self._cast.to_bytes(8, "big")
            payload = _encode(news)
            self._out += [Multicast(key, cast, payload), NewsHere(key, payload)]

    # requests

    def _ask(self, ask: Ask) -> None:
        key, master = ask.key, self._masters.get(ask.key)
        if master is not None and master.desk is not None:
            self._from_desk(key, master.desk.ask(ask, self._now))
        elif key in self._founding and isinstance(ask.request, SubmitJob):
            self._founding[key].asks.append(ask)
        elif master is not None:
            leader = master.group.leader
            known = "another node leads the job" if leader else "who leads the job is being decided"
            self._refuse(ask, "elsewhere" if leader else "busy", known, leader)
        elif not self._ring.active:
            self._refuse(ask, "busy", "this node is joining the fleet")
        elif not self._ring.is_closest(key):
            self._refuse(ask, "elsewhere", "another node is closer", self._ring.next_hop(key))
        elif isinstance(ask.request, SubmitJob):
            self._seek(ask)
        else:
            self._refuse(ask, "unknown", "there is no such job")

    def _refuse(self, ask: Ask, kind: str, detail: str, master: Ref | None = None) -> None:
        self._out.append(Answer(ask.token, Refusal(kind, detail, master=master)))

    def _seek(self, ask: Ask) -> None:
        """Before a group begins: one may be there that has not spoken to this node yet."""
        key = ask.key
        near = [
            ref for ref in self._ring.neighbours(key, 2 * self.options.group_size) if ref.id != self.ref.id
        ]
        self._founding[key] = Founding([ask], {ref.id for ref in near}, self._now.s + self.options.seek_s)
        self._out += [Send(ref, Seek(key)) for ref in near]
        if not near:
            self._found(key)

    def _sought(self, sender: Ref, message: Sought) -> None:
        founding = self._founding.get(message.group)
        if founding is None:
            return
        if message.leader is not None:
            del self._founding[message.group]
            for ask in founding.asks:
                self._refuse(ask, "elsewhere", "another node leads the job", message.leader)
            return
        founding.silent.discard(sender.id)
        if not founding.silent:
            self._found(message.group)

    def _found(self, key: bytes) -> None:
        """A group begins here, alone, and grows to the nodes closest to the key."""
        asks = self._founding.pop(key).asks
        master = self._masters.get(key)
        if master is None:
            # A job that is made later wins over what is left of one before.
            history = max(1, self._now.wall_us // 1_000_000)
            grave = self._graves.pop(key, None)
            history = max(history, grave.history + 1) if grave else history
            group = CommitGroup.create(key, self.ref, self.options.group, self._rng, history)
            master = self._add(group)
            master.submitted = asks
            self._from_group(key, group.handle(WAKE, self._now))
            return
        for ask in asks:
            self._ask(ask)

    def _from_desk(self, key: bytes, effects: Iterable[Any]) -> None:
        self._touched[key] = None
        for effect in effects:
            if isinstance(effect, Answer):
                self._out.append(effect)
            else:
                self._to_root(key, effect)

    # removal

    def _removed_elsewhere(self, event: JobRemovedElsewhere) -> None:
        master = self._masters.get(event.key)
        if master is not None and master.root.committed.created_us <= event.created_us:
            self._erase(event.key, master.group.log.meta.lineage)

    def _erase(self, key: bytes, lineage: Lineage) -> None:
        """Lets go of everything that there is of a job on this node."""
        master = self._masters.pop(key)
        self._due_at.pop(key, None)
        self._graves[key] = max(lineage, self._graves.get(key, lineage))
        if len(self._graves) > self.options.graves_max:
            self._graves.popitem(last=False)
        if master.desk is not None:
            answers = [*master.desk.settle(self._now), *master.desk.lost()]
            self._out += [*(one for one in answers if isinstance(one, Answer)), StopServing(key)]
        self._out += [
            Answer(ask.token, Refusal("busy", "the job is being removed")) for ask in master.submitted
        ]
        self._erase_write(Write(GROUPS, (Delete(key, key + b"\xff"),), 0))
        self._erase_write(Write(RESULTS, (everything(key),), 0))
        self._out.append(JobErased(key))

    def _erase_write(self, write: Write) -> None:
        key = next(change.first[:KEY_BYTES] for change in write.changes if isinstance(change, Delete))
        if key not in self._masters:  # else it was made anew, and writes all that it has
            self._token += 1
            self._erasing[self._token] = write
            self._out.append(write._replace(token=self._token))

    # what follows for a job that something happened to

    def _lead(self, key: bytes, master: Mastership) -> None:
        """Shortens the log; a leader says whom it wants in the group and what is new, and answers who waited."""
        now = self._now
        state = master.root.committed
        if state.removed and (master.desk is None or master.lingered(now.s, self.options.linger_s)):
            self._erase(key, master.group.log.meta.lineage)
            return
        if len(master.group.log.entries) > self.options.log_entries_max and master.may_shorten:
            encoded = _encode(list(snapshot(state)))
            self._from_group(key, master.group.handle(Compact(state.index, encoded), now))
        if master.desk is None:
            return
        master.root.hold_windows(master.results.crowded)
        self._from_desk(key, master.desk.settle(now))
        self._from_root(key, master.root.handle(WAKE, now))
        if now.s >= master.want_at:
            master.want_at = now.s + self.options.want_s
            wanted = self._ring.neighbours(key, self.options.group_size)
            self._from_group(key, master.group.handle(Want(wanted), now))
        if now.s >= master.tell_at:
            master.tell_at = now.s + self.options.news_s
            self._tell(key, master)
        ending = master.ending(now.s, self.options.idle_s)
        if ending is not None:
            self._to_root(key, ending)
        self._announce(key, master)
        self._touched.pop(key, None)

    def _announce(self, key: bytes, master: Mastership) -> None:
        if not master.root.committed.book.revisions:
            return
        notice = notice_of(master.root.committed)
        if notice != master.announced or self._now.s >= master.announce_at:
            master.announced, master.announce_at = notice, self._now.s + self.options.announce_s
            self._out.append(Announce(key, notice))

    def _tell(self, key: bytes, master: Mastership) -> None:
        if not self._trees.serves(key):
            return
        news = _encode(master.root.news(self._now))
        if news != master.told:
            master.told = news
            master.told_version += 1
            version = (master.group.epoch << 32) + master.told_version
            self._out += [SetContent(key, version, news), NewsHere(key, news)]
