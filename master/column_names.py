"""Names of columns side by side, each unlike all others."""

from __future__ import annotations

from collections.abc import Iterable


def free_names(names: Iterable[str], taken: Iterable[str]) -> list[str]:
    """Names of columns, each with as many _ behind it as make it unlike all others; Spark takes A and a for the same."""
    used = {name.lower() for name in taken}
    found = []
    for name in names:
        while name.lower() in used:
            name += "_"
        used.add(name.lower())
        found.append(name)
    return found
