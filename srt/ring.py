"""The ring: who is near on it, the way to any key, and what happens when nodes come and go.

Pastry (Rowstron and Druschel 2001) with the consistent joins and failure detection of MSPastry (Castro, Costa and Rowstron,
*Performance and dependability of structured peer-to-peer overlays*, DSN 2004). docs/RING.md says how the parts act together.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from enum import Enum
from itertools import pairwise
from typing import Any, NamedTuple

from srt.automaton import ANY_BOOT, NEVER, Instant, PeerLost, Received, Ref, Send, Wake
from srt.failure_detector import FailureDetector, Lost, Quarantine, Question
from srt.founding import Founding
from srt.ids import DIGITS, shared_prefix
from srt.options import RingOptions
from srt.ring_messages import (
    HOPS_MAX,
    REFS_MAX,
    Announce,
    Dead,
    JoinReply,
    LeafReply,
    LeafRequest,
    Leave,
    Ping,
    Pong,
    RingJoin,
    RowRequest,
    Rows,
)
from srt.routes import Routes

SEEDS_ASKED = 8
"""At a time."""
_PING = Ping()


class RingState(Enum):
    JOINING = "joining"
    """Looks for the nodes around its place, through one seed after the other."""
    PROBING = "probing"
    """Knows them; waits until each of them has answered, and so knows of it. Not yet responsible for any key."""
    ACTIVE = "active"
    LEFT = "left"


TRANSITIONS: dict[tuple[RingState, str], RingState] = {
    (RingState.JOINING, "neighbours told"): RingState.PROBING,
    (RingState.JOINING, "founds"): RingState.ACTIVE,
    (RingState.JOINING, "leave"): RingState.LEFT,
    (RingState.PROBING, "all answered"): RingState.ACTIVE,
    (RingState.PROBING, "none is left"): RingState.JOINING,
    (RingState.PROBING, "leave"): RingState.LEFT,
    (RingState.ACTIVE, "leave"): RingState.LEFT,
}
"""The life of a node of the ring; docs/RING.md draws it."""


class LeaveRing(NamedTuple):
    """Event: go, and tell the neighbours."""


class MembersChanged(NamedTuple):
    """Effect: nodes that came into the leaf set and went out of it, dead, gone or farther than others."""

    came: tuple[Ref, ...]
    went: tuple[Ref, ...]


class RingActive(NamedTuple):
    """Effect: from now on this node answers for the keys it is closest to."""


class Ring:
    """One node's view of the ring. State is bounded by the options: leaf set, 15 log16 N links, quarantine, lost."""

    def __init__(
        self,
        ref: Ref,
        seeds: Iterable[str],
        rng: random.Random,
        options: RingOptions | None = None,
        role: int = 0,
    ) -> None:
        """`seeds` are addresses of any nodes. Without any, or as one of them, a node may found a ring. `role`, 0 to 15, is
        told to the others."""
        seeds = tuple(seeds)
        self.ref = ref
        self.number = ref.number
        self.options = options or RingOptions()
        self.state = RingState.JOINING
        self.counts: dict[str, int] = {}
        """What came from outside and was ignored, by reason; and how often what happened."""
        self._rng = rng
        self._seeds = tuple(seed for seed in seeds if seed != ref.address)
        self._founding = Founding(ref, seeds, self.options)
        self._silence = FailureDetector(self.options)
        self.routes = Routes(ref, self.options.leaf_size, self._silence.silent)
        self.leaf, self.table = self.routes.leaf, self.routes.table
        self._quarantine = Quarantine(self.options.quarantine_max, self.options.quarantine_s)
        self._lost = Lost(self.options.lost_max, self._seeds)
        self._patience_s = self.options.lease_s / self.options.tries
        self._role = role
        self._roles: dict[int, int] = {}
        """Roles other than 0 of nodes that told theirs."""
        self._leaf_request = LeafRequest(role)
        self._heard_s: dict[int, float] = {}
        """When the nearest neighbours spoke last."""
        self._held: list[RingJoin] = []
        self._join_at = 0.0
        self._tick_at = self._upkeep_at = self._repair_at = self._lost_at = NEVER
        self._came: dict[Ref, None] = {}
        self._went: dict[Ref, None] = {}
        self._out: list[Any] = []

    # what others ask

    @property
    def active(self) -> bool:
        return self.state is RingState.ACTIVE

    @property
    def wake_at(self) -> float:
        if self.state is RingState.LEFT:
            return NEVER
        return min(
            self._join_at, self._tick_at, self._upkeep_at, self._repair_at, self._lost_at, self._silence.next_due
        )

    def next_hop(self, key: bytes, avoiding: Iterable[Ref] = ()) -> Ref | None:
        """The next node on the way to a key; None when this node is the closest it knows."""
        return self.routes.next_hop(key, avoiding)

    def is_closest(self, key: bytes) -> bool:
        """Whether this node is active and no node it knows is closer. O(log leaf set)."""
        return self.active and self.next_hop(key) is None

    def neighbours(self, key: bytes, count: int) -> list[Ref]:
        """The `count` live nodes closest to a key, closest first, this one among them unless it has left; true where this
        node is near it."""
        if self.state is not RingState.LEFT:
            return self.routes.neighbours(key, count)
        return [ref for ref in self.routes.neighbours(key, count + 1) if ref.id != self.ref.id][:count]

    def gone(self, ref: Ref, now_s: float) -> bool:
        """Whether it was found dead, or left, not long ago."""
        if ref.id == self.ref.id:
            return self.state is RingState.LEFT
        return self._quarantine.holds(ref.number, ref.boot, now_s)

    def with_role(self, role: int) -> list[Ref]:
        """The nodes known here that said this is what they are for."""
        found = (self.routes.known(number) for number, held in self._roles.items() if held == role)
        return [ref for ref in found if ref is not None]

    def suspect(self, ref: Ref, now: Instant) -> list[Any]:
        """Somebody above did not get an answer: ask the node, and remove it should it stay silent."""
        number = ref.number
        if self.routes.known(number) == ref:
            self._ask(ref, number, _PING, now.s, tell=self.leaf.get(number) is not None)
        return self._effects()

    def silent(self, ref: Ref) -> bool:
        """Whether it owes an answer."""
        return self._silence.silent(ref.number)

    # events

    def handle(self, event: Any, now: Instant) -> list[Any]:
        if self.state is RingState.LEFT:
            return self._behind(event, now.s)
        if isinstance(event, Received):
            self._receive(event.sender, event.message, now.s)
        elif isinstance(event, Wake):
            self._wake(now.s)
        elif isinstance(event, PeerLost):
            return self.suspect(event.peer, now)
        elif isinstance(event, LeaveRing):
            self._leave()
        return self._effects()

    def _receive(self, sender: Ref, message: Any, now_s: float) -> None:
        number = sender.number
        if number == self.number:
            self._count("own id used by another")
            return
        if not self._listen(sender, number, message, now_s):
            return
        handler = _HANDLERS.get(type(message))
        if handler is None:
            self._count("unknown message")
        else:
            handler(self, sender, message, now_s)

    def _listen(self, sender: Ref, number: int, message: Any, now_s: float) -> bool:
        """Takes note that a node lives. False: an older boot than the one known."""
        known = self.leaf.get(number)
        if known is not None and known.boot > sender.boot:
            self._count("message of an older boot")
            return False
        if number in self._heard_s:
            self._heard_s[number] = now_s
        kind = type(message)
        # While joining only a leaf set shows that the other got the request, and so knows of this node.
        counts = kind is LeafReply or self.state is not RingState.PROBING
        joins = counts and self._silence.heard(sender, number)
        self._lost.found(number)
        if kind is Leave or kind is RingJoin:
            return True
        if known is not None and known.boot == sender.boot:
            return True
        if not joins and self._quarantine.holds(number, sender.boot, now_s):
            # It may be a message from before its death, late on its way: an answer to a question proves more.
            self._quarantine.lift(number)
            self._consider((sender,), now_s)
            return True
        if joins or kind in _FROM_MEMBERS:
            self._quarantine.lift(number)
            if self.state is not RingState.JOINING and self.leaf.fits(number):
                self._admit(sender, number, now_s)
                if joins and self.active:
                    # A gap was filled, perhaps from the wrong side: look again until nothing changes.
                    self._repair_at = min(self._repair_at, now_s + self._patience_s / 4)
            self.table.offer(sender, number)
        return True

    # joining

    def _also_joining(self, sender: Ref, message: RingJoin, now_s: float) -> None:
        """Of two nodes that are joining each hears of the other; a member that looks for a lost part has been found."""
        if sender.id != message.newcomer.id:
            return
        if message.row == DIGITS:
            self._send(sender, RingJoin(self.ref, 0, 0, self._founding.is_seed))
        elif self._founding.heard(sender, message.is_seed, message.hops == 0, now_s):
            self._send(sender, RingJoin(self.ref, 0, 1, self._founding.is_seed))

    def _on_join(self, sender: Ref, message: RingJoin, now_s: float) -> None:
        newcomer, place = message.newcomer, message.newcomer.number
        if message.hops > HOPS_MAX:
            self._count("route too long")
            return
        if self.state is RingState.JOINING or place == self.number:
            self._also_joining(sender, message, now_s)
            return
        shared = shared_prefix(self.number, place)
        if message.row <= shared:
            rows = [ref for ref in self.table.rows(message.row, shared) if ref.id != newcomer.id]
            self._send(newcomer, Rows([self.ref, *rows][:REFS_MAX], self._role))
        onward = RingJoin(newcomer, max(message.row, min(shared + 1, DIGITS)), message.hops + 1)
        known = self.routes.known(place)
        following = self.next_hop(newcomer.id, () if known is None else (known,))
        if following is not None:
            self._send(following, onward)
            if self.active and self.table.towards(place) is None and not self.leaf.covers(place):
                self._send(following, RowRequest(shared))  # the table has a gap here
        elif self.active:
            self._answer_join(onward)
        elif len(self._held) < self.options.held_joins_max:
            self._held.append(onward)

    def _answer_join(self, message: RingJoin) -> None:
        refs = [self.ref, *(ref for ref in self.leaf if ref.id != message.newcomer.id)]
        self._send(message.newcomer, JoinReply(refs, message.hops))

    def _on_join_reply(self, _: Ref, message: JoinReply, now_s: float) -> None:
        if self.state is RingState.JOINING:
            self._move("neighbours told")
            self._join_at = NEVER
            self.counts["join hops"] = message.hops
        # Asked for on purpose: also those believed dead are asked, so that halves of a ring find each other.
        self._consider(message.refs, now_s, doubt=False)
        self._settle(now_s)

    def _on_rows(self, sender: Ref, message: Rows, now_s: float) -> None:
        for ref in message.refs:
            number = ref.number
            if not self._quarantine.holds(number, ref.boot, now_s):
                self.table.offer(ref, number)
        self._note_role(sender, message.role)
        if self.state is RingState.ACTIVE:
            self._consider(message.refs, now_s)

    def _settle(self, now_s: float) -> None:
        """Ends the probing when nobody is left to answer."""
        if self.state is not RingState.PROBING or self._silence.candidates():
            return
        if len(self.leaf) == 0:
            self._move("none is left")
            self._join_at = now_s
            return
        self._move("all answered")
        self._activate(now_s)
        announce = Announce(self._role)
        for ref in self.routes.peers():
            self._send(ref, announce)
        # A second opinion on each row: what the nodes on the way lacked, others have.
        for row in range(self.table.depth()):
            if entries := self.table.rows(row, row):
                self._send(self._rng.choice(entries), RowRequest(row))

    def _activate(self, now_s: float) -> None:
        self._out.append(RingActive())
        self._tick_at = now_s + self._patience_s * self._rng.random()
        self._upkeep_at = now_s + self.options.upkeep_s * self._rng.random()
        self._lost_at = now_s + self.options.lost_retry_s * (0.5 + self._rng.random())
        self._watch_neighbours(now_s)
        for message in self._held:
            self._on_join(message.newcomer, message, now_s)
        self._held.clear()

    def _try_join(self, now_s: float) -> None:
        if self._founding.is_due(now_s):
            self._join_at = NEVER
            self._move("founds")
            self._activate(now_s)
            return
        # Who may found a ring has to know of the others that may.
        is_seed = self._founding.is_seed
        for seed in self._rng.sample(self._seeds, min(len(self._seeds), SEEDS_ASKED if is_seed else 1)):
            self._send(Ref(bytes(16), seed, ANY_BOOT), RingJoin(self.ref, 0, 0, is_seed))
        self._join_at = now_s + self.options.join_retry_s * (0.75 + 0.5 * self._rng.random())

    def _leave(self) -> None:
        farewell, short = Leave(list(self.leaf)), Leave([])
        for ref in self.routes.peers():
            self._send(ref, farewell if self.leaf.get(ref.number) else short)
        self._move("leave")

    def _behind(self, event: Any, now_s: float) -> list[Any]:
        """Who has left still has to know who else goes: it hands over to those who stay."""
        going = event.peer if isinstance(event, PeerLost) else None
        if isinstance(event, Received) and isinstance(event.message, Leave):
            going = event.sender
        if going is not None and self.routes.known(going.number) == going:
            self._remove(going, going.number, now_s)
        return self._effects()

    # neighbours

    def _on_leaf_request(self, sender: Ref, message: LeafRequest, now_s: float) -> None:
        self._note_role(sender, message.role)
        self._send(sender, LeafReply([ref for ref in self.leaf if ref.id != sender.id], self._role))

    def _on_leaf_reply(self, sender: Ref, message: LeafReply, now_s: float) -> None:
        if self.state is RingState.JOINING:
            return
        self._note_role(sender, message.role)
        self._consider(message.refs, now_s)
        self._settle(now_s)

    def _on_ping(self, sender: Ref, _: Ping, now_s: float) -> None:
        self._send(sender, Pong(list(self.leaf.beside())))

    def _on_pong(self, _: Ref, message: Pong, now_s: float) -> None:
        self._consider(message.beside, now_s)

    def _on_announce(self, sender: Ref, message: Announce, now_s: float) -> None:
        self.table.offer(sender, sender.number)
        self._note_role(sender, message.role)

    def _on_dead(self, sender: Ref, message: Dead, now_s: float) -> None:
        recently = now_s - self._patience_s
        for ref in message.refs:
            number = ref.number
            if self.routes.known(number) == ref and self._heard_s.get(number, -NEVER) < recently:
                self._ask(ref, number, _PING, now_s, tell=False, tries=2)

    def _on_leave(self, sender: Ref, message: Leave, now_s: float) -> None:
        self._remove(sender, sender.number, now_s)
        self._consider(message.refs, now_s)

    def _on_row_request(self, sender: Ref, message: RowRequest, now_s: float) -> None:
        rows = [ref for ref in self.table.rows(message.row, message.row) if ref.id != sender.id]
        self._send(sender, Rows([self.ref, *rows], self._role))

    def _consider(self, refs: Iterable[Ref], now_s: float, doubt: bool = True) -> None:
        """Nodes heard of: those that belong into the leaf set are asked first, others may fill the table."""
        if self.state is RingState.JOINING:
            return
        offered: dict[int, Ref] = {}
        leaf = self.leaf
        for ref in refs:
            number = int.from_bytes(ref.id, "big")
            if not leaf.lacks(number, ref.boot):
                continue
            if (doubt and self._quarantine.holds(number, ref.boot, now_s)) or ref.boot == ANY_BOOT:
                continue
            offered[number] = ref
        if not offered:
            return
        tries = 2 if self.active else 0  # whoever joins must be sure; a member that repairs asks the next one
        for ref in leaf.best(offered, self._silence.candidates(silent=False)):
            self._ask(ref, ref.number, self._leaf_request, now_s, tell=False, joins=True, tries=tries)

    def _admit(self, ref: Ref, number: int, now_s: float) -> None:
        former = self.leaf.get(number)
        if former is not None:
            self._note_gone(former)
        gone = self.leaf.put(ref, number)
        if gone is not None:
            self._note_gone(gone)
            self.table.offer(gone, gone.number)
        if ref in self._went:
            del self._went[ref]
        elif gone is not ref:
            self._came[ref] = None
        self._watch_neighbours(now_s)

    def _note_gone(self, ref: Ref) -> None:
        if ref in self._came:
            del self._came[ref]
        else:
            self._went[ref] = None

    def _watch_neighbours(self, now_s: float) -> None:
        heard = self._heard_s
        self._heard_s = {number: heard.get(number, now_s) for number in (r.number for r in self.leaf.beside())}

    def _remove(self, ref: Ref, number: int, now_s: float) -> None:
        """A boot is no more: takes it out of everything and lets the gap be repaired."""
        self._quarantine.add(number, ref.boot, now_s)
        self._silence.forget(number)
        if self.leaf.get(number) is not None:
            gone = self.leaf.remove(number)
            if gone is not None:
                self._note_gone(gone)
            self._repair_at = min(self._repair_at, now_s + self._patience_s / 4)
            self._watch_neighbours(now_s)
        self.table.remove(number)

    # time

    def _wake(self, now_s: float) -> None:
        late_s = now_s - self.wake_at
        if late_s > self._patience_s and self._founding.began:
            self._count("was stopped")
            self._silence.postpone(now_s)
            self._heard_s = dict.fromkeys(self._heard_s, now_s)
        again, dead = self._silence.overdue(now_s)
        for question in again:
            self._send(question.ref, question.message)
            if question.missed == 1:
                self._look_behind(question.ref, now_s)
                if question.joins:
                    self._repair_at = now_s
        if dead:
            self._bury(dead, now_s)
        if now_s >= self._join_at:
            self._try_join(now_s)
        if now_s >= self._tick_at:
            self._tick_at = now_s + self._patience_s
            for ref in self.leaf.beside():
                number = ref.number
                if now_s - self._heard_s.get(number, now_s) >= self._patience_s * 0.9:
                    # Its silence so far counts as the first try, so that all of it takes one lease.
                    self._ask(ref, number, _PING, now_s, tell=True, tries=self.options.tries - 1)
        if now_s >= self._repair_at:
            self._repair(now_s)
        if now_s >= self._upkeep_at:
            self._upkeep(now_s)
        if now_s >= self._lost_at:
            self._look_for_lost(now_s)

    def _look_behind(self, ref: Ref, now_s: float) -> None:
        """A member is silent: ask the next behind it already now, so that a row of dead nodes takes no longer than one."""
        for on in (True, False):
            members = self.leaf.side(on)
            for member, behind in pairwise(members):
                if member.id == ref.id:
                    self._ask(behind, behind.number, _PING, now_s, tell=True)

    def _bury(self, dead: list[Question], now_s: float) -> None:
        told = []
        for question in dead:
            number = question.ref.number
            known = self.routes.known(number)
            if known is not None and known.boot > question.ref.boot:
                continue
            if known is not None:
                self._count("dead")
                self._lost.add(known, number)
            if question.tell and self.leaf.get(number) is not None:
                told.append(question.ref)
            self._remove(question.ref, number, now_s)
            if question.joins:
                self._repair_at = now_s
        if told:
            news = Dead(told[:REFS_MAX])
            for ref in self.leaf:
                self._send(ref, news)
        self._settle(now_s)

    def _repair(self, now_s: float) -> None:
        """Asks those at the ends of the leaf set for more, and offers it what the table knows."""
        self._repair_at = NEVER
        for ref in {ref.id: ref for ref in (*self.leaf.ends(), *self.leaf.beside())}.values():
            self._ask(ref, ref.number, self._leaf_request, now_s, tell=True)
        if not self.leaf.full:
            self._consider(list(self.table), now_s)

    def _upkeep(self, now_s: float) -> None:
        """Now and then: compare leaf sets with a member, and a row with an entry of the table. Finds silent deaths, too."""
        self._upkeep_at = now_s + self.options.upkeep_s * (0.75 + 0.5 * self._rng.random())
        members = list(self.leaf)
        if members:
            ref = self._rng.choice((*members, *self.leaf.beside() * 4))
            self._ask(ref, ref.number, self._leaf_request, now_s, tell=True)
        entries = list(self.table)
        if entries:
            ref = self._rng.choice(entries)
            row = shared_prefix(self.number, ref.number)
            self._ask(ref, ref.number, RowRequest(row), now_s, tell=False)

    def _look_for_lost(self, now_s: float) -> None:
        """Routes a join for its own place through a node it lost, or a seed: finds the other part of a ring cut in two.

        Seeds get about 20 of these a second from all nodes together, however many there are.
        """
        self._lost_at = now_s + self.options.lost_retry_s * (0.75 + 0.5 * self._rng.random())
        target = self._lost.choose(self._rng, 100.0 / self.routes.size_estimate())
        if target is not None:
            self._send(target, RingJoin(self.ref, DIGITS, 0))

    # small things

    def _note_role(self, ref: Ref, role: int) -> None:
        number = ref.number
        if role == 0:
            self._roles.pop(number, None)
        elif self.routes.known(number) is not None:
            self._roles[number] = role
            if len(self._roles) > 2 * (len(self.leaf) + len(self.table)):
                self._roles = {held: what for held, what in self._roles.items() if self.routes.known(held)}

    def _ask(
        self, ref: Ref, number: int, message: Any, now_s: float, *, tell: bool, joins: bool = False, tries: int = 0
    ) -> None:
        if self._silence.ask(ref, number, message, now_s, tell=tell, joins=joins, tries=tries):
            self._send(ref, message)

    def _move(self, trigger: str) -> None:
        self.state = TRANSITIONS[self.state, trigger]

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def _send(self, to: Ref, message: Any) -> None:
        self._out.append(Send(to, message))

    def _effects(self) -> list[Any]:
        if self._came or self._went:
            self._out.append(MembersChanged(tuple(self._came), tuple(self._went)))
            self._came.clear()
            self._went.clear()
        out, self._out = self._out, []
        return out


_HANDLERS: dict[type, Any] = {
    RingJoin: Ring._on_join,
    JoinReply: Ring._on_join_reply,
    Rows: Ring._on_rows,
    RowRequest: Ring._on_row_request,
    LeafRequest: Ring._on_leaf_request,
    LeafReply: Ring._on_leaf_reply,
    Ping: Ring._on_ping,
    Pong: Ring._on_pong,
    Announce: Ring._on_announce,
    Dead: Ring._on_dead,
    Leave: Ring._on_leave,
}
_FROM_MEMBERS = frozenset({LeafRequest, LeafReply, Ping, Pong, Announce})
"""Whoever sends these takes part in the ring."""
