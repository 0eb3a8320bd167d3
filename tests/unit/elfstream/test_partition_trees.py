"""Which tree is that of which partition of which job."""

from __future__ import annotations

import pytest

from elfstream.partition_trees import PartitionTrees
from srt.ids import job_key

HOT, COLD = job_key("hot"), job_key("cold")


def test_the_directory_says_which_trees_there_are() -> None:
    trees = PartitionTrees()
    trees.know(HOT, "hot", 3)
    trees.know(COLD, "cold", 1)
    assert trees.place(job_key("hot", 2)) == (HOT, 2)
    assert trees.place(HOT) == (HOT, 0)
    assert trees.place(COLD) == (COLD, 0)
    assert trees.place(job_key("hot", 3)) == (job_key("hot", 3), 0)
    trees.know(HOT, "hot", 2)
    assert trees.place(job_key("hot", 2)) == (job_key("hot", 2), 0)
    assert trees.place(job_key("hot", 1)) == (HOT, 1)
    trees.know(HOT, "hot", 0)
    trees.know(HOT, "hot", 0)  # told again
    assert trees.place(job_key("hot", 1)) == (job_key("hot", 1), 0)
    trees.know(HOT, "hot", 2)
    assert trees.place(job_key("hot", 1)) == (HOT, 1)


def test_an_agent_joins_and_leaves_trees() -> None:
    trees = PartitionTrees()
    with pytest.raises(KeyError):
        trees.join(HOT, 2)
    trees.know(HOT, "hot", 1)  # the plan book came before the notice
    assert trees.join(HOT, 1) == ([(0, HOT)], [])
    assert trees.join(HOT, 3) == ([(1, job_key("hot", 1)), (2, job_key("hot", 2))], [])
    assert trees.place(job_key("hot", 2)) == (HOT, 2)
    assert trees.is_mine(job_key("hot", 2))
    assert trees.join(HOT, 3) == ([], [])
    assert trees.join(HOT, 2) == ([], [job_key("hot", 2)])
    assert not trees.is_mine(job_key("hot", 2))
    trees.know(HOT, "hot", 0)  # it was removed: the agent can leave all the same
    assert trees.join(HOT, 0) == ([], [HOT, job_key("hot", 1)])
    assert not trees.joined
