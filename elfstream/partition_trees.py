"""The reducer trees of jobs with several partitions: which tree is whose. Pure.

The tree of partition 0 has the job's key, and its root is the leader of the job's group. The leader serves the others, too;
the node that is closest to the key of one has to find it. From the names in the directory every node knows the keys.
"""

from __future__ import annotations

from srt.ids import job_key


class PartitionTrees:
    """Bounded by the jobs that the directory holds, with the trees that each says it has."""

    def __init__(self) -> None:
        self.joined: dict[bytes, tuple[bytes, ...]] = {}
        """The trees of each job that the agent here takes part in."""
        self._names: dict[bytes, str] = {}
        self._trees: dict[bytes, tuple[bytes, ...]] = {}
        self._of: dict[bytes, tuple[bytes, int]] = {}
        self._mine: dict[bytes, tuple[bytes, int]] = {}

    def know(self, job: bytes, name: str, trees: int) -> None:
        """What the directory says of a job now; no trees: it was removed. O(trees) when their number changes."""
        before = self._trees.get(job, (job,))
        if trees == len(before) and job in self._names:
            return
        for tree in before[1:]:
            del self._of[tree]
        if not trees:
            self._names.pop(job, None)
            self._trees.pop(job, None)
            return
        self._names[job], self._trees[job] = name, _trees(job, name, trees)
        self._of |= {tree: (job, partition) for partition, tree in enumerate(self._trees[job]) if partition}

    def place(self, tree: bytes) -> tuple[bytes, int]:
        """(job, partition) of a tree. One that no notice speaks of is taken for the only one of its job."""
        return self._mine.get(tree) or self._of.get(tree, (tree, 0))

    def is_mine(self, tree: bytes) -> bool:
        """Whether the agent here takes part in it."""
        return tree in self._mine

    def join(self, job: bytes, trees: int) -> tuple[list[tuple[int, bytes]], list[bytes]]:
        """The agent takes part in so many trees of a job from now on. Returns the (partition, tree) that are new, and the
        trees that are none of its any more. Raises KeyError for a job that is not known."""
        before = self.joined.get(job, ())
        after = before[:trees] if trees <= len(before) else _trees(job, self._names[job], trees)
        if after:
            self.joined[job] = after
        else:
            self.joined.pop(job, None)
        fresh, over = list(enumerate(after))[len(before) :], list(before[trees:])
        self._mine |= {tree: (job, partition) for partition, tree in fresh}
        for tree in over:
            del self._mine[tree]
        return fresh, over


def _trees(job: bytes, name: str, count: int) -> tuple[bytes, ...]:
    return (job, *(job_key(name, partition) for partition in range(1, count)))
