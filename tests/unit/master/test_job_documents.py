"""What requests say, read with care."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from job.settings import JobSpec, Settings
from master import job_documents as documents
from master.problems import KINDS, Problem, problem_of_refusal
from master.requests import Place, Refusal, RevisionView

texts = st.text("ab_.\0\"ä€😀 ", max_size=8)
plain_values = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | texts
json_values = plain_values | st.lists(plain_values, max_size=3) | st.dictionaries(texts, plain_values, max_size=3)


def attempted(work: Callable[[], Any]) -> Any:
    """What it returns, or the problem."""
    try:
        return work()
    except Problem as problem:
        return problem


members = st.sampled_from([*documents.MEMBERS, "name", "drain", "other"])


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)  # fmt: skip
def test_the_examples_of_rfc_7396(target: Any, patch: Any, result: Any) -> None:
    assert documents.merged(target, patch) == result


@given(st.dictionaries(members, json_values))
def test_a_body_makes_a_job_or_a_problem_that_names_its_field(body: dict[str, Any]) -> None:
    spec = attempted(lambda: documents.spec_of(body.pop("name", "x"), body))
    if isinstance(spec, Problem):
        assert spec.status == 400
        assert spec.field
    else:
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(spec), type=JobSpec) == spec


@given(st.binary(max_size=40) | json_values.map(msgspec.json.encode))
def test_any_bytes_are_members_or_a_problem(body: bytes) -> None:
    found = attempted(lambda: documents.decoded(body))
    assert isinstance(found, dict) or found.field == "body"


@pytest.mark.parametrize(
    "body", [b"[", b"[" * 5000, b"null", b'"x"', b"{" * 5000, b"\xff", b'{"a":1e999}', b"1" * 5000]
)
def test_what_is_no_body(body: bytes) -> None:
    with pytest.raises(Problem):
        documents.decoded(body)


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ({"a b": 1}, "parameters.a b"), ({"a": [1]}, "parameters.a"), ({"a": {"b": 1}}, "parameters.a"),
        ({"a": 2**63}, "parameters.a"), ({"a": "x" * 16_385}, "parameters.a"), ({"a": float("inf")}, "parameters.a"),
        ({f"p{number}": 1 for number in range(257)}, "parameters"),
    ],
)  # fmt: skip
def test_parameters_that_are_refused(parameters: dict[str, Any], field: str) -> None:
    with pytest.raises(Problem) as raised:
        documents.parameters_of(parameters)
    assert raised.value.field == field


@pytest.mark.parametrize(
    ("header", "outcome"),
    [
        (None, "unconditional"), ('"3"', 3), ("*", 3), ('"2", "3"', 3), (' "3" ', 3), ('W/"3"', "stale"), ('"2"', "stale"),
        ("3", "invalid"), ("", "invalid"), ('"3', "invalid"), ('"x"', "invalid"), ('"3",', "invalid"),
        ('"٣"', "invalid"),
    ],
)  # fmt: skip
def test_conditions(header: str | None, outcome: int | str) -> None:
    if isinstance(outcome, int):
        assert documents.expected_revision(header, 3) == outcome
    else:
        with pytest.raises(Problem) as raised:
            documents.expected_revision(header, 3)
        assert raised.value.kind == outcome
        assert raised.value.field == "If-Match"


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("1970-01-01T00:00:01Z", 1_000_000), ("1970-01-01T01:00:00+01:00", 0), ("1970-01-01T01:00:00 01:00", 0),
        ("1970-01-01", 0), ("1970-01-01T00:00:00.5", 500_000), ("-10s", 90_000_000), ("-0", 100_000_000),
        ("-99999999999999d", -(2**63)),
    ],
)  # fmt: skip
def test_moments(text: str, micros: int) -> None:
    assert documents.moment(text, "from", 100_000_000) == micros


@given(st.text("0123456789-+:.TZW msd٣", max_size=30))
def test_any_text_is_a_moment_or_a_problem(text: str) -> None:
    found = attempted(lambda: documents.moment(text, "from", 10**15))
    if isinstance(found, Problem):
        assert found.field == "from"
    else:
        assert -(2**63) <= found < 2**63


int64 = st.integers(-(2**63), 2**63 - 1)


@given(st.none() | int64, st.none() | int64, st.integers(1, 10**18 - 1))
def test_cursors_are_read_back(start_us: int | None, end_us: int | None, edition: int) -> None:
    place = Place(start_us, end_us, edition)
    assert documents.cursor_of(documents.cursor_text(place)) == place


@given(st.text(alphabet="0123456789.-al\n ", max_size=30))
def test_any_text_is_a_cursor_or_a_problem(text: str) -> None:
    found = attempted(lambda: documents.cursor_of(text))
    assert isinstance(found, Place) or found.field == "after"


@given(int64)
def test_every_time_has_a_text(micros: int) -> None:
    text = documents.time_text(micros)
    assert text is not None
    if -62_135_596_800_000_000 <= micros <= 253_402_300_799_999_999:
        assert documents.moment(text, "from", 0) == micros


def test_what_a_change_starts_from_gives_the_same_settings_back() -> None:
    settings = Settings(emit_us=250_000, expect=2)
    revision = RevisionView(1, "SELECT 1", settings.shown(), None, None, 0, "open", "", {"a": 1})  # type: ignore[arg-type]
    start = documents.changeable(revision)
    assert start["settings"] == {"emit": "250ms", "expect": 2}
    assert documents.spec_of("x", start) == JobSpec("x", "SELECT 1", settings, {"a": 1})


def test_every_refusal_has_its_status() -> None:
    statuses = {
        kind: problem_of_refusal(Refusal(kind, "why")).status
        for kind in ("elsewhere", "unknown", "exists", "stale", "invalid", "busy")
    }
    assert statuses == {
        "elsewhere": 503,
        "unknown": 404,
        "exists": 409,
        "stale": 412,
        "invalid": 400,
        "busy": 503,
    }


def test_whoever_may_try_again_is_told_when() -> None:
    for kind, (_, _, retry_s) in KINDS.items():
        assert Problem(kind, "x").headers.get("Retry-After", "0") == str(retry_s)
