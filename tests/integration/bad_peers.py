"""Strangers at the port of a real node, each with bad manners of its own. Plain sockets: nothing here keeps them polite."""

from __future__ import annotations

import gzip
import random
import re
import socket
import struct
import urllib.request
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from elfstream.fleet_wire import fleet_wire
from srt.automaton import Ref
from srt.frame_messages import ForJob, Frame
from srt.options import LinkOptions
from srt.ring_messages import LeafRequest
from srt.wire import MESSAGE_BYTES_MAX
from tests.integration.fleet_processes import ROOT, NodeProcess
from tests.patience import PATIENCE_S
from tests.peers import greeting_header

BOMB_BYTES = 64 << 20
_CLOSE, _PONG = 8, 10
"""Kinds of frames of WebSocket."""
_PING = bytes((0x89, 0x80)) + bytes(4)
"""A masked frame; those of control have short lengths alone."""
_UPGRADE = (
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="
)
_GOLDEN = ROOT / "tests" / "golden" / "wire_messages.txt"


class BadPeers:
    """Against one node. Every method ends with the node having answered, or ended the connection."""

    def __init__(self, node: NodeProcess, token: str, seed: int = 0) -> None:
        self.node, self.token = node, token
        self._rng = random.Random(seed)
        self._number = 0

    # who is not let in

    def refused(self) -> dict[str, str]:
        """Reason: the line that the node refused with, for each kind of greeting that is no good."""
        me, ours = self._stranger(), self._own_id()
        asks = {
            "token": (self._hello(me), "wrong token"),
            "version": (greeting_header(me, versions=(90, 99), fleet="default"), self.token),
            "fleet": (greeting_header(me, fleet="another"), self.token),
            "greeting": ({"Elfstream-Greeting": "%%%"}, self.token),
            "origin": ({**self._hello(me), "Origin": "http://evil.example"}, self.token),
            "request": ({}, self.token),
            "self": (self._hello(Ref(ours, "127.0.0.1:9", 1)), self.token),
        }
        return {reason: self._dial(headers, token)[1] for reason, (headers, token) in asks.items()}

    def _own_id(self) -> bytes:
        request = urllib.request.Request(
            f"{self.node.url}/v1/nodes/self", headers={"Authorization": f"Bearer {self.token}"}
        )
        with urllib.request.urlopen(request) as answer:
            found = re.search(r'"id":"([0-9a-f]{32})"', answer.read().decode())
        assert found is not None
        return bytes.fromhex(found[1])

    # who is let in, and should not have been

    def frames(self) -> dict[str, str]:
        """What is wrong with a frame, and the reason it is counted under."""
        ping, bomb = b"\x91\xa2ri", zlib.compress(bytes(BOMB_BYTES))[2:-4]
        bad = {
            "longer than allowed": ("oversize", _frame(2, b"", MESSAGE_BYTES_MAX + 1)),
            "2**63 bytes": ("oversize", _frame(2, b"", 2**63 - 1)),
            "fragments without end": ("oversize", _frame(2, b"a", first=0) + _frame(0, bytes(1 << 20), first=0) * 9),
            "no message": ("garbage", _frame(2, b"\xc1\xff\x00")),
            "unknown tag": ("garbage", _frame(2, b"\x91\xa2zz")),
            "bytes left over": ("garbage", _frame(2, ping + b"x")),
            "deep nesting": ("garbage", _frame(2, b"\x91" * 100_000)),
            "a text": ("garbage", _frame(1, b"hello")),
            "a bomb": ("garbage", _frame(2, bomb, first=0xC0)),
            "a reserved kind": ("garbage", _frame(11, b"")),
        }
        for data in (data for _, data in bad.values()):
            self._send(data)
        return {what: reason for what, (reason, _) in bad.items()}

    def fuzz(self, links: int) -> int:
        """Real messages with a few bytes changed, ten a link. How many of the links the node ended."""
        samples = [bytes.fromhex(line.split()[-1]) for line in _GOLDEN.read_text().splitlines() if line[:2] != "--"]
        ended = 0
        for _ in range(links):
            frames = b""
            for sample in self._rng.choices(samples, k=10):
                data = bytearray(sample)
                for _ in range(self._rng.randrange(1, 4)):
                    data[self._rng.randrange(len(data))] = self._rng.randrange(256)
                frames += _frame(2, bytes(data))
            ended += self._send(frames)
        return ended

    def polite(self) -> bool:
        """A message as it should be. Whether the node ended the link."""
        return self._send(_frame(2, b"\x91\xa2ri"))

    def flood(self) -> None:
        """Frames of jobs that there are not, as fast as they are taken."""
        wire = fleet_wire()
        for _ in range(8):
            part = Frame(1, 0, True, False, self._rng.randbytes(1000) * 250)
            self._send(_frame(2, wire.encode(ForJob(self._rng.randbytes(16), part))) * 16)

    def over_credit(self) -> bool:
        """Twice what a link has credit for, at once. Whether the node ended the link."""
        part = Frame(1, 0, True, False, self._rng.randbytes(250_000))
        frame = _frame(2, fleet_wire().encode(ForJob(self._rng.randbytes(16), part)))
        return self._send(frame * (2 * LinkOptions().credit_bytes // len(frame)))

    @contextmanager
    def deaf(self) -> Iterator[None]:
        """Somebody who asks for a lot and reads nothing."""
        ask = _frame(2, fleet_wire().encode(LeafRequest(0)))
        with self._linked(receive_bytes=4096) as own:
            own.sendall(ask * 40_000)
            yield

    # who speaks HTTP

    def bomb_over_http(self) -> int:
        """The status that a small body of many unpacked bytes gets."""
        body = gzip.compress(b'{"name": "' + b"a" * BOMB_BYTES + b'"}')
        lines = ("POST /v1/jobs HTTP/1.1", f"Host: 127.0.0.1:{self.node.port}", f"Authorization: Bearer {self.token}",
                 "Content-Type: application/json", "Content-Encoding: gzip", f"Content-Length: {len(body)}")  # fmt: skip
        with closing(self._connect()) as own:
            with suppress(ConnectionError):  # it may answer before it has read all
                own.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
            return int(own.recv(1000).split()[1])

    # sockets

    def _stranger(self) -> Ref:
        self._number += 1
        return Ref(self._rng.randbytes(16), f"127.0.0.1:{self._number}", 1)

    def _hello(self, who: Ref) -> dict[str, str]:
        return greeting_header(who, fleet="default")

    def _connect(self, receive_bytes: int = 0) -> socket.socket:
        own = socket.socket()
        if receive_bytes:
            own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        own.settimeout(PATIENCE_S)
        own.connect(("127.0.0.1", self.node.port))
        return own

    def _dial(self, headers: dict[str, str], token: str, receive_bytes: int = 0) -> tuple[socket.socket, str]:
        """The connection, and the line of the answer that says why it is refused, if it is."""
        own = self._connect(receive_bytes)
        lines = ["GET /v1/peer HTTP/1.1", f"Host: 127.0.0.1:{self.node.port}", _UPGRADE, f"Authorization: Bearer {token}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        own.sendall("\r\n".join(lines).encode() + b"\r\n\r\n")
        answer = b""
        while b"\r\n\r\n" not in answer and (data := own.recv(4096)):
            answer += data
        found = re.search(rb"elfstream-refused: ([^\r]*)", answer, re.IGNORECASE)
        if found is None:
            return own, ""
        own.close()
        return own, found[1].decode()

    def _linked(self, receive_bytes: int = 0) -> socket.socket:
        own, refused = self._dial(self._hello(self._stranger()), self.token, receive_bytes)
        assert refused == ""
        return own

    def _send(self, data: bytes) -> bool:
        """Over a link of its own, and then a ping, which is answered once all before it was read. Whether the node ended the
        link instead."""
        with self._linked() as own:
            with suppress(ConnectionError):
                own.sendall(data + _PING)
            return next(kind for kind in _frames(own) if kind in (_CLOSE, _PONG)) == _CLOSE


def _frame(opcode: int, payload: bytes, length: int | None = None, first: int = 0x80) -> bytes:
    """A masked frame, as a dialler sends it; `length` may lie."""
    size = len(payload) if length is None else length
    return struct.pack("!BBQ", first | opcode, 0xFF, size) + bytes(4) + payload


def _frames(own: socket.socket) -> Iterator[int]:
    """Kinds of the frames that come, until the connection ends: that counts as _CLOSE."""
    data = b""
    while True:
        more = b""
        with suppress(ConnectionError):
            more = own.recv(1 << 16)
        if not more:
            yield _CLOSE
            return
        data += more
        while len(data) >= 2:
            kind, size, head = data[0] & 15, data[1] & 127, 2
            if size >= 126:
                head = 4 if size == 126 else 10
                size = int.from_bytes(data[2:head], "big")
            if len(data) < head + size:
                break
            data = data[head + size :]
            yield kind


def token_file(folder: Path, token: str) -> Path:
    """A file that nodes take their token from."""
    file = folder / "token"
    file.touch(0o600)
    file.write_text(token)
    return file
