"""What tests share: one Spark session per run, for the tests that ask Spark."""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from master.spark.session import DAEMON_SETTINGS

# Java as the tests need it: sessions that live for a minute compile cheaply and collect with one thread. Programs that tests
# start inherit this, too; a start of Spark takes half the CPU time.
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
os.environ.setdefault("SPARK_SUBMIT_OPTS", JAVA)
os.environ.setdefault("SPARK_LAUNCHER_OPTS", JAVA)

# How long an example takes only says how busy the machine is. Where a red run must mean a broken change, examples are drawn
# from a fixed seed; people and `make stress` draw new ones.
hypothesis_settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
hypothesis_settings.register_profile("fixed", hypothesis_settings.get_profile("patient"), derandomize=True)
hypothesis_settings.load_profile("fixed" if os.environ.get("CI") else "patient")


INTEGRATION = Path(__file__).parent / "integration"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Real processes have threads enough for all cores: beside others they would only show what a busy machine does."""
    for item in items:
        if item.path.is_relative_to(INTEGRATION) or item.get_closest_marker("spark") is not None:
            item.add_marker("alone")


def _without_spark(reason: str) -> None:
    """Skips, or fails where the run has promised that Java is there."""
    if os.environ.get("ELFSTREAM_REQUIRE_JAVA") == "1":
        pytest.fail(f"ELFSTREAM_REQUIRE_JAVA=1, but {reason}")
    pytest.skip(reason)


def require_spark() -> None:
    """Skips the test where Spark cannot run, saying why."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        _without_spark("there is no java")
    if find_spec("pyspark") is None or find_spec("pyarrow") is None:
        _without_spark("pyspark is not installed")


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A local Spark session in UTC and ANSI mode, Spark 4's default. Starting it takes about ten seconds."""
    require_spark()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pyspark warns of its own imports
        from pyspark.sql import SparkSession
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # the Python that runs what is not SQL
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.sql.session.timeZone": "UTC",
        **DAEMON_SETTINGS,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        builder = SparkSession.builder.master("local[2]").appName("elfstream tests")
        for key, value in settings.items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
