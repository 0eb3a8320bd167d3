"""A job's reducer tree, drawn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from elfstream.terminal import BOLD, DIM, RED, YELLOW, cells, cut, paint, visible
from elfstream.views.words import count, node_name

Document = Mapping[str, Any]


def tree_lines(
    root: Document,
    kinds: Mapping[str, str],
    missing: Sequence[str],
    columns: int | None = None,
    colour: bool = False,
) -> Iterator[str]:
    """One line a vertex, the root first: name, what the node is (`kinds` by id: agent, worker), what passed through it. With
    `columns` no line is wider."""
    drawn = list(_vertices(root, "", "", kinds, "master"))
    names = [f"{branch}{visible(name)}" for branch, name, _, _ in drawn]
    width = max(map(cells, names), default=0)
    if columns is not None:
        width = min(width, columns // 2)
    for (branch, _, facts, problem), name in zip(drawn, names, strict=True):
        left = cut(name, width)
        left += " " * (width - cells(left))
        right = facts if columns is None else cut(facts, columns - width - 2)
        yield f"{paint(left, BOLD if not branch else '', colour)}  {paint(right, RED if problem else DIM, colour)}".rstrip()
    if missing:
        yield paint(f"missing: {', '.join(map(visible, missing))}", YELLOW, colour)


def _vertices(
    vertex: Document, branch: str, below: str, kinds: Mapping[str, str], role: str
) -> Iterator[tuple[str, str, str, bool]]:
    """(drawing, name, what is said of it, whether that is a problem) of a vertex and all below it."""
    if vertex.get("problem"):
        yield branch, node_name(dict(vertex)), visible(f"does not answer: {vertex['problem']}"), True
        return
    facts = [kinds.get(vertex["id"], "node") + (f", {role}" if role else "")]
    if vertex["children"] or vertex["role"] != "leaf":
        facts.append(f"{count(vertex['agents'], 'agent')} at and below")
    facts.append(f"{vertex['frames_in']:,} frames in, {vertex['frames_out']:,} out")
    yield branch, f"{node_name(dict(vertex))} ({vertex['address']})", " · ".join(facts), False
    children = vertex["children"]
    hidden = vertex["hidden"] - sum(child["hidden"] for child in children)
    for at, child in enumerate(children):
        is_last = at == len(children) - 1 and not hidden
        bend, beyond = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
        yield from _vertices(child, below + bend, below + beyond, kinds, "")
    if hidden:
        yield below + "└─ ", f"{count(hidden, 'node')} more", "--depth shows what is further down", False
