"""Options are checked together."""

from __future__ import annotations

import pytest

from srt.errors import OptionsError
from srt.options import RingOptions


def test_presets_are_valid() -> None:
    assert RingOptions().leaf_size == 24
    assert RingOptions.tiny().leaf_size == 4


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(OptionsError) as error:
        RingOptions(leaf_size=7, lease_s=0.0, quarantine_s=-1.0)
    assert "leaf_size 7 is odd" in str(error.value)
    assert "lease_s is 0.0, below 0.01" in str(error.value)
    assert "quarantine_s" in str(error.value)
