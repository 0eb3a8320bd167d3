"""A world whose nodes speak over real links (srt/links.py): one per pair, of limited bandwidth, with queues and credits.

What arrives keeps its order and comes once, as over a connection; messages may still be lost with the network's chance.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from elfstream.fleet_wire import charged_to, fleet_wire
from elfstream.simulated.network import Network
from elfstream.simulated.world import Process, World
from srt.automaton import ANY_BOOT, NEVER, WAKE, PeerLost, Received, Ref, Send
from srt.link_messages import LINK_MESSAGES
from srt.links import Busy, Free, Hold, LinkDown, Links, Ready, Room
from srt.options import LinkOptions

_WIRE = fleet_wire()


@dataclass
class LinkCounts:
    """What happened on all links, and what came of credits that were exceeded."""

    busy: int = 0
    room: int = 0
    held: int = 0
    freed: int = 0
    unsound: int = 0
    down: int = 0


@dataclass
class _Ends:
    """The links of one boot of a process, and the state of its sockets."""

    boot: int
    links: Links
    sending: set[Ref] = field(default_factory=set)
    arrived_at: dict[Ref, float] = field(default_factory=dict)
    boots: dict[Ref, int] = field(default_factory=dict)
    """Of the peers that something came from."""
    refs: dict[Ref, Ref] = field(default_factory=dict)
    """Who answers at an address, as far as jobs were sent there."""
    undone: dict[int, tuple[Any, Ref, bytes, int]] = field(default_factory=dict)
    """Events that the core has not handled yet, by their id."""
    wake_at: float = NEVER


@dataclass(frozen=True)
class _Item:
    sender: Ref
    effect: Send
    key: bytes | None
    size: int


def _peer(address: str) -> Ref:
    """Links are between addresses here."""
    return Ref(bytes(16), address, ANY_BOOT)


class LinkedWorld(World):
    """`bytes_per_s` of each link and direction; `slow` overrides it for (from, to)."""

    def __init__(
        self, seed: int, network: Network | None = None, bytes_per_s: float = 1e6, options: LinkOptions | None = None
    ) -> None:
        super().__init__(seed, network)
        self.bytes_per_s = bytes_per_s
        self.slow: dict[tuple[str, str], float] = {}
        self.counts = LinkCounts()
        self.link_options = options or LinkOptions()
        self._ends: dict[str, _Ends] = {}
        self.handled.append(self._done)

    def ends(self, process: Process) -> _Ends:
        ends = self._ends.get(process.address)
        if ends is None or ends.boot != process.boot:
            ends = self._ends[process.address] = _Ends(process.boot, Links(self.link_options))
        return ends

    def _carry_out(self, process: Process, effect: Any) -> None:
        if isinstance(effect, Hold):
            self.counts.held += 1
            self.ends(process).links.hold(effect.key)
        elif isinstance(effect, Free):
            self.counts.freed += 1
            self._linked(process, self.ends(process).links.free(effect.key))
        else:
            super()._carry_out(process, effect)

    def _send(self, process: Process, effect: Send) -> None:
        assert process.core is not None
        ends, peer, key = self.ends(process), _peer(effect.to.address), charged_to(effect.message)
        size = len(_WIRE.encode(effect.message))
        if key is not None:
            ends.refs[peer] = effect.to
        item = _Item(process.core.ref, effect, key, size)
        self._linked(process, ends.links.send(peer, key, item, size))

    def _linked(self, process: Process, effects: list[Any]) -> None:
        """Carries out what links want."""
        ends = self.ends(process)
        for effect in effects:
            if isinstance(effect, Ready):
                self._pump(process, effect.peer)
            elif isinstance(effect, Busy | Room):
                self.counts.busy += isinstance(effect, Busy)
                self.counts.room += isinstance(effect, Room)
                told = effect._replace(peer=ends.refs.get(effect.peer, effect.peer))
                self._later(process, lambda told=told: self.give(process, told))
            elif isinstance(effect, Send):
                self._send(process, effect)
            else:
                assert isinstance(effect, LinkDown)
                self.counts.down += 1
        if ends.links.wake_at != ends.wake_at:
            ends.wake_at = ends.links.wake_at
            if ends.wake_at < NEVER:
                self._later(process, lambda: self._wake_links(process, ends), ends.wake_at)

    def _later(self, process: Process, action: Any, at: float = 0.0) -> None:
        boot = process.boot
        self.at(at, lambda: action() if process.boot == boot and process.core is not None else None)

    def _wake_links(self, process: Process, ends: _Ends) -> None:
        if self.now >= ends.wake_at:
            ends.wake_at = NEVER
            self._linked(process, ends.links.handle(WAKE, self.instant(process)))

    def _pump(self, process: Process, peer: Ref) -> None:
        """Gives the socket what goes next; it is ready for more when that has left."""
        ends = self.ends(process)
        if peer in ends.sending or process.core is None:
            return
        found = ends.links.take(peer, self.instant(process))
        if found is None:
            self._linked(process, [])
            return
        item, effects = found
        ends.sending.add(peer)
        rate = self.slow.get((process.address, peer.address), self.bytes_per_s)
        left = self.now + item.size / rate

        def next_one() -> None:
            ends.sending.discard(peer)
            self._pump(process, peer)

        self._later(process, next_one, left)
        for when in self.network.arrivals(process.address, peer.address, left, self.rng)[:1]:
            ends.arrived_at[peer] = max(when, ends.arrived_at.get(peer, 0.0))
            self.at(ends.arrived_at[peer], lambda: self._come(item))
        self._linked(process, effects)

    def _come(self, item: _Item) -> None:
        to = item.effect.to
        receiver = self.processes.get(to.address)
        if receiver is None or receiver.core is None or to.boot not in (ANY_BOOT, receiver.boot):
            self._bounce(item)
            return
        ends, peer, message = self.ends(receiver), _peer(item.sender.address), item.effect.message
        if ends.boots.setdefault(peer, item.sender.boot) != item.sender.boot:
            ends.boots[peer] = item.sender.boot
            self._linked(receiver, ends.links.handle(PeerLost(peer), self.instant(receiver)))
        if isinstance(message, LINK_MESSAGES):
            self._linked(receiver, ends.links.handle(Received(peer, message), self.instant(receiver)))
            return
        event = Received(item.sender, message)
        if item.key is not None:
            self.counts.unsound += not ends.links.came(peer, item.key, item.size)
            ends.undone[id(event)] = (event, peer, item.key, item.size)
        self.give(receiver, event)

    def _bounce(self, item: _Item) -> None:
        """Nobody answers: the connection is gone, and what waited for it."""
        origin = self.processes[item.sender.address]
        if self.hints and origin.boot == item.sender.boot and origin.core is not None:
            peer = _peer(item.effect.to.address)
            self._linked(origin, self.ends(origin).links.handle(PeerLost(peer), self.instant(origin)))
            if not isinstance(item.effect.message, LINK_MESSAGES):
                self.give(origin, PeerLost(item.effect.to))

    def _done(self, process: Process, event: Any) -> None:
        """The core has handled an event: the room of its bytes is free."""
        ends = self.ends(process)
        found = ends.undone.pop(id(event), None)
        if found is not None and process.core is not None:
            _, peer, key, size = found
            self._linked(process, ends.links.done(peer, key, size))
