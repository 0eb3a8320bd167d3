"""The invariants of one node's vertices; called after each simulated step, and by the daemon when debugging."""

from __future__ import annotations

from srt.errors import InvariantError
from srt.reducer_tree import ReducerTree
from srt.vertex import Vertex, VertexState


def check_vertices(trees: ReducerTree) -> None:
    """Raises InvariantError when the state is one that the rules exclude. O(state)."""
    for vertex in trees.vertices.values():
        state = vertex.state
        _must(len(vertex.children) <= trees.options.children_max, trees, vertex, "too many children")
        _must((vertex.parent is not None) == (state is VertexState.ATTACHED), trees, vertex, "parent and state differ")
        _must(trees.ref.id not in vertex.path, trees, vertex, "is on its own path")
        _must(trees.ref.id not in vertex.children, trees, vertex, "is its own child")
        _must(all(child.ref.id == key for key, child in vertex.children.items()), trees, vertex, "mixed children")
        if state in (VertexState.JOINING, VertexState.CLAIMING):
            _must(vertex.due >= trees._due_at, trees, vertex, "sleeps for ever")
    _must(len(trees.vertices) <= trees.options.trees_max, trees, None, "too many trees")
    for key, casts in trees._casts._casts.items():
        _must(key in trees.vertices, trees, None, "multicasts of a tree that is gone")
        _must(len(casts) <= trees.options.casts_max, trees, trees.vertices[key], "too many multicasts")


def _must(true: bool, trees: ReducerTree, vertex: Vertex | None, otherwise: str) -> None:
    if not true:
        where = "" if vertex is None else f", tree {vertex.key.hex()[:8]}, {vertex.state.value}"
        raise InvariantError(f"{trees.ref.address} boot {trees.ref.boot}{where}: {otherwise}")
