"""The kernel and the plain reference say the same of any bytes, for real and for random programs."""

from __future__ import annotations

import json
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cython_ext import reference_scan, reference_scan_json
from cython_ext.reference_scan_verdict import Rejected
from cython_ext.scan import Scanner
from cython_ext.scan_number import parse_double
from cython_ext.scan_value import escape_bytes
from job.formats.program import JsonProgram, Program
from tests import scan_cases


def agree(program: Program, wanted: list[str], block: bytes, line_bytes_max: int = 4 << 20) -> None:
    ours = Scanner(program, wanted, samples_max=100, line_bytes_max=line_bytes_max).scan(block)
    theirs = reference_scan.scan(program, wanted, block, 100, line_bytes_max)
    for name in ("lines", "directives", "consumed", "directive", "samples", "rejected", "rows"):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert [column.to_list() for column in ours.columns] == theirs.columns
    assert ours.lines == ours.rows + sum(ours.rejected.values()) + ours.directives
    # What is rejected does not depend on what is wanted.
    blind = Scanner(program, [], samples_max=100, line_bytes_max=line_bytes_max).scan(block)
    assert (blind.samples, blind.rows) == (ours.samples, ours.rows)


@pytest.mark.parametrize("name", list(scan_cases.CASES))
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_lines_of_real_formats(name: str, data: st.DataObject) -> None:
    case = scan_cases.CASES[name]
    randoms = st.integers(0, 10**9).map(Random)
    line = st.builds(scan_cases.mutate, randoms, st.sampled_from(case.lines))
    lines = data.draw(st.lists(line | st.binary(max_size=40), max_size=8))
    block = b"\n".join(lines) + data.draw(st.sampled_from([b"", b"\n", b"\r\n"]))
    wanted = scan_cases.wanted_of(case.program)
    chosen = data.draw(st.lists(st.sampled_from(wanted), unique=True)) if data.draw(st.booleans()) else wanted
    agree(case.program, chosen, block, data.draw(st.sampled_from([4 << 20, 50])))


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_lines_of_random_programs(seed: int) -> None:
    random = Random(seed)
    program = scan_cases.random_line_program(random)
    lines = [scan_cases.mutate(random, scan_cases.random_line(random, program)) for _ in range(8)]
    agree(program, scan_cases.wanted_of(program), b"\n".join(lines))


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_documents_of_random_programs(seed: int) -> None:
    random = Random(seed)
    program = scan_cases.random_json_program(random)
    lines = [scan_cases.mutate(random, scan_cases.random_document(random, program)) for _ in range(8)]
    agree(program, scan_cases.wanted_of(program), b"\n".join(lines))


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(document=st.dictionaries(st.text(max_size=3), _JSON, max_size=4), ascii_only=st.booleans(), cut=st.integers(0, 400))
def test_documents_are_good_exactly_when_the_json_module_says_so(
    document: dict[str, object], ascii_only: bool, cut: int
) -> None:
    text = json.dumps(document, ensure_ascii=ascii_only).encode()
    program = JsonProgram({}, (), open_fields=True)
    assert Scanner(program, []).scan(text).rows == 1
    torn = text[:cut]
    try:
        good = isinstance(json.loads(torn), dict)
    except ValueError:
        good = False
    batch = Scanner(program, []).scan(torn + b"\n")
    assert batch.rows == good
    try:
        reference_scan_json.parse(torn)
    except Rejected:
        assert not good
    else:
        assert good


@settings(max_examples=300, deadline=None)
@given(document=st.dictionaries(st.sampled_from("abc"), st.text() | st.integers(), max_size=3))
def test_strings_come_out_as_the_json_module_reads_them(document: dict[str, object]) -> None:
    batch = Scanner(JsonProgram({}, (), open_fields=True), ["a", "b", "c"]).scan(json.dumps(document).encode())
    expected = [None if document.get(name) in (None, "-") else str(document[name]) for name in "abc"]
    assert [column.to_list()[0] for column in batch.columns] == expected


@settings(max_examples=500, deadline=None)
@given(text=st.binary(max_size=40))
def test_escapes_are_python_s(text: bytes) -> None:
    assert escape_bytes(text) == text.decode("utf-8", "backslashreplace").encode()


@settings(max_examples=500, deadline=None)
@given(value=st.floats(allow_nan=False, allow_infinity=False), digits=st.integers(0, 25))
def test_doubles_are_the_nearest_ones(value: float, digits: int) -> None:
    for text in (repr(value), f"{value:.{digits}e}", f"{value:.{digits}f}"):
        parsed = parse_double(text.encode())
        exact = float(text)
        assert parsed == (None if exact in (float("inf"), float("-inf")) else exact)
