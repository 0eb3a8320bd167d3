"""The masters of one node: for each job its commit group and, while that leads, the root of its tree. Pure.

A group that this node is a member of, or learns from, is here with the state that follows from its log. What concerns ring,
trees and vertices leaves as their events.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from cbt.budget import Budget
from cbt.options import Options as TreeSizes
from master.beats import SharedBeats
from master.commit_group import CommitGroup
from master.committed_parts import WindowPublished
from master.founding import Foundings
from master.graves import Graves
from master.group_events import (
    Committed,
    Compact,
    Dismissed,
    Following,
    Leading,
    Propose,
    Recover,
    Restored,
    Role,
    Want,
)  # fmt: skip
from master.group_messages import (
    Append,
    AskResults,
    Beats,
    BeatsHeard,
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
    NewsHere,
    OfJob,
    Overload,
    ReadResults,
    ResultsRead,
)
from master.job_figures import JobFigures
from master.jobs import Desk, notice_of
from master.mastership import Mastership, MastersOptions
from master.requests import Answer, Ask, RecoverJob, Refusal, ResultRecord, SubmitJob
from master.results import Results
from master.root import PlanAnswer, Root, Spread
from master.snapshots import restored, snapshot
from srt.automaton import (
    ANY_BOOT,
    NEVER,
    WAKE,
    Instant,
    PeerLost,
    Received,
    Ref,
    Send,
    Stored,
    StoreFailed,
    Wake,
    Write,
)
from srt.due_times import DueTimes, Ticks
from srt.frame_messages import News
from srt.reducer_tree import ReducerTree
from srt.ring import MembersChanged, Ring
from srt.tree_events import Claim, ForwardTo, Multicast, Serve, SetContent, StopServing
from srt.vertices import AtRoot, ForVertex

KEY_BYTES = 16
_Parts = msgspec.msgpack.Decoder(list[bytes])
_encode = msgspec.msgpack.Encoder().encode


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
        self._foundings = Foundings()
        self._graves = Graves(options.graves_max, options.retry_s, self._next_token)
        self._budget, self._rng, self._sizes = budget, rng, sizes
        self._tokens: dict[int, tuple[bytes, CommitGroup | Results | Desk, int]] = {}
        """What drivers were asked to do: for whom, and the token there."""
        self._token = 0
        self._due = DueTimes[bytes]()
        self._ticks = Ticks(options.tick_s, options.tick_s * ref.id[-1] / 256)
        self._beats = SharedBeats(options.group)
        self._touched: dict[bytes, None] = {}
        self._served: dict[bytes, bytes] = {}
        """The job of each tree whose root is here."""
        self._now = Instant(0.0, 0)
        self._out: list[Any] = []
        for key in sorted({name[:KEY_BYTES] for name in stored}):
            self._add(CommitGroup.reopen(key, ref, stored, options.group, rng))

    # the automaton

    @property
    def wake_at(self) -> float:
        """O(1), amortised."""
        return min(self._due.first, self._graves.again_at, self._beats.wake_at, self._foundings.due_s)

    def handle(self, event: Any, now: Instant) -> list[Any]:
        """O(jobs that the event is for, or whose time has come)."""
        self._now, self._out = now, []
        if isinstance(event, Received):
            self._message(event.sender, event.message)
        elif isinstance(event, AtRoot):
            # To a root each vertex of this node is a peer of its own: the tree's key names it.
            vertex = Ref(event.key, self.ref.address, self.ref.boot)
            self._to_root(self._served.get(event.key, event.key), Received(vertex, event.message))
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
        elif isinstance(event, PeerLost):
            self._peer_lost(event)
        elif isinstance(event, Overload):
            self._foundings.overload = event
        for key in self._foundings.due(now.s):
            self._found(key)
        self._settle()
        return self._out

    def _peer_lost(self, event: PeerLost) -> None:
        """O(jobs)."""
        for key, master in list(self._masters.items()):
            if master.group.leader == event.peer:
                self._from_group(key, master.group.handle(event, self._now))

    @property
    def needed(self) -> bool:
        """Whether this node is a member for some job, and there are others who could be. O(jobs)."""
        is_member = any(master.group.role is not Role.OUTSIDER for master in self._masters.values())
        return is_member and bool(self._ring.neighbours(self.ref.id, 1))

    def leads(self, key: bytes) -> bool:
        return key in self._masters and self._masters[key].leading

    def leader(self, key: bytes, now_s: float) -> Ref | None:
        """Who leads the job, as far as its group here knows."""
        if (master := self._masters.get(key)) is None:
            return None
        return self.ref if master.leading else master.group.known_leader(now_s)

    @property
    def led(self) -> list[bytes]:
        return sorted(key for key, master in self._masters.items() if master.leading)

    @property
    def figures(self) -> list[JobFigures]:
        """Of the jobs that are led here and have begun, as of a second ago at most. Any thread."""
        return [master.figures for master in list(self._masters.values()) if master.figures]

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
        for key in self._due.take(now.s):
            if (master := self._masters.get(key)) is None:
                continue
            if not master.group.is_due(now.s) and master.wake_at > now.s:
                self._due.set(key, master.wake_by(self._ticks))  # its lease was prolonged by shared beats
                continue
            self._touched[key] = None
            if master.group.wake_at <= now.s:
                self._from_group(key, master.group.handle(WAKE, now))
            if key in self._masters and master.root.wake_at <= now.s:
                self._from_root(key, master.root.handle(WAKE, now))
            if key in self._masters and master.results.wake_at <= now.s:
                self._to_results(key, WAKE)
        if self._beats.wake_at <= now.s:
            self._out += self._beats.wake(now.s)
        if self._graves.again_at <= now.s:
            self._out += self._graves.tried_again(self._masters)

    def _settle(self) -> None:
        """What follows for the jobs that something happened to, and when they have to be looked at again."""
        while self._touched:
            key, _ = self._touched.popitem()
            if key in self._masters:
                self._lead(key, self._masters[key])
            master = self._masters.get(key)
            self._due.set(key, NEVER if master is None else master.wake_at)
            self._beats.note(key, None if master is None else master.group, self._now.s)

    # groups

    def _add(self, group: CommitGroup) -> Mastership:
        key = group.log.key
        master = self._masters[key] = Mastership(
            group, self._root_of(None), Results(key, self.options.results)
        )
        self._due.set(key, 0.0)
        group.shares_beats = True
        return master

    def _group_of(self, key: bytes) -> CommitGroup | None:
        master = self._masters.get(key)
        return None if master is None else master.group

    def _root_of(self, state: bytes | None) -> Root:
        committed = restored(_Parts.decode(state), self._budget, self._sizes) if state else None
        return Root(self.ref, self._budget, self.options.root, self._sizes, committed)

    def _message(self, sender: Ref, message: Any) -> None:
        if isinstance(message, Beats):
            self._out += self._beats.heard(sender, message, self._group_of, self._now, self._foundings.is_late)
            return
        if isinstance(message, BeatsHeard):
            self._touched |= dict.fromkeys(self._beats.answered(sender, message, self._now))
            return
        key, master = message.group, self._masters.get(message.group)
        if isinstance(message, Seek):
            known = self.leader(key, self._now.s)
            if known is None and master is not None and master.group.role is not Role.OUTSIDER:
                known = self.ref
            self._out.append(Send(sender, Sought(key, known, self._foundings.is_overloaded)))
        elif isinstance(message, Sought):
            self._out += self._foundings.heard(sender, message)
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
        grave = self._graves.lineage(key)
        if grave is not None and message.lineage <= grave:
            self._out.append(Send(sender, Gone(key, grave)))
            return
        if (master := self._masters.get(key)) is None:
            if not isinstance(message, Append | SnapshotPart):
                return
            master = self._add(CommitGroup.join(key, self.ref, self.options.group, self._rng))
        if master.group.leader is None:
            master.spoke_s[sender.id] = self._now.s
        self._from_group(key, master.group.handle(Received(sender, message), self._now))

    def _from_group(self, key: bytes, effects: Iterable[Any]) -> None:
        self._touched[key] = None
        master = self._masters[key]
        for effect in effects:
            if key not in self._masters:
                return  # it was removed meanwhile
            if isinstance(effect, Write):
                self._out.append(effect._replace(token=self._given(key, master.group, effect.token)))
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
        self._serve(key, master)
        self._want(key, master)
        asks, master.submitted = master.submitted, []
        for ask in asks:
            self._from_desk(key, desk.ask(ask, self._now))

    def _following(self, key: bytes, master: Mastership, effect: Following) -> None:
        if (desk := master.follow()) is not None:
            self._out += desk.lost()
            self._serve(key, master)
        self._to_root(key, effect)
        for ask in master.submitted:
            self._out.append(Answer(ask.token, Refusal("busy", "another node leads the job now; ask again")))
        master.submitted = []

    def _serve(self, key: bytes, master: Mastership) -> None:
        """This node becomes the root of the trees that a job which it leads has now, and of no others."""
        before, master.trees = master.trees, master.wanted_trees(key)
        for tree in before:
            if tree not in master.trees:
                del self._served[tree]
                self._out.append(StopServing(tree))
        for tree in master.trees:
            if tree not in before:
                self._served[tree] = key
                self._out.append(Serve(tree))

    def _given(self, key: bytes, owner: CommitGroup | Results | Desk, token: int) -> int:
        given = self._next_token()
        self._tokens[given] = key, owner, token
        return given

    def _next_token(self) -> int:
        self._token += 1
        return self._token

    def _done(self, event: Stored | StoreFailed | Finished | ResultsRead) -> None:
        """A driver has done what it was asked for."""
        if isinstance(event, Stored | StoreFailed) and self._graves.done(event, self._now.s):
            return
        key, owner, token = self._tokens.pop(event.token)
        master, told = self._masters.get(key), event._replace(token=token)
        if master is not None and master.group is owner:
            self._from_group(key, master.group.handle(told, self._now))
        elif master is not None and master.results is owner:
            self._to_results(key, told)
        elif isinstance(told, ResultsRead) and master is not None and master.desk is owner:
            assert master.desk is not None, "it asked"
            self._from_desk(key, master.desk.read(told, self._now))

    def _claim(self, key: bytes) -> None:
        """Others look for the root here: the group says who it is."""
        leader = self.leader(key, self._now.s)
        if leader is not None:
            self._out.append(Serve(key) if leader == self.ref else ForwardTo(key, leader))

    # roots and results

    def _to_root(self, key: bytes, event: Any) -> None:
        if key in self._masters:
            self._from_root(key, self._masters[key].root.handle(event, self._now))

    def _from_root(self, key: bytes, effects: Iterable[Any]) -> None:
        self._touched[key] = None
        for effect in effects:
            if (master := self._masters.get(key)) is None:
                return
            if isinstance(effect, Send):
                self._out.append(ForVertex(effect.to.id, Received(self.ref, effect.message)))
            elif isinstance(effect, Propose):
                self._from_group(key, master.group.handle(effect, self._now))
            elif isinstance(effect, Spread):
                self._spread(key, effect.news)
            elif isinstance(effect, WindowPublished | ResultRecord):
                self._from_results(key, master.results.published((effect,), self._now))
            elif isinstance(effect, PlanAnswer):
                if master.desk is not None:
                    self._from_desk(key, master.desk.planned(effect, self._now))
            else:
                self._out.append(OfJob(key, effect))

    def _to_results(self, key: bytes, event: Any) -> None:
        master = self._masters[key]
        peers = [member for member in master.group.log.members if member.id != self.ref.id]
        settings, size_us = master.root.committed.settings, master.longest_us
        self._from_results(key, master.results.handle(event, self._now, peers, settings, size_us))

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
            cast = self.ref.boot.to_bytes(8, "big") + self._next_token().to_bytes(8, "big")
            payload = _encode(news)
            self._out += [Multicast(key, cast, payload), NewsHere(key, payload)]

    # requests

    def _ask(self, ask: Ask) -> None:
        key, master = ask.key, self._masters.get(ask.key)
        if isinstance(ask.request, RecoverJob):
            self._recover(ask, master)
        elif master is not None and master.desk is not None and not master.group.rules(self._now.s):
            self._refuse(ask, "busy", "it leads the job, and hears no majority of its members; ask again")
        elif master is not None and master.desk is not None:
            self._from_desk(key, master.desk.ask(ask, self._now))
        elif key in self._foundings and isinstance(ask.request, SubmitJob):
            self._foundings.join(ask)
        elif master is not None:
            leader = master.group.known_leader(self._now.s)
            known = Refusal("elsewhere", "another node leads the job", master=leader)
            self._out.append(Answer(ask.token, known if leader else master.standing(self._now.s)))
        elif not self._ring.active:
            self._refuse(ask, "busy", "this node is joining the fleet, or leaving it")
        elif not self._ring.is_closest(key):
            self._refuse(ask, "elsewhere", "another node is closer", self._ring.next_hop(key))
        elif isinstance(ask.request, SubmitJob):
            refused = self._foundings.refused(ask)
            self._out += refused
            if not refused:
                self._seek(ask)
        else:
            self._refuse(ask, "unknown", "there is no such job")

    def _recover(self, ask: Ask, master: Mastership | None) -> None:
        refusal = Refusal("unknown", "this node has nothing of the job", "name")
        refused = refusal if master is None else master.unrecoverable()
        if master is None or refused is not None:
            self._out.append(Answer(ask.token, refused))
            return
        self._from_group(ask.key, master.group.handle(Recover(), self._now))
        master.submitted.append(ask)

    def standing(self, key: bytes, now_s: float) -> Refusal | None:
        """Why there is no leader of a job whose group this node is in; None: it knows nothing of it."""
        master = self._masters.get(key)
        return None if master is None else master.standing(now_s)

    def _refuse(self, ask: Ask, kind: str, detail: str, master: Ref | None = None) -> None:
        self._out.append(Answer(ask.token, Refusal(kind, detail, master=master)))

    def _seek(self, ask: Ask) -> None:
        """Before a group begins: one may be there that has not spoken to this node yet."""
        near = [ref for ref in self._ring.neighbours(ask.key, 2 * self.options.group_size) if ref != self.ref]
        self._out += self._foundings.begin(ask, near, self._now.s + self.options.seek_s)

    def _found(self, key: bytes) -> None:
        """A group begins here, alone, and grows to the nodes closest to the key."""
        asks = self._foundings.end(key)
        if (master := self._masters.get(key)) is None:
            history = self._graves.history_above(key, self._now.wall_us)
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
            elif isinstance(effect, ReadResults):
                desk = self._masters[key].desk
                assert desk is not None, "a desk is there while it asks"
                self._out.append(effect._replace(token=self._given(key, desk, effect.token), key=key))
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
        self._due.set(key, NEVER)
        self._beats.note(key, None, self._now.s)
        if master.desk is not None:
            answers = [*master.desk.settle(self._now), *master.desk.lost()]
            self._out += [one for one in answers if isinstance(one, Answer)]
            master.desk = None
            self._serve(key, master)
        self._out += [
            Answer(ask.token, Refusal("busy", "the job is being removed")) for ask in master.submitted
        ]
        self._out += [*self._graves.bury(key, lineage), JobErased(key)]

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
        self._serve(key, master)
        master.root.hold_windows(master.results.crowded)
        self._from_desk(key, master.desk.settle(now))
        self._from_root(key, master.root.handle(WAKE, now))
        if now.s >= master.want_at:
            rest_s = self.options.want_rest_s if master.group.quiet else self.options.want_s
            master.want_at = self._ticks.after(now.s + rest_s)
            self._want(key, master)
        self._tell(key, master)
        ending = master.ending(now.s, self.options.idle_s)
        if ending is not None:
            self._to_root(key, ending)
        self._announce(key, master)
        master.look(now.s)
        self._touched.pop(key, None)

    def _want(self, key: bytes, master: Mastership) -> None:
        """The nodes closest to the key shall be the members, once nothing is lost by that."""
        closest = self._ring.neighbours(key, self.options.group_size)
        keeps = master.keeps(len(closest), lambda ref: self._ring.gone(ref, self._now.s), self._now.s, self.options)
        wanted = [*closest, *(member for member in keeps if member.id not in {ref.id for ref in closest})]
        self._from_group(key, master.group.handle(Want(tuple(wanted)), self._now))

    def _announce(self, key: bytes, master: Mastership) -> None:
        if not master.root.committed.exists:
            return
        notice = notice_of(master.root.committed)
        if notice != master.announced or self._now.s >= master.announce_at:
            master.announced, master.announce_at = notice, self._ticks.after(self._now.s + self.options.announce_s)
            self._out.append(Announce(key, notice))

    def _tell(self, key: bytes, master: Mastership) -> None:
        """A book goes down at once, or who joins the tree now has to wait for it; what else changed after `news_s`, the
        clock alone now and then."""
        now_s, options = self._now.s, self.options
        if not self._trees.serves(key):
            master.tell_at = now_s + options.news_s
            return
        news = master.root.news(self._now)
        timeless = msgspec.structs.replace(news, clock_us=0)
        due_s = master.told_s + (options.clock_s if timeless == master.told else options.news_s)
        if master.told is not None and news.version == master.told.version and now_s < due_s:
            master.tell_at = due_s
            return
        master.told, master.told_s, master.tell_at = timeless, now_s, self._ticks.after(now_s + options.clock_s)
        master.told_version += 1
        version, content = (master.group.epoch << 32) + master.told_version, _encode(news)
        self._out += [SetContent(key, version, content), NewsHere(key, content)]
