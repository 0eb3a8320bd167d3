"""Log formats: from a name or a verbatim format string to a program that the scan kernel runs."""

from __future__ import annotations

from job.formats.declared import with_fields
from job.formats.detection import Detection, as_logged, detect
from job.formats.explanation import ExplainedStep, Explanation, explain
from job.formats.format import Format
from job.formats.lookup import find, in_zone, names
from job.formats.scanner import SourceScanner
from job.formats.timezones import Zone

__all__ = [
    "Detection",
    "ExplainedStep",
    "Explanation",
    "Format",
    "SourceScanner",
    "Zone",
    "as_logged",
    "detect",
    "explain",
    "find",
    "in_zone",
    "names",
    "with_fields",
]
