"""One node's place in one reducer tree: the state, and the table of its changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from srt.automaton import NEVER, Ref
from srt.tree_messages import Kind


class VertexState(Enum):
    JOINING = "joining"
    """Looks for a parent."""
    ATTACHED = "attached"
    CLAIMING = "claiming"
    """Is the closest node to the key and waits to hear who leads."""
    SERVING = "serving"
    """Is the root."""


TRANSITIONS: dict[tuple[VertexState, str], VertexState] = {
    (VertexState.JOINING, "accepted"): VertexState.ATTACHED,
    (VertexState.JOINING, "closest"): VertexState.CLAIMING,
    (VertexState.JOINING, "serve"): VertexState.SERVING,
    (VertexState.ATTACHED, "parent lost"): VertexState.JOINING,
    (VertexState.ATTACHED, "serve"): VertexState.SERVING,
    (VertexState.CLAIMING, "forward"): VertexState.JOINING,
    (VertexState.CLAIMING, "not closest"): VertexState.JOINING,
    (VertexState.CLAIMING, "serve"): VertexState.SERVING,
    (VertexState.SERVING, "stop"): VertexState.JOINING,
}
"""The life of a vertex; docs/RING.md draws it. It begins joining; in any state but serving it ends when nobody needs it."""


@dataclass(slots=True)
class Child:
    ref: Ref
    kind: Kind
    agents: int
    heard_s: float


@dataclass(slots=True)
class Vertex:
    """Bounded: at most `children_max` children, a path of at most 64 ids, one content."""

    key: bytes
    state: VertexState = VertexState.JOINING
    wanted: bool = False
    """The local agent takes part."""
    children: dict[bytes, Child] = field(default_factory=dict)
    parent: Ref | None = None
    parent_heard_s: float = 0.0
    rooted: bool = False
    rooted_s: float = 0.0
    """When the path last led to a root."""
    path: tuple[bytes, ...] = ()
    """Ids from the root to the parent."""
    version: int = 0
    content: bytes = b""
    forward: Ref | None = None
    """The leader, as this node's own group said."""
    target: Ref | None = None
    """Whom it asked to become the parent."""
    declined: int = 0
    pushed: bool = False
    redirects: int = 0
    unanswered: int = 0
    """Joins in a row that nobody answered."""
    told: int = 0
    """Agents, as the parent knows."""
    avoiding: list[Ref] = field(default_factory=list)
    due: float = NEVER
    """When to ask again."""

    def move(self, trigger: str) -> None:
        self.state = TRANSITIONS[self.state, trigger]

    @property
    def agents(self) -> int:
        """Agents in this part of the tree."""
        return self.wanted + sum(child.agents for child in self.children.values())

    @property
    def needed(self) -> bool:
        return self.wanted or bool(self.children) or self.state is VertexState.SERVING

    def path_down(self, own_id: bytes) -> list[bytes]:
        """The path as its children have it."""
        return [*(self.path if self.state is VertexState.ATTACHED else ()), own_id]
