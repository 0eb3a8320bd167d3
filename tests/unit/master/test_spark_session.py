"""What is missing for Spark is said kindly, and reports of splits count once."""

from __future__ import annotations

from pathlib import Path

import pytest

from master.spark import session
from master.spark.session import DAEMON_SETTINGS, SparkMissingError, check_spark, java_version, settings_for
from master.spark.worker_daemon import unzipped


def test_versions_of_java() -> None:
    assert java_version('openjdk version "17.0.15" 2025-04-15') == 17
    assert java_version('java version "1.8.0_392"') == 8
    assert java_version('openjdk version "21" 2023-09-19') == 21
    assert java_version("Unrecognized option") is None


def _java(folder: Path, version: str) -> None:
    (folder / "bin").mkdir(parents=True)
    java = folder / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)


def test_without_java_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(session, "find_spec", lambda name: name)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SparkMissingError, match="no java on the PATH: install Java 17 or newer"):
        check_spark()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))
    with pytest.raises(SparkMissingError, match="no bin/java in it"):
        check_spark()
    _java(tmp_path / "old", "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    with pytest.raises(SparkMissingError, match=r'needs Java 17, and .*java is openjdk version "11'):
        check_spark()
    _java(tmp_path / "new", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "new"))
    check_spark()


def test_java_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(session, "find_spec", lambda name: name)
    monkeypatch.setattr(session, "JAVA_S", 0.2)
    (tmp_path / "bin").mkdir()
    java = tmp_path / "bin" / "java"
    java.write_text("#!/bin/sh\nexec tail -f /dev/null\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SparkMissingError, match=r"java -version` does not answer .*: install Java 17"):
        check_spark()


def test_without_pyspark_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "find_spec", lambda name: None)
    with pytest.raises(SparkMissingError, match=r"pip install 'elfstream\[spark\]'"):
        check_spark()


def test_workers_do_not_compile_pyspark_from_its_zip() -> None:
    folder = "/venv/lib/python3.11/site-packages"
    zips = [f"{folder}/pyspark/python/lib/{name}" for name in ("pyspark.zip", "py4j-0.10.9.9-src.zip")]
    kept = ["/code", f"{folder}/pyspark/jars/spark-core.jar", "/usr/lib/python311.zip", "a.zip", folder]
    assert unzipped([*zips, *kept]) == kept
    spark_alone = [*zips, "/code"]  # SPARK_HOME of a Spark that pip did not install
    assert unzipped(spark_alone) == spark_alone


def test_only_workers_whose_python_is_ours_get_our_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    for master in ("local", "local[2]", "local[*]"):
        assert settings_for(master).items() >= DAEMON_SETTINGS.items()
    for master in ("local-cluster[2,1,1024]", "spark://head:7077", "yarn"):
        assert not settings_for(master).keys() & DAEMON_SETTINGS.keys()
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/other/bin/python")
    assert not settings_for("local[2]").keys() & DAEMON_SETTINGS.keys()


def test_a_split_that_is_read_twice_counts_once() -> None:
    pytest.importorskip("pyspark.accumulators", reason="pyspark is not installed")
    from master.spark.log_report import SCANS_MAX, ReportParam, Reports, SplitReport, report_of

    one = SplitReport(3, 10, 7, 1, {"blank": 2}, (), False)
    other = SplitReport(3, 5, 5, 0, {}, (), True, "/x.gz")
    param = ReportParam()
    found: Reports = {}
    for part in ({"a": {0: one}}, {"a": {1: other}}, {"a": {0: one}}):
        found = param.addInPlace(found, part)
    report = report_of(found["a"])
    assert (report.counts.lines, report.counts.parsed, report.counts.directives) == (15, 12, 1)
    assert report.counts.rejected == {"blank": 2}
    assert (report.splits, report.planned, report.complete) == (2, 3, False)
    assert (report.plain_splits, report.garbage) == (1, ("/x.gz",))
    for number in range(SCANS_MAX + 10):
        found = param.addInPlace(found, {f"b{number:05d}": {0: one}})
    assert sorted(found)[0] == "b00010"
    assert len(found) == SCANS_MAX
