"""What stands in for the scan kernel says the same of every line, in the same words."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cython_ext.reference_scanner import Scanner as PlainScanner
from cython_ext.scan import Scanner
from tests import scan_cases


@pytest.mark.parametrize("name", list(scan_cases.CASES))
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_it_scans_as_the_kernel(name: str, data: st.DataObject) -> None:
    case = scan_cases.CASES[name]
    line = st.builds(scan_cases.mutate, st.integers(0, 10**9).map(Random), st.sampled_from(case.lines))
    lines = data.draw(st.lists(line | st.binary(max_size=40), max_size=8))
    block = b"in front\n" + b"".join(line.replace(b"\n", b"") + b"\n" for line in lines) + b"behind"
    start, stop = len(b"in front\n"), len(block) - len(b"behind")
    wanted = scan_cases.wanted_of(case.program)
    ours = PlainScanner(case.program, wanted, 3, 50).scan(block, start, stop)
    kernel = Scanner(case.program, wanted, 3, 50).scan(block, start, stop)
    for attribute in ("rows", "lines", "directives", "rejected", "samples", "consumed", "directive"):
        assert getattr(ours, attribute) == getattr(kernel, attribute), attribute
    assert [(column.kind, column.length, column.to_list()) for column in ours.columns] == [
        (column.kind, column.length, column.to_list()) for column in kernel.columns
    ]
    for text in lines:
        traced, told = PlainScanner(case.program, wanted).trace(text), Scanner(case.program, wanted).trace(text)
        assert traced._replace(steps=told.steps) == told
