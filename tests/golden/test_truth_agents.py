"""The golden queries through an agent: real logs that grow, rotate and are packed, messages lost, starts in between.

What the root has is, byte for byte, the fold that the one-shot query makes (`test_truth.py` compares that with the truth).
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from agent.sources import Source
from agent.tail_options import TailOptions
from elfstream.embedded import compile_plan
from job.formats import find
from tests.golden.test_truth import DATA, SETS
from tests.golden.test_truth_followed import QUERIES, Writer, contents
from tests.small_agent import SmallAgent, SmallRoot, content_of, truth_of

SEED = 7

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the log sets of ../shared/data are not here")


@pytest.mark.parametrize("name", SETS)
def test_an_agent_sends_the_fold_of_its_logs(name: str, tmp_path: Path) -> None:
    rng = Random(f"{name} {SEED}")
    format, texts = find(SETS[name][1]), contents(name)
    patterns = [str(tmp_path / f"web{number}" / "access.log*") for number in range(len(texts))]
    source = Source("access", tuple(patterns), format, TailOptions(read_from="beginning"))
    plans = [compile_plan(sql, format) for sql in QUERIES.values()]
    keys = [query.encode().ljust(16, b"#") for query in QUERIES]
    roots = [SmallRoot(key, plan) for key, plan in zip(keys, plans, strict=True)]
    growing = [
        Writer(tmp_path / f"web{number}", data, rng, True).steps() for number, data in enumerate(texts)
    ]
    agent = SmallAgent(tmp_path, [source], roots, seed=SEED, loss=0.05)
    while growing:
        looks = [(steps, next(steps, None)) for steps in growing]
        growing = [steps for steps, look in looks if look is not None]
        if any(look for _, look in looks):
            agent.step(0.5)
        if rng.random() < 0.1:
            agent.crash()
            agent.boot()
    agent.settle(10.0)
    for root, plan in zip(roots, plans, strict=True):
        panes, counters = truth_of(plan, source, texts)
        assert content_of(root.stream()) == panes
        assert root.stream().counters == counters
    assert agent.troubles == []
