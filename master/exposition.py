"""Numbers as Prometheus reads them: the text format 0.0.4, and the rows of a result as series. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isinf, isnan

import msgspec

from master.requests import ResultRecord
from master.result_documents import packed_rows

SERIES_MAX = 1000
"""Of one metric; of more the first are shown."""
LABEL_CHARS_MAX = 256
_NO_LABEL = re.compile(r"[^a-zA-Z0-9_]")
_NUMBERS = ("BIGINT", "DOUBLE", "DECIMAL")


def head(name: str, kind: str, help: str) -> str:
    """What goes before the series of a metric. kind: counter or gauge."""
    text = help.replace("\\", r"\\").replace("\n", r"\n")
    return f"# HELP {name} {text}\n# TYPE {name} {kind}\n"


def series(name: str, labels: Mapping[str, str], value: float) -> str:
    """One line. Texts of strangers are escaped and cut."""
    inner = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
    return f"{name}{{{inner}}} {_number(value)}\n" if inner else f"{name} {_number(value)}\n"


def _escaped(text: str) -> str:
    return text[:LABEL_CHARS_MAX].replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _number(value: float) -> str:
    if isnan(value):
        return "NaN"
    return ("+Inf" if value > 0 else "-Inf") if isinf(value) else repr(value + 0)  # True is 1


def label_name(text: str) -> str:
    """A column's name as a label; names that begin with two underscores belong to Prometheus."""
    name = _NO_LABEL.sub("_", text)[:64]
    return f"c{name}" if not name or name[0].isdigit() or name.startswith("__") else name


def result_series(job: str, record: ResultRecord | None) -> Iterator[str]:
    """The rows of a window: a series for each number, labelled by the texts beside it. At most SERIES_MAX, counted."""
    name = "elfstream_result"
    yield head(name, "gauge", "Numbers of the rows of the job's latest final window, by column.")
    if record is None:
        return
    rows: Sequence[Sequence[object]] = msgspec.json.decode(packed_rows(record)) if record.rows else ()
    numbers = [at for at, column in enumerate(record.columns) if column.type.startswith(_NUMBERS)]
    texts = {
        at: label_name(column.name) for at, column in enumerate(record.columns) if column.type in ("STRING", "BOOLEAN")
    }
    shown, left = 0, 0
    seen: set[tuple[tuple[str, str], ...]] = set()
    for row in rows:
        labels = {"job": job}
        for at, label in texts.items():
            labels[label if label not in ("job", "column") else f"c_{label}"] = "" if row[at] is None else str(row[at])
        for at in numbers:
            if row[at] is None:
                continue
            every = {**labels, "column": record.columns[at].name}
            identity = tuple((label, text[:LABEL_CHARS_MAX]) for label, text in every.items())
            if shown == SERIES_MAX or identity in seen:
                left += 1
                continue
            seen.add(identity)
            shown += 1
            yield series(name, every, float(str(row[at])))
    if record.end_us is not None:
        yield head("elfstream_result_window_end_seconds", "gauge", "End of that window, seconds since 1970.")
        yield series("elfstream_result_window_end_seconds", {"job": job}, record.end_us / 1e6)
    yield head("elfstream_result_series_left_out", "gauge", "Numbers of that window that are not shown.")
    yield series("elfstream_result_series_left_out", {"job": job}, left)


def bounded(
    name: str, label_names: Sequence[str], values: Iterable[tuple[Sequence[str], float]]
) -> tuple[str, int]:
    """The series of a metric, and how many were left out."""
    lines: list[str] = []
    left = 0
    for texts, value in values:
        if len(lines) < SERIES_MAX:
            lines.append(series(name, dict(zip(label_names, texts, strict=True)), value))
        else:
            left += 1
    return "".join(lines), left
