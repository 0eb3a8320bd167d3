"""The syntax of Apache's configuration, as far as a LogFormat needs it: a directive per line, continued by a backslash."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple


class Directive(NamedTuple):
    """A directive and the unparsed text behind it; sections appear as `<Name` directives."""

    name: str
    rest: str
    line: int


def directives(text: str) -> Iterator[Directive]:
    """All directives of a configuration file, those inside of sections too, in the order they stand there."""
    pending = ""
    first_line = 1
    for number, line in enumerate(text.splitlines(), 1):
        if not pending:
            first_line = number
        line = pending + line.strip()
        if line.endswith("\\") and not line.endswith("\\\\"):
            pending = line[:-1]
            continue
        pending = ""
        if line and not line.startswith("#"):
            name, _, rest = line.replace("\t", " ", 1).partition(" ")
            yield Directive(name, rest.strip(), first_line)
