"""A node that writes down when each stage of a window's way was done there: `python -m bench.traced_node node -c FILE`.

For bench/bench_stages.py: wraps the drivers and cores from outside, so that the product measures nothing of the kind. Each
line of the file that `ELFSTREAM_TRACE` names is: monotonic seconds, stage, job's key, stream or "", time or end of the
window in microseconds. `ELFSTREAM_SLOW_DISK_S` delays each sync of a batch of writes, as a slow disk does.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

import agent.streams
import elfstream.running_node
from agent.driver import LogsThread
from agent.log_reader import LogReader
from agent.stream import Stream
from elfstream.core_thread import CoreThread
from elfstream.questions import Bell
from job.plan_book import NEVER_US
from master.entries import Publish
from master.group_commit import Tail
from master.masters import Masters
from master.root import Root
from srt.automaton import Received
from srt.stores import Stores

LONG_S = 0.005
"""What holds a thread for so long is written down, too."""
_trace = os.open(os.environ["ELFSTREAM_TRACE"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
_slow_disk_s = float(os.environ.get("ELFSTREAM_SLOW_DISK_S", "0"))


def note(stage: str, key: bytes = b"", stream: str = "", time_us: float = 0, at_s: float | None = None) -> None:
    moment_s = time.monotonic() if at_s is None else at_s
    os.write(_trace, f"{moment_s:.6f} {stage} {key.hex() or '-'} {stream or '-'} {time_us:.0f}\n".encode())


def long(what: str, began_s: float, cpu_s: float) -> None:
    took_s = time.monotonic() - began_s
    if took_s >= LONG_S:
        note("long", stream=f"{what},{(time.thread_time() - cpu_s) * 1e3:.1f}", time_us=took_s * 1e6, at_s=began_s)


def wrap(owner: Any, name: str, wrapper: Callable[..., Any]) -> None:
    before = getattr(owner, name)
    setattr(owner, name, lambda *args, **named: wrapper(before, *args, **named))


def timed(owner: Any, name: str, what: Callable[..., str]) -> None:
    def around(before: Any, *args: Any, **named: Any) -> Any:
        began_s, cpu_s = time.monotonic(), time.thread_time()
        try:
            return before(*args, **named)
        finally:
            long(what(*args), began_s, cpu_s)

    wrap(owner, name, around)


def note_spans(stage: str, key: bytes, spans: Iterable[Any]) -> None:
    for span in spans:
        if span.stream.is_live and span.watermark_us is not None and span.watermark_us < NEVER_US:
            note(stage, key, span.stream.agent.hex()[:8], span.watermark_us)


# the agent


def advance(before: Any, reader: LogReader, ask: Any) -> Any:
    began_s, cpu_s = time.monotonic(), time.thread_time()
    told = before(reader, ask)
    long("advance", began_s, cpu_s)
    if told.heard:
        heard_us = max(told.heard.values())
        note("asked", time_us=heard_us, at_s=asked.pop(ask.token, began_s))
        note("begun", time_us=heard_us, at_s=began_s)
        note("read", time_us=heard_us)
    return told


asked: dict[int, float] = {}


def give(before: Any, thread: LogsThread, ask: Any) -> None:
    asked[ask.token if hasattr(ask, "token") else -1] = time.monotonic()
    before(thread, ask)


def taken(before: Any, streams: Any, event: Any) -> None:
    if event.heard:
        note("taken", time_us=max(event.heard.values()))
    before(streams, event)


def send(before: Any, streams: Any, job: Any, stream: Stream) -> None:
    sent = {id(piece) for way in stream.ways for piece in stream.to_send(way)}
    before(streams, job, stream)
    if sent and stream.live:
        for piece in stream.pieces:
            if id(piece) in sent and piece.sent_s and piece.watermark_us is not None and piece.watermark_us < NEVER_US:
                note("sent", job.key, stream.id.agent.hex()[:8], piece.watermark_us)


# the root


class Whose:
    """Which job's root is at work."""

    masters: Any = None
    root: Any = None

    @classmethod
    def key(cls) -> bytes:
        return next((key for key, one in cls.masters._masters.items() if one.root is cls.root), b"")


def made(before: Any, masters: Any, *args: Any) -> None:
    Whose.masters = masters
    before(masters, *args)


def root_event(before: Any, root: Root, event: Any, now: Any) -> Any:
    Whose.root = root
    return before(root, event, now)


def root_frame(before: Any, root: Root, sender: Any, frame: Any) -> Any:
    note_spans("arrived", Whose.key(), frame.spans)
    return before(root, sender, frame)


def ship(before: Any, tail: Tail) -> Any:
    entries = before(tail)
    if entries and tail.sent is not None:
        note_group("proposed", tail)
    return entries


def settled(before: Any, tail: Tail) -> Any:
    note_group("committed", tail)
    return before(tail)


def note_group(stage: str, tail: Tail) -> None:
    key = Whose.key()
    assert tail.sent is not None
    note_spans(stage, key, tail.sent.spans.values())
    for entry in [*tail.sent.entries, *tail.sent.finals]:
        if isinstance(entry, Publish) and entry.status == "final":
            note(f"{stage}-final", key, time_us=entry.end_us)


def finish(before: Any, effect: Any, memory: Any) -> Any:
    began_s, cpu_s = time.monotonic(), time.thread_time()
    done = before(effect, memory)
    long("finish", began_s, cpu_s)
    if effect.end_us is not None and effect.status == "final":
        note("finished", time_us=effect.end_us)
    return done


def rung(before: Any, bell: Bell, key: bytes) -> None:
    note("told", key)
    before(bell, key)


# threads


def store(before: Any, stores: Stores, batch: Any) -> Any:
    began_s, cpu_s = time.monotonic(), time.thread_time()
    if _slow_disk_s and not all(waiting.write.lazy for waiting in batch):
        time.sleep(_slow_disk_s)
    done = before(stores, batch)
    names = "+".join(sorted({waiting.write.store for waiting in batch}))
    note("disk", stream=f"{names},{len(batch)},{(time.thread_time() - cpu_s) * 1e3:.1f}",
         time_us=(time.monotonic() - began_s) * 1e6, at_s=began_s)  # fmt: skip
    return done


def kind(_thread: CoreThread, event: Any) -> str:
    if not isinstance(event, Received):
        return f"core:{type(event).__name__}"
    body = getattr(event.message, "body", event.message)
    return f"core:{type(body).__name__}"


def main() -> None:
    wrap(LogReader, "advance", advance)
    wrap(LogsThread, "give", give)
    timed(LogsThread, "_fold", lambda *_: "slice")
    wrap(agent.streams.Streams, "_advanced", taken)
    wrap(agent.streams.Streams, "_send", send)
    wrap(Masters, "__init__", made)
    wrap(Root, "handle", root_event)
    wrap(Root, "_frame", root_frame)
    wrap(Tail, "ship", ship)
    wrap(Tail, "settled", settled)
    wrap(elfstream.running_node, "finish", finish)
    wrap(Bell, "ring", rung)
    wrap(Stores, "_to_files", store)
    wrap(Stores, "_to_database", store)
    timed(CoreThread, "_handle", kind)
    threading.excepthook = lambda hook: os._exit(71)
    from elfstream.cli import main as run

    run()


if __name__ == "__main__":
    main()
