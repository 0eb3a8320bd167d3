"""A thousand peers at one node: they all get links, and each costs little memory."""

from __future__ import annotations

import pytest
import uvloop

from bench.bench_links import many_peers

KIB_MAX = 32


@pytest.mark.stress
def test_a_thousand_peers() -> None:
    found = uvloop.new_event_loop().run_until_complete(many_peers(1000))
    assert found < KIB_MAX << 10, f"{found / 1024:.1f} KiB for each"
