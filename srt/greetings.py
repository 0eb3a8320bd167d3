"""The door: who is let in at /v1/peer, and what the others are told.

The dialler's greeting travels in a header of its upgrade request, so whoever is refused gets an HTTP status and a reason,
and holds no WebSocket meanwhile. The other greeting is the first message (docs/WIRE.md).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping

from aiohttp import web

from srt.automaton import ANY_BOOT
from srt.errors import VersionError, WireError
from srt.peer_counters import printable
from srt.peer_options import PeerAuth, certificate_names
from srt.wire import GREETING_BYTES_MAX, MESSAGE_BYTES_MAX, Greeting, agree, decode_greeting, encode_greeting

ROUTE = "/v1/peer"
GREETING_HEADER = "Elfstream-Greeting"
"""Of a dial: the greeting in base64."""
REFUSED_HEADER = "Elfstream-Refused"
"""Of an answer: the reason, a word of ours, and what to do."""
CROSSED = "crossed"
CLOSE_S = 1.0


class RefusedError(Exception):
    """A peer that is not let in: `reason` for counting, `status` and the text for the peer."""

    def __init__(self, reason: str, status: int, text: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(text)
        self.reason, self.status, self.headers = reason, status, headers or {}

    @classmethod
    def crossed(cls, mine: Greeting) -> RefusedError:
        """Says who we are, for a dialler that knew the address alone and may have our link already."""
        text = "this node dials you at the same time, and that link counts"
        return cls(CROSSED, 409, text, {GREETING_HEADER: greeting_text(mine)})

    def response(self) -> web.Response:
        headers = {
            **self.headers,
            REFUSED_HEADER: f"{self.reason}: {printable(str(self))}",
            "Connection": "close",
        }
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        if self.status == 426:
            headers["Upgrade"] = "websocket"
        return web.Response(status=self.status, text=f"{self}\n", headers=headers)


class Doorman:
    """Lets peers in."""

    def __init__(
        self, greeting: Greeting, auth: PeerAuth, objection: Callable[[Greeting], RefusedError | None]
    ) -> None:
        """`objection` is asked last, about those who may have a link."""
        self._greeting, self._auth, self._objection = greeting, auth, objection

    async def let_in(self, request: web.Request) -> tuple[Greeting, web.WebSocketResponse]:
        """The peer's greeting and the open WebSocket, ours sent. Raises RefusedError."""
        theirs = self._checked(request)
        objection = self._objection(theirs)
        if objection is not None:
            raise objection
        # A message of exactly the greatest size is allowed, and aiohttp refuses its limit itself.
        ws = web.WebSocketResponse(
            compress=False, autoping=False, max_msg_size=MESSAGE_BYTES_MAX + 1, timeout=CLOSE_S
        )
        if not ws.can_prepare(request):
            raise RefusedError("request", 426, "this is for nodes, which speak WebSocket here")
        try:
            await ws.prepare(request)
            await ws.send_bytes(encode_greeting(self._greeting))
        except ConnectionError as error:
            raise RefusedError("gone", 400, "the connection ended during the greeting") from error
        return theirs, ws

    def _checked(self, request: web.Request) -> Greeting:
        if "Origin" in request.headers:
            # A page in somebody's browser must not be able to speak as a node of their machine.
            raise RefusedError("origin", 403, "this is for nodes, not for web pages")
        if not self._auth.has_token(request.headers.get("Authorization", "")):
            raise RefusedError(
                "token", 401, "the token is missing or wrong: all nodes of a fleet need the same one"
            )
        names: frozenset[str] = frozenset()
        if self._auth.certificate_required:
            transport = request.transport
            names = certificate_names(transport.get_extra_info("peercert") if transport is not None else None)
            if not names:
                raise RefusedError("certificate", 403, "a certificate of this fleet's authority is required")
        theirs = self._greeting_of(request)
        host = theirs.ref.address.rpartition(":")[0].strip("[]")
        if names and host not in names:
            raise RefusedError(
                "certificate", 403, f"your certificate does not name {host}, which you say you are"
            )
        return theirs

    def _greeting_of(self, request: web.Request) -> Greeting:
        text = request.headers.get(GREETING_HEADER, "")
        if not text:
            raise RefusedError("request", 400, f"this is for nodes, which send the header {GREETING_HEADER}")
        try:
            theirs = read_greeting(text)
        except WireError as error:
            raise RefusedError("greeting", 400, f"the greeting cannot be read: {error}") from None
        try:
            agree(self._greeting, theirs)
        except VersionError as error:
            raise RefusedError("version", 426, str(error)) from None
        except WireError as error:
            raise RefusedError("fleet", 403, str(error)) from None
        mine = self._greeting.ref
        if theirs.ref.id == mine.id:
            raise RefusedError(
                "self", 409, f"{mine.address} has this id too: two nodes must not share a data_dir's copy"
            )
        if theirs.ref.boot == ANY_BOOT:
            raise RefusedError("greeting", 400, "a node that runs has a boot above 0")
        return theirs


def greeting_headers(greeting: Greeting, auth: PeerAuth) -> dict[str, str]:
    """What a dial presents."""
    return {GREETING_HEADER: greeting_text(greeting), **auth.headers}


def greeting_text(greeting: Greeting) -> str:
    """As it stands in a header."""
    return base64.b64encode(encode_greeting(greeting)).decode()


def read_greeting(text: str) -> Greeting:
    """The greeting of a header. WireError when it is none."""
    if len(text) > 2 * GREETING_BYTES_MAX:
        raise WireError(f"a greeting of {len(text)} characters")
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise WireError(f"no base64: {error}") from None
    return decode_greeting(data)
