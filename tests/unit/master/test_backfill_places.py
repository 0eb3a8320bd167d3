"""Where the records of a task wait: with the driver, or for the shuffle."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from master.spark.executor import PLAIN, RUN, TOLD, placed

TOLD_RECORD = bytes([5]) + b"counts"
CONTENT = [bytes([kind]) + bytes(99) for kind in (RUN, PLAIN, RUN)]
RECORDS = [*CONTENT[:2], TOLD_RECORD, *CONTENT[2:], TOLD_RECORD]


@pytest.mark.parametrize("small_bytes", [0, 99, 100, 200, 299])
def test_the_content_of_large_tasks_waits(small_bytes: int) -> None:
    found = list(placed(iter(RECORDS), small_bytes, 7))
    assert [record for place, record in found if place == TOLD] == [TOLD_RECORD, TOLD_RECORD]
    assert [record for place, record in found if place == 7] == CONTENT


def test_the_content_of_small_tasks_goes_to_the_driver() -> None:
    found = list(placed(iter(RECORDS), 300, 7))
    assert {place for place, _ in found} == {TOLD}
    assert sorted(record for _, record in found) == sorted(RECORDS)


def test_no_more_than_a_small_task_has_is_held() -> None:
    taken = 0

    def endless() -> Iterator[bytes]:
        nonlocal taken
        while True:
            taken += 1
            yield CONTENT[0]

    found = placed(endless(), 250, 1)
    assert next(found) == (1, CONTENT[0])
    assert taken == 3
