"""Links over real sockets: one WebSocket per peer, dialled by whoever has something to say first (docs/DAEMON.md).

Lives in the loop's thread. `srt/links.py` decides what goes next and who has credit, `srt/peer_socket.py` moves bytes,
`srt/dials.py` finds peers, `srt/greetings.py` decides who is let in; here they meet.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import aiohttp
from aiohttp import WSCloseCode, web

from srt.automaton import ANY_BOOT, WAKE, Instant, PeerLost, Received, Ref, Send
from srt.dials import Dial, Dials
from srt.errors import WireError
from srt.greetings import CLOSE_S, CROSSED, ROUTE, Doorman, RefusedError
from srt.link_messages import Grant, SentSoFar
from srt.links import LinkDown, Links, Ready
from srt.peer_counters import LOG, Refusals, Traffic
from srt.peer_options import PeerAuth, PeerOptions
from srt.peer_socket import GOING, IDLE, REPLACED, PeerSocket, WebSocket
from srt.wire import Greeting, Wire

LOOK_S = 0.25
"""Between two looks at what did not happen in time."""
_FAULTS = ("garbage", "oversize", "slow", "silent", "credit")

Post = Callable[[Any, Callable[[], None] | None], None]
"""Takes an event for the core, and what to call in the core's thread when it has been dealt with."""


class PeerState(NamedTuple):
    """A link, for those who watch."""

    peer: Ref
    dialled: bool
    traffic: Traffic


class PeerLinks:
    """All links of one node. The events are Received, PeerLost, Busy and Room."""

    def __init__(
        self,
        greeting: Greeting,
        wire: Wire,
        charged_to: Callable[[Any], bytes | None],
        links: Links,
        app: web.Application,
        post: Post,
        clock: Callable[[], Instant],
        rng: random.Random,
        auth: PeerAuth = PeerAuth(),  # noqa: B008 - frozen
        options: PeerOptions = PeerOptions(),  # noqa: B008 - frozen
    ) -> None:
        """`greeting` says who we are, `charged_to` under which key a message is queued (None: control). Adds the route
        /v1/peer to `app`. OptionsError: `options` do not fit those of `links`."""
        options.fit(links.options)
        self.ref, self.options, self._greeting = greeting.ref, options, greeting
        self.refusals = Refusals()
        self.traffic = Traffic()
        """Of links that are over; `peers` has the others."""
        self.dropped = 0
        """Messages that were waiting for a link when it broke, or never came about."""
        self.last_failure = ""
        """Why the dial that failed last did, for who has no link at all."""
        self._wire, self._charged_to, self._links, self._post, self._clock = (
            wire,
            charged_to,
            links,
            post,
            clock,
        )
        self._sockets: dict[Ref, PeerSocket] = {}
        self._at: dict[str, Ref] = {}
        """Who answers at an address, as far as there is a link."""
        self._dials = Dials(greeting, auth, options, rng, self._sockets, self._connected, self._failed)
        self._doorman = Doorman(greeting, auth, self._objection)
        self._dealt: deque[tuple[PeerSocket, bytes | None, int]] = deque()
        self._dealt_told = False
        self._closing = False
        self._running: set[asyncio.Task[Any]] = set()
        self._looking: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop
        app.router.add_get(ROUTE, self._accept)

    async def start(self) -> None:
        """In the loop that all else is called in; before the first `send`."""
        self._loop = asyncio.get_running_loop()
        self._looking = self._loop.create_task(self._look())
        await self._dials.start()

    async def close(self) -> None:
        """Tells the peers that we go, and ends all links and dials. No further events."""
        self._closing = True
        if self._looking is not None:
            self._looking.cancel()
        await self._dials.close()
        for socket in self._sockets.values():
            socket.end(GOING, code=WSCloseCode.GOING_AWAY)
        if self._running:
            _, late = await asyncio.wait(self._running, timeout=2 * CLOSE_S)
            for task in late:
                task.cancel()

    # what cores want

    def send(self, to: Ref, message: Any) -> None:
        """Best effort, as `Send` says. WireError: it is no message, or too long."""
        data = self._wire.encode(message)
        key = self._charged_to(message)
        if self._closing:
            return
        peer = self._linked(to)
        if peer is not None:
            self._carry(self._links.send(peer, key, data, len(data)))
        elif self._is_over(to):
            self.dropped += 1
            self._post(PeerLost(to), None)
        elif to.boot == ANY_BOOT:
            self.dropped += self._dials.to(to.address).wait(to, key, data)
        else:
            self._dials.to(to.address).wanted[to] = None
            self._carry(self._links.send(to, key, data, len(data)))

    def hold(self, key: bytes) -> None:
        """No further credit for this job."""
        self._links.hold(key)

    def free(self, key: bytes) -> None:
        self._carry(self._links.free(key))

    def peers(self) -> list[PeerState]:
        """The links that there are."""
        return [PeerState(socket.peer, socket.dialled, socket.traffic) for socket in self._sockets.values()]

    @property
    def held_bytes(self) -> int:
        """Messages that wait for a peer, or for the core. O(links)."""
        undealt = sum(socket.undealt_bytes for socket in self._sockets.values())
        return self._links.queued_bytes + self._dials.waiting_bytes + undealt

    def _linked(self, to: Ref) -> Ref | None:
        if to.boot != ANY_BOOT:
            return to if to in self._sockets else None
        found = self._at.get(to.address)
        return found if found is not None and _is_meant(to, found) else None

    def _is_over(self, to: Ref) -> bool:
        """Whether it is this node, another boot of it, or a boot of a peer that has a link with a later one."""
        if to.address == self.ref.address:
            return True
        found = self._at.get(to.address)
        return found is not None and found.id == to.id and to.boot != ANY_BOOT and to.boot < found.boot

    # what links want

    def _carry(self, effects: Iterable[Any]) -> None:
        for effect in effects:
            if isinstance(effect, Ready):
                socket = self._sockets.get(effect.peer)
                if socket is not None:
                    socket.wake()
            elif isinstance(effect, Send):
                if effect.to in self._sockets:
                    data = self._wire.encode(effect.message)
                    self._carry(self._links.send(effect.to, None, data, len(data)))
            elif isinstance(effect, LinkDown):
                self.dropped += len(effect.waiting)
            else:
                self._post(effect, None)

    def _take(self, peer: Ref) -> bytes | None:
        found = self._links.take(peer, self._clock())
        if found is None:
            return None
        self._carry(found[1])
        data: bytes = found[0]
        return data

    # what peers say

    def _came(self, socket: PeerSocket, data: bytes) -> None:
        peer, size = socket.peer, len(data)
        try:
            message = self._wire.decode(data)
        except WireError as error:
            socket.end("garbage", str(error), WSCloseCode.INVALID_TEXT)
            return
        if isinstance(message, Grant | SentSoFar):
            self._carry(self._links.handle(Received(peer, message), self._clock()))
            return
        key = self._charged_to(message)
        if key is not None and not self._links.came(peer, key, size):
            socket.end("credit", "it sends more than it was granted")
            return
        socket.owe(size)
        self._post(Received(peer, message), partial(self._was_dealt_with, socket, key, size))

    def _was_dealt_with(self, socket: PeerSocket, key: bytes | None, size: int) -> None:
        """In the core's thread."""
        self._dealt.append((socket, key, size))
        if not self._dealt_told:
            self._dealt_told = True
            with suppress(RuntimeError):  # the loop is closed: the node ends
                self._loop.call_soon_threadsafe(self._take_dealt)

    def _take_dealt(self) -> None:
        self._dealt_told = False
        while self._dealt:
            socket, key, size = self._dealt.popleft()
            socket.dealt(size)
            if key is not None and self._sockets.get(socket.peer) is socket:
                self._carry(self._links.done(socket.peer, key, size))

    # how links begin

    async def _accept(self, request: web.Request) -> web.StreamResponse:
        try:
            theirs, ws = await self._doorman.let_in(request)
        except RefusedError as refused:
            if refused.reason == CROSSED:
                self.refusals.counts[CROSSED] += 1
            else:
                self.refusals.count(refused.reason, f"refused {request.remote}: {refused}", self._clock().s)
            return refused.response()
        socket = self._socket(ws, theirs.ref, dialled=False)
        self._dials.came(theirs.ref)
        self._register(socket)
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        await self._live(socket)
        return ws

    def handshake_failed(self, problem: str) -> None:
        """At the port, before anything was asked: of a peer or of anybody (srt/handshakes.py)."""
        self.refusals.count("tls", f"a TLS handshake failed: {problem}", self._clock().s)

    def _socket(self, ws: WebSocket, peer: Ref, dialled: bool) -> PeerSocket:
        return PeerSocket(ws, peer, dialled, self.options, self._take, self._came)

    def _objection(self, theirs: Greeting) -> RefusedError | None:
        """Why this peer cannot have a link now, although it is one of us."""
        if self._closing:
            return RefusedError("going", 503, "this node is about to stop")
        current = self._sockets.get(theirs.ref)
        if current is None and len(self._sockets) >= self.options.peers_max:
            return RefusedError("peers", 503, f"this node has {self.options.peers_max} links already")
        # Both dial at once: the greater one's dial counts. Its link may be up here and not there yet, so if it is not
        # the cause, the peer lost it: then it will not answer.
        ours_counts = self.ref > theirs.ref
        if ours_counts and current is not None and current.dialled:
            current.probe()
            return RefusedError.crossed(self._greeting)
        if ours_counts and self._dials.under_way(theirs.ref.address):
            return RefusedError.crossed(self._greeting)
        return None

    def _connected(self, dial: Dial, theirs: Ref, ws: aiohttp.ClientWebSocketResponse | None) -> None:
        """Somebody answered a dial, or (`ws` None) has a link already."""
        for wanted in dial.wanted:
            if wanted != theirs:
                self._lost(wanted)
        for to, key, data in dial.waiting:
            if _is_meant(to, theirs):
                self._carry(self._links.send(theirs, key, data, len(data)))
            else:
                self.dropped += 1
                self._post(PeerLost(to), None)
        if ws is not None:
            self._dialled(self._socket(ws, theirs, dialled=True))

    def _dialled(self, socket: PeerSocket) -> None:
        current = self._sockets.get(socket.peer)
        if current is not None and not current.dialled and socket.peer > self.ref:
            # Found under another address while it dialled us: both ends keep the link of the greater.
            socket.end(REPLACED, code=WSCloseCode.OK)
        else:
            self._register(socket)
        task = self._loop.create_task(self._live(socket))
        self._running.add(task)
        task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            LOG.error("a link ended by an error of this program", exc_info=problem)

    def _failed(self, dial: Dial, reason: str, detail: str) -> None:
        self.last_failure = f"no link to {dial.address}: {detail}"
        self.refusals.count(reason, self.last_failure, self._clock().s)
        for wanted in dial.wanted:
            self._lost(wanted)
        for to in dict.fromkeys(to for to, _, _ in dial.waiting):
            self._post(PeerLost(to), None)
        self.dropped += len(dial.waiting)

    # how links live and end

    def _register(self, socket: PeerSocket) -> None:
        peer = socket.peer
        self._replace(peer)
        self._sockets[peer] = socket
        self._at[peer.address] = peer
        socket.wake()

    async def _live(self, socket: PeerSocket) -> None:
        reason, detail = "closed", ""
        try:
            reason, detail = await socket.run()
        finally:
            self._ended(socket, reason, detail)

    def _replace(self, peer: Ref) -> None:
        """A new link takes the place of the one that the peer no longer has. What waits goes over it, and totals begin anew,
        as they do there. A link to an earlier boot is over."""
        old = self._sockets.pop(peer, None)
        if old is not None:
            old.end(REPLACED, code=WSCloseCode.OK)
            self.traffic.add(old.traffic)
            for effect in self._links.handle(PeerLost(peer), self._clock()):
                if isinstance(effect, LinkDown):
                    for key, data in effect.waiting:
                        self._carry(self._links.send(peer, key, data, len(data)))
                else:
                    self._carry([effect])
        before = self._at.get(peer.address)
        if before is not None and before.id == peer.id and before.boot < peer.boot:
            self._sockets[before].end(REPLACED, code=WSCloseCode.OK)

    def _ended(self, socket: PeerSocket, reason: str, detail: str) -> None:
        peer = socket.peer
        if reason in _FAULTS:
            self.refusals.count(
                reason, f"ended the link with {peer.address}: {reason}: {detail}", self._clock().s
            )
        if self._sockets.get(peer) is not socket:
            return
        del self._sockets[peer]
        if self._at.get(peer.address) == peer:
            del self._at[peer.address]
        self.traffic.add(socket.traffic)
        self._lost(peer, quiet=reason == IDLE)

    def _lost(self, peer: Ref, quiet: bool = False) -> None:
        """There is no link to this peer; `quiet`: which is no news unless something waits for it."""
        effects = self._links.handle(PeerLost(peer), self._clock())
        waited = any(isinstance(effect, LinkDown) and effect.waiting for effect in effects)
        self._carry(effects)
        if (waited or not quiet) and not self._closing:
            self._post(PeerLost(peer), None)

    async def _look(self) -> None:
        looked_s = self._loop.time()
        while True:
            await asyncio.sleep(LOOK_S)
            now = self._clock()
            if self._links.wake_at <= now.s:
                self._carry(self._links.handle(WAKE, now))
            now_s = self._loop.time()
            late_s, looked_s = now_s - looked_s - LOOK_S, now_s
            for socket in list(self._sockets.values()):
                if late_s > LOOK_S:
                    socket.excuse(late_s)
                socket.look(now_s)


def _is_meant(to: Ref, found: Ref) -> bool:
    """Whether a message for `to`, of any boot, is for the node that was found at its address."""
    return to.id in (found.id, bytes(len(found.id)))
