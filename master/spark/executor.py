"""What Spark calls on executors: functions over bytes and numbers, which it sends by name. Their work is in `tasks`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from master.spark.orders import Job, SplitTask

RUN, PLAIN, FAILED = 0, 1, 6
"""The first bytes of records of groups, of rows and of failures (records.py)."""
TOLD = 0
"""The partition that the driver asks for: what was counted, and the content of small tasks."""


def scan(job: bytes, lines: Any, size: Any, found: Iterator[bytes]) -> Iterator[bytes]:
    """Of `found`, encoded `SplitTask`s, what they make; `lines` and `size` are accumulators for the progress."""
    from master.spark.kernels import COMPILED

    def told(more_lines: int, more_bytes: int) -> None:
        lines.add(more_lines)
        size.add(more_bytes)

    splits = (msgspec.msgpack.decode(task, type=SplitTask) for task in found)
    if not COMPILED:
        from master.spark import plain_scan

        return plain_scan.scan(_job(job), splits, told)
    from master.spark import tasks

    return tasks.guarded(tasks.scan(_job(job), splits, told))


def scan_placed(
    job: bytes, lines: Any, size: Any, small_bytes: int, places: int, number: int, found: Iterator[bytes]
) -> Iterator[tuple[int, bytes]]:
    """What `scan` makes as task `number`, by the partition that has it."""
    return placed(scan(job, lines, size, found), small_bytes, 1 + number % places)


def placed(records: Iterator[bytes], small_bytes: int, place: int) -> Iterator[tuple[int, bytes]]:
    """The records of one task by partition: TOLD, but for the content of a task that has more than `small_bytes` of it. That
    waits in `place`. Holds at most `small_bytes`."""
    held: list[bytes] = []
    size = 0
    for record in records:
        if not is_content(record):
            yield TOLD, record
        elif size > small_bytes:
            yield place, record
        else:
            held.append(record)
            size += len(record)
            if size > small_bytes:
                yield from ((place, one) for one in held)
                held.clear()
    yield from ((TOLD, record) for record in held)


def route(job: bytes, stage: int, cuts: bytes, records: Iterator[bytes]) -> Iterator[tuple[int, bytes]]:
    """Runs by the number of the part that needs them."""
    from master.spark import tasks
    from master.spark.stretches import Stretch

    stretches = msgspec.msgpack.decode(cuts, type=tuple[Stretch, ...])
    return tasks.route(_job(job), stage, stretches, records)


def merge(
    job: bytes, stage: int, parts: Sequence[bytes], number: int, found: Iterator[tuple[int, bytes]]
) -> Iterator[bytes]:
    """What part `number` makes of its runs."""
    from master.spark import tasks
    from master.spark.stretches import Assignment

    if number >= len(parts):
        return iter(())
    assignment = msgspec.msgpack.decode(parts[number], type=Assignment)
    return tasks.guarded(tasks.merge(_job(job), stage, assignment, (run for _, run in found)))


def _job(data: bytes) -> Job:
    return msgspec.msgpack.decode(data, type=Job)


def as_it_is(number: int) -> int:
    """The partition of a part: it is numbered as the part is."""
    return number


def is_told(record: bytes) -> bool:
    """Whether a record says what was counted, and is no content."""
    return not is_content(record)


def is_content(record: bytes) -> bool:
    """Whether it is groups or rows."""
    return record[0] in (RUN, PLAIN)


def is_collected(record: bytes) -> bool:
    """Whether the driver needs it where it does all that follows: content, and why there is none."""
    return is_content(record) or record[0] == FAILED


def record_of(pair: tuple[int, bytes]) -> bytes:
    """What is in a partition, without its number."""
    return pair[1]


def listed(records: Iterator[bytes]) -> list[list[bytes]]:
    """All records of a part as one."""
    return [list(records)]
