"""`elfstream check`: the configuration, and whether the world is as it says.

    logs.py           files, rights, formats      network.py        the port, names of other nodes
    machine.py        disk, memory, clock         certificates.py   cert, key and ca
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from elfstream.check.certificates import check_certificates
from elfstream.check.finding import Finding
from elfstream.check.logs import LogFacts, check_source
from elfstream.check.machine import (
    check_clock,
    check_data_dir,
    check_memory,
    check_processors,
    clock_is_synchronised,
)
from elfstream.check.network import check_port, check_reach
from elfstream.config import Examined, NodeConfig, Problem, examine
from elfstream.config.document import PREFIX, label
from elfstream.config.keys import SECTIONS
from elfstream.config.reading import order
from elfstream.config.toml_lines import KeyPath

__all__ = ["Report", "check"]


class Report(NamedTuple):
    """Everything that was found. `config` is what could be read of the configuration."""

    config: NodeConfig
    problems: tuple[Problem, ...]
    sources: tuple[LogFacts, ...]
    running: bool
    """A node answers where this one would listen."""

    @property
    def ok(self) -> bool:
        """Whether a node would start; warnings do not keep it from that."""
        return all(problem.severity == "warning" for problem in self.problems)


def check(
    file: str | os.PathLike[str], environ: Mapping[str, str] | None = None, root: Path = Path("/")
) -> Report:
    """Reads the configuration as a node would, and looks at everything it names. Changes nothing. `root` is where
    /proc and /sys are.

    What depends on a value that was refused is not looked at. Takes some milliseconds per log, and seconds where a name
    server does not answer.
    """
    examined = examine(file, environ)
    config, problems = examined.config, list(examined.problems)
    if not examined.whole:
        return Report(config, tuple(problems), (), False)
    now_s = time.time()
    given = os.environ if environ is None else environ
    problems += _unread_variables(given)
    found: list[Finding] = []
    facts: list[LogFacts] = []
    for number, source in zip(examined.numbers, config.sources, strict=True):
        if not _is_refused(examined, ("sources", number)):
            findings, fact = check_source(number, source, int(now_s * 1e6))
            found += findings
            facts.append(fact)
    found += check_data_dir(config, root)
    found += check_memory(config, root)
    found += check_processors(config)
    found += check_clock(now_s, clock_is_synchronised())
    running = False
    if not _is_refused(examined, ("node", "listen")):
        findings, port = check_port(config)
        found += findings
        running = port.running
        found += check_reach(config)
    if not _is_refused(examined, ("security",)):
        found += check_certificates(config, now_s)
    problems = sorted([*problems, *_placed(examined, found)], key=lambda problem: order(problem, config.file))
    return Report(config, tuple(problems), tuple(facts), running)


def _unread_variables(environ: Mapping[str, str]) -> Iterable[Problem]:
    """Variables that look as if they set a key, and lack its table."""
    for section in ("node", "limits"):
        for key in SECTIONS[section]:
            name = f"{PREFIX}{key.name.upper()}"
            if environ.get(name):
                advice = f"Write {PREFIX}{section.upper()}_{key.name.upper()}."
                yield Problem("environment", None, name, "a node does not read this variable", advice, "warning")


def _is_refused(examined: Examined, key: KeyPath) -> bool:
    return any(refused[: len(key)] == key for refused in examined.refused) or any(
        problem.key.startswith(label(key)) for problem in examined.problems
    )


def _placed(examined: Examined, found: Iterable[Finding]) -> Iterable[Problem]:
    """Findings as problems with their places, but for those about keys that have a problem already."""
    told = {problem.key for problem in examined.problems}
    for finding in found:
        place = examined.place(finding.key)
        if place.key not in told:
            yield Problem(
                place.file, place.line, place.key, finding.message, finding.advice, finding.severity, finding.detail
            )
