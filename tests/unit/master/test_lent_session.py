"""Which settings the session of a backfill starts with."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

from master.spark import lent_session
from master.spark.lent_session import BACKFILL_SETTINGS, LOCAL_SETTINGS, backfill_session

JAVA = "spark.driver.extraJavaOptions"


def _settings(monkeypatch: pytest.MonkeyPatch, master: str, given: Mapping[str, str]) -> dict[str, str]:
    asked: list[dict[str, str]] = []

    def session_at(at: str, settings: Mapping[str, str], name: str) -> AbstractContextManager[Any]:
        assert (at, name) == (master, "elfstream backfill")
        asked.append(dict(settings))
        return nullcontext()

    monkeypatch.setattr(lent_session, "session_at", session_at)
    with backfill_session(master, given):
        return asked[0]


@pytest.mark.parametrize("master", ["local", "local[*]", "local[2]"])
def test_java_of_a_local_backfill_starts_in_less(monkeypatch: pytest.MonkeyPatch, master: str) -> None:
    assert _settings(monkeypatch, master, {}) == {**BACKFILL_SETTINGS, **LOCAL_SETTINGS}
    assert _settings(monkeypatch, master, {JAVA: "-Xint"})[JAVA] == "-Xint"  # what users say comes last


@pytest.mark.parametrize("master", ["spark://head:7077", "yarn", "local-cluster[2,1,1024]"])
def test_java_of_a_cluster_is_its_owners(monkeypatch: pytest.MonkeyPatch, master: str) -> None:
    assert _settings(monkeypatch, master, {"spark.executor.memory": "1g"}) == {
        **BACKFILL_SETTINGS, "spark.executor.memory": "1g"
    }  # fmt: skip
