"""Times in format strings: from strftime as servers write it to the layouts that the scan kernel reads."""

from __future__ import annotations

from job.errors import FormatError

_SAME = frozenset("dmbYyHMSfzsaABTpIej%")
_LONG = {
    "F": "%Y-%m-%d",
    "D": "%m/%d/%y",
    "R": "%H:%M",
    "h": "%b",
    "r": "%I:%M:%S %p",
    "c": "%a %b %e %H:%M:%S %Y",
    "n": "\n",
    "t": "\t",
}
_DATE = (frozenset("dY"), frozenset("ey"), frozenset("dy"), frozenset("eY"), frozenset("jY"), frozenset("jy"))
_EPOCH = frozenset("sLU")


def to_layout(text: str) -> str:
    """`text` in the directives of `job.formats.program.Content.TIME`. Raises FormatError for one that is unknown there."""
    parts: list[str] = []
    index = 0
    while index < len(text):
        letter = text[index]
        index += 1
        if letter != "%":
            parts.append(letter)
            continue
        directive = text[index : index + 1]
        index += 1
        if directive == "E" and text[index : index + 1] == "z":  # +hh:mm, as the kernel's %z reads too
            directive, index = "z", index + 1
        if directive in _SAME and directive:
            parts.append("%" + directive)
        elif directive in _LONG:
            parts.append(_LONG[directive])
        else:
            known = " ".join("%" + known for known in sorted(_SAME | set(_LONG)))
            raise FormatError(f"the time format {text!r} has %{directive}, which cannot be read back; known are {known}")
    return "".join(parts)


def directives(layout: str) -> frozenset[str]:
    """The directive letters of a layout, %T spelled out."""
    letters = {layout[index + 1] for index in _percents(layout)} - {"%"}
    return frozenset(letters - {"T"} | (set("HMS") if "T" in letters else set()))


def _percents(layout: str) -> list[int]:
    found: list[int] = []
    index = layout.find("%")
    while 0 <= index < len(layout) - 1:
        found.append(index)
        index = layout.find("%", index + 2)
    return found


def names_a_day(layout: str) -> bool:
    """Whether the layout says which day it is, so that it can be the time of a line."""
    letters = directives(layout)
    return bool(letters & _EPOCH) or any(day <= letters for day in _DATE)


def complement(first: str, between: str, second: str) -> str | None:
    """One layout for two that stand beside each other with `between` in the middle; None when they do not complete
    each other, such as two whole times."""
    ours, theirs = directives(first), directives(second)
    if ours & theirs or _EPOCH & theirs:
        return None
    if ours & _EPOCH:
        # The kernel reads epoch seconds with their fraction.
        return first if theirs == {"f"} and between == "." and first.endswith("%s") else None
    return first + between.replace("%", "%%") + second
