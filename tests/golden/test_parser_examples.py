"""Made-up lines of every format with the fields a parser should find in them: exactly those."""

from __future__ import annotations

import base64
import json
from datetime import datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from job.formats import Format, find
from tests.format_records import records

EXAMPLES = Path(__file__).resolve().parents[3] / "shared" / "data" / "parser_examples.jsonl"
IDS = [f"ex{number:03}" for number in range(1, 51)]

pytestmark = pytest.mark.skipif(not EXAMPLES.is_file(), reason="the parser examples of ../shared are not here")


@cache
def cases() -> dict[str, dict[str, Any]]:
    lines = EXAMPLES.read_text(encoding="utf-8").splitlines()
    return {case["id"]: case for case in map(json.loads, lines)}


def found_in(format: Format, line: bytes, wanted: list[str]) -> list[dict[str, Any]]:
    """Records as the examples write them: decimals as numbers, HAProxy's time without an offset."""
    found = records(format, line + b"\n", wanted)
    for one in found:
        for name, value in one.items():
            if isinstance(value, Decimal):
                one[name] = float(value)
            elif name == "accept_time_local":
                one[name] = value.replace(tzinfo=None)
    return found


def same(name: str, value: Any, expected: Any, is_open: bool) -> bool:
    if isinstance(expected, str) and isinstance(value, datetime):
        return value == datetime.fromisoformat(expected)
    if is_open and value is not None and not isinstance(expected, str):
        return bool(json.loads(value) == expected)  # a key outside the schema is its JSON text
    return (type(value) is type(expected) and value == expected) or _equal_numbers(value, expected)


def _equal_numbers(value: Any, expected: Any) -> bool:
    numbers = (int, float)
    return isinstance(value, numbers) and isinstance(expected, numbers) and value == expected


@pytest.mark.parametrize("id", IDS)
def test_example(id: str) -> None:
    case = cases()[id]
    format = find(case.get("log_format") or case["format"])
    line = base64.b64decode(case["line_b64"]) if "line_b64" in case else case["line"].encode()
    expected = case["expected"]
    wanted = list(expected) if expected else list(format.fields)
    found = found_in(format, line, wanted)
    if expected is None:
        assert found == []
        return
    if case.get("may_reject") and not found:
        return
    assert len(found) == 1
    wrong = {
        name: (found[0][name], value)
        for name, value in expected.items()
        if not same(name, found[0][name], value, name not in format.fields)
    }
    assert wrong == {}


def test_all_examples_are_asked() -> None:
    assert list(cases()) == IDS
