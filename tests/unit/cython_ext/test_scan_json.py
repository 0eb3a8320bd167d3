"""JSON programs, rule by rule, with expectations written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from cython_ext.scan import Scanner
from job.formats.program import Content, JsonPath, JsonProgram
from tests.scan_cases import JSON, json_program

OPEN = JsonProgram({}, (), open_fields=True)


def values(program: JsonProgram, line: bytes, wanted: list[str] | None = None) -> dict[str, Any]:
    names = list(program.fields) if wanted is None else wanted
    batch = Scanner(program, names).scan(line)
    assert batch.rows == 1, batch.samples
    return {name: column.to_list()[0] for name, column in zip(names, batch.columns, strict=True)}


@pytest.mark.parametrize(
    ("line", "reason", "position"),
    [
        (b"", "blank", 0),
        (b" ", "truncated", 1),
        (b'{"a":1', "truncated", 6),
        (b'{"a', "truncated", 3),
        (b'{"a":tru', "truncated", 8),
        (b'{"a":1}{"b":2}', "bad_json", 7),
        (b'{"a":1,}', "bad_json", 7),
        (b"{'a':1}", "bad_json", 1),
        (b'{"a":01}', "bad_json", 6),
        (b'{"a":1.}', "bad_json", 7),
        (b'{"a":+1}', "bad_json", 5),
        (b'{"a":NaN}', "bad_json", 5),
        (b'{"a":"\t"}', "bad_json", 6),
        (b'{"a":"\\x"}', "bad_json", 7),
        (b'{"a":"\\u12g4"}', "bad_json", 10),
        (b'{"a" 1}', "bad_json", 5),
        (b"[1,2]", "not_object", 0),
        (b' "x"', "not_object", 1),
        (b"\xef\xbb\xbf{}", "bad_json", 0),
        (b'{"a":' * 64 + b"1" + b"}" * 64, "", -1),
        (b'{"a":' * 65 + b"1" + b"}" * 65, "too_deep", 320),
        (b'{"a":' + b"[" * 100_000, "too_deep", 68),
    ],
)
def test_only_whole_documents_are_good(line: bytes, reason: str, position: int) -> None:
    block = line + b"\n"
    batch = Scanner(OPEN, []).scan(block)
    assert [(sample.reason, sample.position) for sample in batch.samples] == ([(reason, position)] if reason else [])


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        (b'{"a":"x\\u00e9\\n\\ud83d\\ude00"}', "a", "xé\n😀"),
        (b'{"a":"\\ud800x\\udc00"}', "a", "\\ud800x\\udc00"),
        (b'{"a":"\\u0000"}', "a", "\0"),
        (b'{"a":"\xff\\t"}', "a", "\\xff\t"),
        (b'{"a": -1.50e+3 }', "a", "-1.50e+3"),
        (b'{"a":true}', "a", "true"),
        (b'{"a":null}', "a", None),
        (b'{"a":"-"}', "a", None),
        (b'{"a":""}', "a", ""),
        (b'{"a":{"b": [1, 2]}}', "a", '{"b": [1, 2]}'),
        (b'{"a":[1, "x"]}', "a", '[1, "x"]'),
        (b'{"a":{"b":5}}', "a.b", "5"),
        (b'{"a.b":6}', "a.b", "6"),
        (b'{"a.b":6,"a":{"b":5}}', "a.b", "5"),
        (b'{"a.b":6,"a":{"b":5}}', "a\\.b", "6"),
        (b'{"a":[{"b":7},{"b":8}]}', "a.b", "7"),
        (b'{"a":[[{"b":7}]]}', "a.b", "7"),
        (b'{"a":[]}', "a.b", None),
        (b'{"a":5}', "a.b", None),
        (b'{"a":1,"a":2}', "a", "2"),
        (b'{"a":{"b":1},"a":{"c":2}}', "a.b", None),
        (b'{"a":1,"a":null}', "a", None),
        (b'{"\\u0061":1}', "a", "1"),
        (b'{"ab":1,"":2}', "a", None),
        (b'{"a":{"a":{"a":3}}}', "a.a.a", "3"),
    ],
)
def test_values_of_open_paths(line: bytes, name: str, value: str | None) -> None:
    assert values(OPEN, line, [name]) == {name: value}


def test_declared_values() -> None:
    line = (
        b'{"ts":1711884605.5,"request":{"uri":"/n\\u002fo?d=1","headers":{"User-Agent":["f\\"n"]}},'
        b'"status":"201","duration":0.125,"cached":true,"ratio":1e-1,"day":"31 March 2024","clock":"12:05 AM"}'
    )
    assert values(JSON, line) == {
        "time": 1711884605500000, "stamp": 1711843500000000 + 7200_000_000, "uri": "/n/o?d=1", "path": "/n/o",
        "query": "d=1", "user_agent": 'f"n', "status": 201, "request_time": 125000, "cached": True, "ratio": 0.1,
    }  # fmt: skip


def test_the_first_path_that_is_there_and_not_null_counts() -> None:
    program = json_program(JsonPath((("a",), ("b", "c"), ("d",)), Content.INTEGER, ("n",)))
    assert values(program, b'{"d":4,"b":{"c":3},"a":2}') == {"n": 2}
    assert values(program, b'{"d":4,"b":{"c":3},"a":null}') == {"n": 3}
    assert values(program, b'{"d":4,"b":{"c":[]}}') == {"n": 4}
    assert values(program, b"{}") == {"n": None}


@pytest.mark.parametrize(
    ("line", "reason", "position"),
    [
        (b'{"status":"abc"}', "bad_status", 11),
        (b'{"status":{"x":200}}', "bad_status", 10),
        (b'{"ratio":"much"}', "bad_number", 10),
        (b'{"cached":1}', "mismatch", 10),
        (b'{"ts":"yesterday"}', "bad_time", 7),
    ],
)
def test_bad_values_reject_the_line_whoever_asks(line: bytes, reason: str, position: int) -> None:
    for wanted in ([], ["status"], list(JSON.fields)):
        batch = Scanner(JSON, wanted).scan(line)
        assert [(sample.reason, sample.position) for sample in batch.samples] == [(reason, position)]


def test_names_outside_a_closed_program() -> None:
    with pytest.raises(ValueError, match="no field 'b'"):
        Scanner(json_program(JsonPath((("a",),), Content.TEXT, ("a",))), ["b"])


def test_traces_say_where_values_stand() -> None:
    line = b'{"x":{"y":1},"status":200}'
    trace = Scanner(JSON, ["status", "x"]).trace(line)
    assert trace.ok
    assert trace.values == {"status": 200, "x": '{"y":1}'}
    assert {line[step.start : step.end] for step in trace.steps} == {b"200", b'{"y":1}'}


def test_a_guessed_date_that_is_none_makes_no_time() -> None:
    program = json_program(JsonPath((("d",),), Content.DATE, ("t",), layout=b"%Y", lenient=True))
    assert values(program, b'{"d":"1971"}') == {"t": 365 * 86_400_000_000}
    assert values(program, b'{"d":"1971 AD"}') == {"t": None}
