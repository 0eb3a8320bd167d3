"""Where a join of a reducer tree goes on, when it is not this vertex that takes the joiner. Pure choices."""

from __future__ import annotations

import random

from srt.automaton import Ref
from srt.ids import nearness, number_of
from srt.ring import Ring
from srt.tree_messages import Kind, TreeJoin
from srt.vertex import Vertex, VertexState


def declined_to(
    ring: Ring, kind: Kind, vertex: Vertex | None, sender: Ref, message: TreeJoin, declines_max: int, rng: random.Random
) -> Ref | None:
    """An agent that knows workers sends a join on, rather than become an inner vertex; returns where to."""
    if (
        kind is Kind.WORKER
        or message.declined >= declines_max
        or (vertex is not None and (vertex.children or vertex.state is not VertexState.ATTACHED))
    ):
        return None
    following = ring.next_hop(message.key)
    if following is None:
        return None
    workers = [ref for ref in ring.with_role(Kind.WORKER) if ref.id != sender.id]
    if not workers:
        return None
    if message.kind is Kind.WORKER:  # towards the root, or workers would send each other in circles
        return following if following.id != sender.id and not message.pushed else None
    if message.declined:
        return rng.choice(workers)
    place = number_of(message.key)
    return min(workers, key=lambda ref: nearness(place, ref.number))


def pushed_down_to(
    ring: Ring, vertex: Vertex, sender: Ref, message: TreeJoin, missed_s: float, rng: random.Random
) -> Ref:
    """Who gets a join that a full vertex sends down: a worker if there is one. A child not heard since `missed_s` only if
    none was: it may be dead, like the parent that the joiner has just lost."""
    heard = [child for child in vertex.children.values() if child.heard_s > missed_s] or [*vertex.children.values()]
    workers = [child.ref for child in heard if child.kind is Kind.WORKER]
    if not workers and not message.pushed:  # sideways once, then only down: a join comes to an end
        above = {*vertex.path, sender.id}
        workers = [ref for ref in ring.with_role(Kind.WORKER) if ref.id not in above]
    return rng.choice(workers or [child.ref for child in heard])
