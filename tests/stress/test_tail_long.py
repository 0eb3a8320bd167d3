"""The model of the tail, for much longer than in the daily run."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.property.test_tail_property import TailMachine


@pytest.mark.stress
def test_long_histories() -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        TailMachine,
        settings=settings(
            max_examples=4000, stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
