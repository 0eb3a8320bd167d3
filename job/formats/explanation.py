"""One line, step by step: which bytes are which field, and where and why matching stopped."""

from __future__ import annotations

from typing import Any, NamedTuple

from cython_ext.scan import Scanner, Trace
from job.formats.format import Format
from job.formats.program import Content, JsonPath, LineProgram, Program, Step
from job.formats.scanner import SourceScanner
from job.types import Kind

_SHOWN_BYTES_MAX = 40
_WHAT = {
    Content.INTEGER: "a whole number that is not negative",
    Content.TIMER: "a whole number",
    Content.DECIMAL: "a number",
    Content.STATUS: "a status of three digits",
    Content.FLAG: "true or false",
    Content.FLOAT: "a number",
}
_REASONS = {
    "blank": "the line is blank",
    "bad_json": "this is not JSON",
    "not_object": "the line is JSON, but no object",
    "too_deep": "the document is nested too deep",
    "too_long": "the line is too long",
    "no_fields": "no #Fields line has named the columns yet",
}


class ExplainedStep(NamedTuple):
    """One step of the format on this line: its bytes are `line[start:end]`.

    `values` has the fields it gave, NULL as None; TIMESTAMPs are microseconds since 1970, DECIMALs `decimal.Decimal`.
    """

    name: str
    start: int
    end: int
    text: bytes
    values: dict[str, Any]


class Explanation(NamedTuple):
    """What a format makes of a line. Where it does not match, `position` is the byte where it stopped and `message` says
    what was expected there."""

    format: Format
    line: bytes
    ok: bool
    reason: str
    position: int
    message: str
    steps: list[ExplainedStep]


def explain(format: Format, line: bytes) -> Explanation:
    """Reads `line` with `format`. For a w3c format it may be several lines, the last of which is explained."""
    scanner = SourceScanner(format, [])
    *before, line = line.rstrip(b"\n").split(b"\n")
    for directive in before:
        scanner.feed(directive + b"\n")
    line = line.removesuffix(b"\r")
    program = scanner.program
    trace = Scanner(program, list(program.fields)).trace(line)
    values = _decoded(program, line) if trace.ok else {}
    parts = program.steps if isinstance(program, LineProgram) else program.values
    steps = []
    for step, start, end in trace.steps:
        outputs = [name for name in parts[step].outputs if name is not None]
        if outputs or start < end:
            found = {name: values[name] for name in outputs if name in values}
            steps.append(ExplainedStep(_name(parts[step]), start, end, line[start:end], found))
    message = "" if trace.ok else f"column {trace.position + 1}: {_message(program, line, trace)}"
    return Explanation(format, line, trace.ok, trace.reason, trace.position, message, steps)


def _decoded(program: Program, line: bytes) -> dict[str, Any]:
    wanted = list(program.fields)
    columns = Scanner(program, wanted).scan(line + b"\n").columns
    decoded = {}
    for name, column in zip(wanted, columns, strict=True):
        of = program.fields[name]
        decoded[name] = (column.to_list(of.scale) if of.kind is Kind.DECIMAL else column.to_list())[0]
    return decoded


def _name(part: Step | JsonPath) -> str:
    return next((name for name in part.outputs if name is not None), part.content.name.lower())


def _message(program: Program, line: bytes, trace: Trace) -> str:
    if trace.reason in _REASONS:
        return _REASONS[trace.reason]
    if trace.reason == "trailing":
        return f"the format ends here, but the line goes on with {_shown(line[trace.position :])}"
    if not isinstance(program, LineProgram):
        return _document_message(trace.reason)
    step = program.steps[len(trace.steps)] if len(trace.steps) < len(program.steps) else program.steps[-1]
    here = _shown(line[trace.position :])
    if trace.reason == "truncated":
        return f"the line ends before {_expected(step)} is complete: {here}"
    if trace.reason == "mismatch":
        if program.prefix and not line.startswith(program.prefix):
            return f"the line should start with {_shown(program.prefix)}, but here is {here}"
        return f"{_expected(step)} should stand here, but here is {here}"
    if trace.reason == "overflow":
        return f"{here} is too large a number for {_name(step)}"
    if trace.reason == "bad_time":
        return f"{_name(step)} should be a time like {step.layout.decode()}, but here is {here}"
    return f"{_name(step)} should be {_WHAT.get(step.content, 'another text')}, but here is {here}"


def _expected(step: Step) -> str:
    behind = f" and {_shown(step.until)} behind it" if step.until else ""
    return f"{_name(step)}{behind}"


def _document_message(reason: str) -> str:
    if reason == "mismatch":
        return "the document lacks a key that every access record of this format has"
    if reason == "truncated":
        return "the document is cut off"
    return f"a value of the document has the wrong type ({reason})"


def _shown(text: bytes) -> str:
    cut = text[:_SHOWN_BYTES_MAX].decode("utf-8", "backslashreplace")
    return "the end of the line" if not text else repr(cut) + ("..." if len(text) > _SHOWN_BYTES_MAX else "")
