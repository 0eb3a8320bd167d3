"""Jobs as text: the list, one job, its revisions, what a change changes."""

from __future__ import annotations

import difflib
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from elfstream.terminal import BOLD, DIM, GREEN, RED, YELLOW, paint, visible
from elfstream.views.words import count, moment, node_name, rate, since, span
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


DERIVED = "derived"
"""Instead of a source: the windows of the job are computed elsewhere."""


def list_rows(jobs: Sequence[Document], now: datetime) -> list[tuple[Any, ...]]:
    """Rows of LIST_COLUMNS."""
    return [
        (
            job["name"],
            visible(job.get("problem") or job["state"]),
            job["revision"],
            job["source"] or DERIVED,
            since(job["created"], now),
            f"{since(job['changed'], now)} ago",
        )
        for job in jobs
    ]


CHANGE_COLUMNS = (
    Field("rev", BIGINT),
    Field("state", STRING),
    Field("made", STRING),
    Field("windows from", STRING),
    Field("what changed", STRING),
)


CHANGE_WHOLE = ("state", "made", "windows from")


def change_rows(changes: Sequence[Document], now: datetime) -> list[tuple[Any, ...]]:
    """Rows of CHANGE_COLUMNS; a revision that failed says why."""
    rows, before = [], None
    for change in changes:
        what = "made" if before is None else "; ".join(differences(before, change)) or "nothing"
        if change["problem"]:
            what += f" ({change['problem']})"
        start = "all" if change["start"] is None else moment(change["start"])
        rows.append((change["revision"], change["state"], f"{since(change['made'], now)} ago", start, what))
        before = change
    return rows


def own_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Those that are not the default."""
    plain = Settings().shown()
    return {name: value for name, value in settings.items() if plain.get(name) != value}


def differences(before: Document, after: Document, colour: bool = False) -> list[str]:
    """What is another in the second of two revisions: SQL as a word diff, settings and parameters as `name: old → new`."""
    found = []
    if before["sql"] != after["sql"] and before["sql"] is not None and after["sql"] is not None:
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


LABEL = 11
"""Columns of what a fact is about."""


def job_lines(job: Document, now: datetime, colour: bool = False, columns: int | None = None) -> Iterator[str]:
    """All there is to say of one job, for reading; facts are broken between words at `columns`."""
    title = f"{job['name']}: {state_text(job)}, revision {job['revision']}"
    yield paint(title, BOLD, colour)
    if job["problem"]:
        yield paint(f"  {visible(job['problem'])}", RED, colour)
    yield ""
    for line in (job["sql"] or job["derived"]["text"]).strip().splitlines():
        yield f"  {visible(line)}"
    yield ""
    for name, text, style in _facts(job, now):
        room = max(columns - LABEL, 24) if columns else len(text) + 1
        first, *rest = textwrap.wrap(text, room, break_on_hyphens=False) or [""]
        yield f"{paint(f'{name:<{LABEL}}', DIM, colour)}{paint(first, style, colour)}"
        for line in rest:
            yield " " * LABEL + paint(line, style, colour)
    yield ""
    yield paint("columns", DIM, colour)
    widest = max((len(column["name"]) for column in job["columns"]), default=0)
    for column in job["columns"]:
        yield f"  {visible(column['name']):<{widest}}  {column['type']}"
    if job["plan"] is None:
        return
    yield paint("plan", DIM, colour)
    for line in job["plan"].rstrip("\n").splitlines():
        yield f"  {visible(line)}"


def state_text(job: Document) -> str:
    """running; or running, shall be stopped."""
    state, wanted = str(job["state"]), str(job["wanted"])
    on_its_way = {"running": ("starting", "changing"), "stopped": ("draining",)}.get(wanted, ())
    return state if state == wanted or state in on_its_way else f"{state}, shall be {wanted}"


def agents_text(job: Document) -> str:
    """2 agents, missing: web3; or 3 agents, waits for web3 (at 20:00:10Z)."""
    coverage, waits = job["coverage"], job.get("waits_for", ())
    missing = coverage["missing"]
    text = count(coverage["agents"], "agent") if coverage["agents"] else "no agent takes part yet"
    if missing:
        text += f", missing: {', '.join(map(visible, missing))}"
    if waits:
        text += f", waits for {', '.join(visible(one['agent']) for one in waits)}"
        text += f" (at {moment(waits[0]['watermark'])[11:]})"
    return text


def joining_text(job: Document, able: int) -> str:
    """Who takes part in a job that was just made; `able` agents have its source, as far as is known."""
    there = job["coverage"]["agents"] - len(job["coverage"]["missing"])
    if there >= able:
        return agents_text(job)
    if there:
        return f"{there} of {count(able, 'agent')} so far, the others are joining"
    return f"{count(able, 'agent')} with {job['source']} {'is' if able == 1 else 'are'} joining"


ENDLESS = "9999"
"""The year of the watermark of a job that was read to its end."""


def final_text(job: Document) -> str:
    """Up to when windows are final; of a job that is read how far that is behind."""
    watermark = job["watermark"]
    if watermark is None:
        return "no line yet"
    if watermark.startswith(ENDLESS):
        return "all windows"
    behind = "" if job["state"] == "stopped" else f", {span(job['lag_seconds'])} behind"
    return f"up to {moment(watermark)}{behind}"


def rates_text(rates: Document | None) -> str:
    """1.10 k lines/s (1.09 k parsed, 10 rejected, 0 late), 2.0 results/s, over the last 5.5 s."""
    if rates is None:
        return "not known yet"
    parts = []
    if rates["lines_per_second"] is not None:
        kinds = (f"{rate(rates[f'{kind}_per_second'])} {kind}" for kind in ("parsed", "rejected", "late"))
        parts.append(f"{rate(rates['lines_per_second'])} lines/s ({', '.join(kinds)})")
    parts.append(f"{rate(rates['results_per_second'])} results/s")
    return f"{', '.join(parts)}, over the last {span(rates['over_seconds'])}"


def _facts(job: Document, now: datetime) -> Iterator[tuple[str, str, str]]:
    """(what, text, style)."""
    coverage = job["coverage"]
    own = own_settings(job["settings"])
    if job["derived"] is None:
        is_whole = not coverage["missing"] and not job.get("waits_for")
        yield "source", f"{job['source']}, {agents_text(job)}", "" if is_whole else YELLOW
    else:
        size = job["derived"]["size"]
        yield "source", f"{DERIVED}: {f'windows of {size}' if size else 'one window'}, computed elsewhere", ""
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
        for name, text in (("outside", "outside"), ("lost_bytes", "bytes lost"), ("shed", "shed"))
        if coverage[name]
    ]
    yield (
        "lines",
        ", ".join(counters),
        YELLOW if rejected or late or coverage["lost_bytes"] or coverage["shed"] else "",
    )
    yield "final", final_text(job), ""
    if job["state"] != "stopped":
        yield "rates", rates_text(job["rates"]), ""
    yield "windows", f"{job['windows_open']:,} open, {count(job['results'], 'result')} published", ""
    yield (
        "master",
        f"{node_name(job['master'])}; its log is kept by {', '.join(map(node_name, job['group']))}",
        "",
    )
    yield "made", f"{moment(job['created'])}, {since(job['created'], now)} ago", ""
