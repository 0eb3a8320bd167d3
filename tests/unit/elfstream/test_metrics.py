"""Counters as Prometheus reads them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfstream.metrics import METRICS, PREFIX, Value, render
from master.exposition import SERIES_MAX, label_name, result_series, series
from tests.memory_fleet import MemoryFleet

LINE = re.compile(
    r'[a-zA-Z_:][a-zA-Z0-9_:]*(\{([a-zA-Z_][a-zA-Z0-9_]*="([^"\\\n]|\\[\\"n])*",?)*\})? (-?[0-9.e+-]+|NaN|[+-]Inf)'
)
PAGE = Path(__file__).resolve().parents[3] / "docs" / "API.md"


def _sound(text: str) -> list[str]:
    lines = text.split("\n")
    assert lines.pop() == ""
    values = [line for line in lines if not line.startswith("# ")]
    for line in values:
        assert LINE.fullmatch(line), line
    return values


def test_what_is_given_is_shown_in_order() -> None:
    values: dict[str, Value] = {
        "http_requests_total": {"200": 3, "404": 1},
        "lines_rejected_total": {("access", "time"): 2},
        "memory_bytes": 2**40,
        "job_window_lag_seconds": {"hot": 0.25},
        "ready": True,
    }
    text = render(values)
    assert _sound(text) == [
        "elfstream_ready 1",
        'elfstream_lines_rejected_total{source="access",reason="time"} 2',
        "elfstream_memory_bytes 1099511627776",
        'elfstream_job_window_lag_seconds{job="hot"} 0.25',
        'elfstream_http_requests_total{status="200"} 3',
        'elfstream_http_requests_total{status="404"} 1',
    ]
    assert "# TYPE elfstream_http_requests_total counter\n" in text


def test_series_are_bounded_and_what_is_left_out_is_told() -> None:
    text = render({"file_lag_bytes": {("access", f"/var/log/{number}"): 1.0 for number in range(SERIES_MAX + 5)}})
    values = _sound(text)
    assert len(values) == SERIES_MAX + 1
    assert values[-1] == 'elfstream_series_left_out{metric="elfstream_file_lag_bytes"} 5'


@pytest.mark.parametrize(
    "values", [{"nothing": 1}, {"lines_total": 1}, {"lines_rejected_total": {"access": 1}}, {"peers": {"x": 1}}]
)
def test_names_and_labels_that_are_none(values: dict[str, Value]) -> None:
    with pytest.raises((KeyError, ValueError)):
        render(values)


@given(st.text('ab"\\\n{}=,ä\u2028', max_size=300), st.floats() | st.integers())
def test_any_text_and_number_makes_one_line(text: str, number: float) -> None:
    assert len(_sound(series("elfstream_x", {"a": text, "b": ""}, number))) == 1


@given(st.text("a_0:ä- ", max_size=80))
def test_any_column_makes_a_label(text: str) -> None:
    assert re.fullmatch(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*", label_name(text))


def test_rows_as_series() -> None:
    fleet = MemoryFleet()
    fleet.empty_job("x")
    columns = [("path", "STRING"), ("job", "STRING"), ("hits", "BIGINT"), ("p99", "DECIMAL(18,6)"), ("at", "TIMESTAMP")]
    rows = [["/a", "j", 5, "0.250000", None], ["/a", "j", 6, None, None], ["/\n", None, 7, "NaN", None]]
    record = fleet.publish("x", 0, rows, columns=columns)
    assert _sound("".join(result_series("hot", record))) == [
        'elfstream_result{job="hot",path="/a",c_job="j",column="hits"} 5.0',
        'elfstream_result{job="hot",path="/a",c_job="j",column="p99"} 0.25',
        'elfstream_result{job="hot",path="/\\n",c_job="",column="hits"} 7.0',
        'elfstream_result{job="hot",path="/\\n",c_job="",column="p99"} NaN',
        'elfstream_result_window_end_seconds{job="hot"} 1764360010.0',
        'elfstream_result_series_left_out{job="hot"} 1',
    ]
    many = fleet.publish("x", 10, [[f"/{number}", number] for number in range(1100)])
    assert 'elfstream_result_series_left_out{job="hot"} 100' in "".join(result_series("hot", many))


def test_every_metric_is_named_as_is_usual_and_documented() -> None:
    page = PAGE.read_text()
    for metric in METRICS:
        assert (metric.kind == "counter") == metric.name.endswith("_total")
        assert metric.help.endswith(".")
        labels = "{" + ", ".join(metric.labels) + "}" if metric.labels else ""
        assert f"| `{PREFIX}{metric.name}{labels}` |" in page, metric.name
