"""Jobs as text: the list, one job, its revisions, what a change changes."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from elfstream.terminal import BOLD, DIM, GREEN, RED, YELLOW, paint, visible
from elfstream.views.words import count, moment, node_name, since, span
from job.plan import Field
from job.settings import Settings
from job.types import BIGINT, STRING

Document = Mapping[str, Any]

LIST_COLUMNS = (
    Field("job", STRING),
    Field("state", STRING),
    Field("revision", BIGINT),
    Field("source", STRING),
    Field("age", STRING),
    Field("changed", STRING),
)


def list_rows(jobs: Sequence[Document], now: datetime) -> list[tuple[Any, ...]]:
    """Rows of LIST_COLUMNS."""
    return [
        (
            *(job[name] for name in ("name", "state", "revision", "source")),
            since(job["created"], now),
            f"{since(job['changed'], now)} ago",
        )
        for job in jobs
    ]


CHANGE_COLUMNS = (
    Field("revision", BIGINT),
    Field("state", STRING),
    Field("made", STRING),
    Field("windows from", STRING),
    Field("what changed", STRING),
)


def change_rows(changes: Sequence[Document]) -> list[tuple[Any, ...]]:
    """Rows of CHANGE_COLUMNS; a revision that failed says why."""
    rows, before = [], None
    for change in changes:
        what = "made" if before is None else "; ".join(differences(before, change)) or "nothing"
        if change["problem"]:
            what += f" ({change['problem']})"
        start = "all" if change["start"] is None else moment(change["start"])
        rows.append((change["revision"], change["state"], moment(change["made"]), start, what))
        before = change
    return rows


def own_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Those that are not the default."""
    plain = Settings().shown()
    return {name: value for name, value in settings.items() if plain.get(name) != value}


def differences(before: Document, after: Document, colour: bool = False) -> list[str]:
    """What is another in the second of two revisions: SQL as a word diff, settings and parameters as `name: old → new`."""
    found = []
    if before["sql"] != after["sql"]:
        found.append(f"sql: {word_diff(before['sql'], after['sql'], colour)}")
    for part, mark in (("settings", ""), ("parameters", ":")):
        old, new = before[part], after[part]
        for name in dict.fromkeys([*old, *new]):
            if old.get(name) != new.get(name):
                values = (visible(_value(side.get(name))) for side in (old, new))
                was, becomes = values
                found.append(f"{mark}{name}: {paint(was, RED, colour)} → {paint(becomes, GREEN, colour)}")
    return found


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "none" if value in (None, "") else str(value)


_WORDS = re.compile(r"\s+|'(?:[^']|'')*'|\w+|.", re.DOTALL)


def word_diff(before: str, after: str, colour: bool = False) -> str:
    """Two texts in one: what is gone in [-...-], what is new in {+...+}, or red and green. Blanks do not count."""
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    was, becomes = ([" " if word.isspace() else word for word in words] for words in (old, new))
    parts = []
    for kind, i, j, k, m in difflib.SequenceMatcher(None, was, becomes, autojunk=False).get_opcodes():
        gone, come = visible("".join(old[i:j])), visible("".join(new[k:m]))
        if kind == "equal":
            parts.append(come)
            continue
        if gone:
            parts.append(paint(gone, RED, True) if colour else f"[-{gone}-]")
        if come:
            parts.append(paint(come, GREEN, True) if colour else f"{{+{come}+}}")
    return re.sub(r"(\\n|\s)+", " ", "".join(parts))


def job_lines(job: Document, now: datetime, colour: bool = False) -> Iterator[str]:
    """All there is to say of one job, for reading."""
    title = f"{job['name']}: {state_text(job)}, revision {job['revision']}"
    yield paint(title, BOLD, colour)
    if job["problem"]:
        yield paint(f"  {visible(job['problem'])}", RED, colour)
    yield ""
    for line in job["sql"].strip().splitlines():
        yield f"  {visible(line)}"
    yield ""
    for name, text, style in _facts(job, now):
        yield f"{paint(f'{name:<11}', DIM, colour)}{paint(text, style, colour)}"
    yield ""
    yield paint("columns", DIM, colour)
    widest = max((len(column["name"]) for column in job["columns"]), default=0)
    for column in job["columns"]:
        yield f"  {visible(column['name']):<{widest}}  {column['type']}"
    yield paint("plan", DIM, colour)
    for line in job["plan"].rstrip("\n").splitlines():
        yield f"  {visible(line)}"


def state_text(job: Document) -> str:
    """running; or running, shall be stopped."""
    state, wanted = str(job["state"]), str(job["wanted"])
    on_its_way = {"running": ("starting", "changing"), "stopped": ("draining",)}.get(wanted, ())
    return state if state == wanted or state in on_its_way else f"{state}, shall be {wanted}"


def agents_text(coverage: Document) -> str:
    """2 agents, web3 missing."""
    missing = coverage["missing"]
    return count(coverage["agents"], "agent") + (
        f", missing: {', '.join(map(visible, missing))}" if missing else ""
    )


def _facts(job: Document, now: datetime) -> Iterator[tuple[str, str, str]]:
    """(what, text, style)."""
    coverage = job["coverage"]
    own = own_settings(job["settings"])
    yield "source", f"{job['source']}, {agents_text(coverage)}", YELLOW if coverage["missing"] else ""
    if own:
        yield "settings", ", ".join(f"{name} {visible(_value(value))}" for name, value in own.items()), ""
    if job["parameters"]:
        yield (
            "parameters",
            ", ".join(f":{n} = {visible(_value(v))}" for n, v in job["parameters"].items()),
            "",
        )
    rejected, late = coverage["rejected"], coverage["late"]
    counters = [
        f"{coverage['lines']:,} read",
        f"{coverage['filtered']:,} filtered",
        f"{rejected:,} rejected",
        f"{late:,} late",
    ]
    counters += [
        f"{coverage[name]:,} {text}"
        for name, text in (("lost_bytes", "bytes lost"), ("shed", "shed"))
        if coverage[name]
    ]
    yield (
        "lines",
        ", ".join(counters),
        YELLOW if rejected or late or coverage["lost_bytes"] or coverage["shed"] else "",
    )
    lag = (
        "no line yet"
        if job["watermark"] is None
        else f"up to {moment(job['watermark'])}, {span(job['lag_seconds'])} behind"
    )
    yield "final", lag, ""
    yield "windows", f"{job['windows_open']:,} open, {count(job['results'], 'result')} published", ""
    yield (
        "master",
        f"{node_name(job['master'])}; its log is kept by {', '.join(map(node_name, job['group']))}",
        "",
    )
    yield "made", f"{moment(job['created'])}, {since(job['created'], now)} ago", ""
