"""The worked example of docs/SCAN.md is true."""

from __future__ import annotations

import re
from pathlib import Path

from cython_ext.scan import Scanner
from job.formats.program import Content, Extent, Step
from tests.scan_cases import CLF_TIME, line_program

DOCUMENT = (Path(__file__).resolve().parents[3] / "docs" / "SCAN.md").read_text()


def test_the_worked_example_is_what_trace_says() -> None:
    example = DOCUMENT.split("## A worked example")[1].split("## ")[0]
    line = example.split("```")[1].strip("\n").encode()
    rows = re.findall(r"^\| `(\w+) (\w+) .*?\| (\d+) \| (\d+) \| (.*) \|$", example, re.MULTILINE)
    program = line_program(
        Step(Extent.WORD, Content.TEXT, ("remote_addr",), b" ["),
        Step(Extent.SELF, Content.TIME, ("time",), b'] "', layout=CLF_TIME),
        Step(Extent.QUOTED, Content.REQUEST, (None, "method", "uri"), b'" '),
        Step(Extent.SELF, Content.STATUS, ("status",)),
    )
    trace = Scanner(program, list(program.fields)).trace(line)
    assert [(Extent[e], Content[c]) for e, c, *_ in rows] == [(s.extent, s.content) for s in program.steps]
    assert [(step.start, step.end) for step in trace.steps] == [(int(row[2]), int(row[3])) for row in rows]
    shown = " ".join(row[4] for row in rows)
    assert all(str(value) in shown for value in trace.values.values())
