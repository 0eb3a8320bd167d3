"""The vertices of a node: made when a job comes by, let go of when its tree does not pass any more."""

from __future__ import annotations

import random

from cbt.budget import Budget
from cbt.options import Options
from srt.automaton import Instant, Received, Ref
from srt.frame_messages import Ack, ForJob
from srt.ids import job_key
from srt.reducer import ChildrenChanged, ReducerOptions
from srt.reducer_tree import ReducerTree
from srt.ring import Ring
from srt.tree_messages import Kind
from srt.vertices import ForVertex, Vertices

ME, OTHER = Ref(job_key("me"), "me:1", 1), Ref(job_key("other"), "other:1", 1)
NOW = Instant(1.0, 0)


def test_vertices_of_jobs_that_are_gone_are_forgotten() -> None:
    rng = random.Random(1)
    trees = ReducerTree(Ring(ME, [], rng), Kind.WORKER, rng)
    vertices = Vertices(ME, trees, Budget(), ReducerOptions(), Options())
    for number in range(100):  # an answer for a vertex that is no more makes one
        vertices.handle(Received(OTHER, ForJob(job_key(f"job {number}"), Ack((1,)))), NOW)
    assert len(vertices.reducers) <= 2
    vertices.handle(ForVertex(job_key("job 99"), ChildrenChanged(frozenset({OTHER}))), NOW)
    assert job_key("job 99") in vertices.reducers
