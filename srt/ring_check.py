"""The invariants of one node's ring state; called after each simulated step, and by the daemon when debugging."""

from __future__ import annotations

from srt.errors import InvariantError
from srt.ids import clockwise, digit, shared_prefix
from srt.ring import Ring, RingState


def check_ring(ring: Ring) -> None:
    """Raises InvariantError when the state is one that the rules exclude. O(state)."""
    offsets = [clockwise(ring.number, ref.number) for ref in ring.leaf]
    _must(offsets == sorted(set(offsets)), ring, "the leaf set is not in order")
    _must(len(offsets) <= ring.options.leaf_size, ring, "the leaf set is too large")
    _must(0 not in offsets, ring, "the leaf set holds its owner")
    for row, column, ref in ring.table.items():
        number = ref.number
        _must(shared_prefix(ring.number, number) == row and digit(number, row) == column, ring, "wrong slot")
    if ring.state is RingState.JOINING:
        _must(len(ring.leaf) == 0, ring, "members before the neighbours were told")
    if ring.state is not RingState.LEFT:
        beside = {ref.number for ref in ring.leaf.beside()}
        _must(set(ring._heard_s) == beside, ring, "the nearest neighbours are not watched")
    _must(len(ring._lost) <= ring.options.lost_max, ring, "too many lost")
    _must(len(ring._quarantine) <= ring.options.quarantine_max, ring, "too many in quarantine")
    _must(len(ring._held) <= ring.options.held_joins_max, ring, "too many joins held")
    _must(len(ring._silence.questions) <= 4 * ring.options.leaf_size + 8, ring, "too many questions")


def _must(true: bool, ring: Ring, otherwise: str) -> None:
    if not true:
        raise InvariantError(f"{ring.ref.address} boot {ring.ref.boot}, {ring.state.value}: {otherwise}")
