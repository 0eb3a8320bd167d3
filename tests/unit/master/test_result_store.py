"""What retention dropped is noted, so that readers who were away are told."""

from __future__ import annotations

from master.result_store import StoredResults
from tests.memory_fleet import MemoryFleet


def test_the_newest_dropped_index_is_known() -> None:
    fleet = MemoryFleet()
    key = fleet.empty_job("x")
    reader = StoredResults(fleet.store)
    assert reader.dropped_index(key) == 0
    for number in range(4):
        fleet.publish("x", number * 10, [])
    fleet.drop("x", 6)
    assert reader.dropped_index(key) == 6
    assert [record.index for record in reader.since(key, 0, 10)] == [9, 12]
    assert reader.dropped_index(fleet.empty_job("y")) == 0
