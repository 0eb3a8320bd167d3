"""Finding peers: one dial per address at a time, with growing pauses after failures."""

from __future__ import annotations

import asyncio
import os
import random
import ssl
from collections import OrderedDict, deque
from collections.abc import Callable, Container
from dataclasses import dataclass, field

import aiohttp

from srt.automaton import Ref
from srt.errors import VersionError, WireError
from srt.greetings import (
    CLOSE_S,
    CROSSED,
    GREETING_HEADER,
    REFUSED_HEADER,
    ROUTE,
    greeting_headers,
    read_greeting,
)
from srt.peer_counters import printable
from srt.peer_options import PeerAuth, PeerOptions
from srt.wire import MESSAGE_BYTES_MAX, Greeting, agree, decode_greeting


class DialError(Exception):
    """No link: `reason` for counting. `by`: who said so, as far as it is known."""

    def __init__(self, reason: str, text: str, by: Ref | None = None) -> None:
        super().__init__(text)
        self.reason, self.by = reason, by


@dataclass
class Dial:
    """An address that is being dialled, or will be when its pause is over."""

    address: str
    bytes_max: int
    wanted: dict[Ref, None] = field(default_factory=dict)
    """Peers whose messages wait in the links."""
    waiting: deque[tuple[Ref, bytes | None, bytes]] = field(default_factory=deque)
    """Messages for whoever answers."""
    waiting_bytes: int = 0
    under_way: bool = False

    def wait(self, to: Ref, key: bytes | None, data: bytes) -> int:
        """Keeps a message until somebody answers; the oldest give way. How many did."""
        self.waiting.append((to, key, data))
        self.waiting_bytes += len(data)
        dropped = 0
        while self.waiting_bytes > self.bytes_max:
            self.waiting_bytes -= len(self.waiting.popleft()[2])
            dropped += 1
        return dropped


@dataclass
class _Backoff:
    failures: int = 0
    until: float = 0.0


Connected = Callable[[Dial, Ref, aiohttp.ClientWebSocketResponse | None], None]
Failed = Callable[[Dial, str, str], None]


class Dials:
    """`connected` and `failed` are called in the loop, once per dial."""

    def __init__(
        self,
        greeting: Greeting,
        auth: PeerAuth,
        options: PeerOptions,
        rng: random.Random,
        linked: Container[Ref],
        connected: Connected,
        failed: Failed,
    ) -> None:
        self._greeting, self._auth, self._options, self._rng = greeting, auth, options, rng
        self._linked, self._connected, self._failed = linked, connected, failed
        self._dials: dict[str, Dial] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._backoffs: OrderedDict[str, _Backoff] = OrderedDict()
        self._session: aiohttp.ClientSession
        self._slots = asyncio.Semaphore(options.dials_max)

    async def start(self) -> None:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=10),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),
        )

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._session.close()

    def to(self, address: str) -> Dial:
        """The dial of an address, begun if need be."""
        dial = self._dials.get(address)
        if dial is None:
            dial = self._dials[address] = Dial(address, self._options.waiting_bytes_max)
            task = asyncio.get_running_loop().create_task(self._run(dial))
            self._tasks[address] = task
        return dial

    @property
    def waiting_bytes(self) -> int:
        """Of messages for whoever answers. O(dials)."""
        return sum(dial.waiting_bytes for dial in self._dials.values())

    def under_way(self, address: str) -> bool:
        """Whether the address is being dialled now."""
        dial = self._dials.get(address)
        return dial is not None and dial.under_way

    def came(self, peer: Ref) -> None:
        """The peer dialled us and was let in: no need to dial it."""
        dial = self._dials.get(peer.address)
        if dial is not None:
            self._done(dial)
            self._tasks.pop(dial.address).cancel()
            self._backoffs.pop(dial.address, None)
            self._connected(dial, peer, None)

    # one dial

    async def _run(self, dial: Dial) -> None:
        backoff = self._backoffs.get(dial.address)
        loop = asyncio.get_running_loop()
        try:
            if backoff is not None:
                await asyncio.sleep(backoff.until - loop.time())
            async with self._slots, asyncio.timeout(self._options.dial_s):
                dial.under_way = True
                ref, ws = await self._connect(dial.address)
        except DialError as error:
            self._over(dial)
            self._failed(dial, error.reason, str(error))
        except TimeoutError:
            self._over(dial)
            self._failed(dial, "timeout", f"nobody answered within {self._options.dial_s} s")
        else:
            self._done(dial)
            self._tasks.pop(dial.address, None)
            self._backoffs.pop(dial.address, None)
            self._connected(dial, ref, ws)

    def _over(self, dial: Dial) -> None:
        self._done(dial)
        self._tasks.pop(dial.address, None)
        options = self._options
        backoff = self._backoffs.setdefault(dial.address, _Backoff())
        self._backoffs.move_to_end(dial.address)
        while len(self._backoffs) > options.backoffs_max:
            self._backoffs.popitem(last=False)
        pause_s = min(options.backoff_max_s, options.backoff_first_s * 2 ** min(backoff.failures, 30))
        backoff.failures += 1
        backoff.until = asyncio.get_running_loop().time() + pause_s * (0.5 + 0.5 * self._rng.random())

    def _done(self, dial: Dial) -> None:
        self._dials.pop(dial.address, None)

    async def _connect(self, address: str) -> tuple[Ref, aiohttp.ClientWebSocketResponse | None]:
        while True:
            try:
                return await self._try(address)
            except DialError as error:
                if error.reason != CROSSED:
                    raise
                if error.by is not None and error.by in self._linked:
                    return error.by, None  # found under another address than it gives
            # Either the peer's own dial arrives, and ends this one, or its link is dead: it knows within `probe_s`.
            await asyncio.sleep(1.25 * self._options.probe_s)

    async def _try(self, address: str) -> tuple[Ref, aiohttp.ClientWebSocketResponse]:
        context = self._auth.dial_context
        try:
            ws = await self._session.ws_connect(
                f"{'ws' if context is None else 'wss'}://{address}{ROUTE}",
                headers=greeting_headers(self._greeting, self._auth),
                ssl=True if context is None else context,
                compress=0,
                autoping=False,
                max_msg_size=MESSAGE_BYTES_MAX + 1,
                timeout=aiohttp.ClientWSTimeout(ws_close=CLOSE_S),
            )
        except aiohttp.WSServerHandshakeError as error:
            said = "" if error.headers is None else error.headers.get(REFUSED_HEADER, "")
            reason, _, text = said.partition(": ")
            told = printable(text) or "it is no node, or something stands between"
            if reason == CROSSED:
                raise DialError(CROSSED, told, _said_by(error)) from None
            raise DialError("refused", f"refused with {error.status}: {told}") from None
        except aiohttp.ClientConnectorCertificateError as error:
            raise DialError("certificate", _untrusted(error.certificate_error)) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise DialError("unreachable", _why(error, context is not None)) from None
        try:
            return await self._greeted(ws), ws
        except BaseException:
            await ws.close()
            raise

    async def _greeted(self, ws: aiohttp.ClientWebSocketResponse) -> Ref:
        message = await ws.receive()
        if message.type is not aiohttp.WSMsgType.BINARY:
            raise DialError("greeting", "it ended the connection instead of a greeting")
        try:
            theirs = decode_greeting(message.data)
            agree(self._greeting, theirs)
        except VersionError as error:
            raise DialError("version", str(error)) from None
        except WireError as error:
            raise DialError("greeting", str(error)) from None
        return theirs.ref


def _untrusted(error: Exception) -> str:
    """What is wrong with its certificate, and where to look."""
    said = getattr(error, "verify_message", "") or str(error)
    if "not valid for" in said:
        return f"its certificate is for another name: {said}"
    return f"its certificate is not trusted: {said}; all nodes need certificates of the authority in security.ca"


def _why(error: Exception, tls: bool) -> str:
    """What the system says, without the address that the message has already; and how the ends differ, if it is that."""
    inner = getattr(error, "os_error", error)
    if isinstance(inner, ssl.SSLError):
        return f"TLS fails ({inner.reason or inner}): this node has security.cert, has it one, too?"
    number = getattr(inner, "errno", None)
    if isinstance(number, int) and number > 0:
        text = os.strerror(number).lower()
    else:
        text = getattr(inner, "strerror", None) or str(error)
    if isinstance(inner, aiohttp.ServerDisconnectedError | ConnectionResetError):
        end = "security.cert may not be of its authority" if tls else "it may want TLS, and this node has no security.cert"
        return f"{text.lower()} instead of an answer: {end}"
    return text or type(error).__name__


def _said_by(error: aiohttp.WSServerHandshakeError) -> Ref | None:
    try:
        return read_greeting(error.headers.get(GREETING_HEADER, "") if error.headers else "").ref
    except WireError:
        return None
