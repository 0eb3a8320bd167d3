"""From a format string's pieces to a line program: which literal ends which field, and how."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from msgspec.structs import replace

from job.errors import FormatError
from job.formats.boundaries import Piece, ends_by_itself, joined, side_by_side
from job.formats.fields import SIZED, FieldNames, Meaning
from job.formats.program import Content, Extent, LineProgram, Step

STEPS_MAX = 512
"""Columns of a format; more than any server logs, and a bound on what a hostile #Fields line makes us build."""

_NUMERIC = SIZED - {Content.TIME}


class Quoting(Enum):
    """How a server writes values that it puts between double quotes."""

    BACKSLASH = 1
    """A quote or backslash inside the value is escaped; a missing value is `-`."""
    JSON = 2
    """As JSON strings; a missing value is empty."""
    NONE = 3
    """As they are; a missing value is empty."""
    NONE_DASH = 4
    """As they are; a missing value is `-`."""

    @property
    def escapes(self) -> bool:
        return self in (Quoting.BACKSLASH, Quoting.JSON)

    @property
    def empty_means_missing(self) -> bool:
        return self in (Quoting.JSON, Quoting.NONE)


def assemble(pieces: Iterable[Piece], quoting: Quoting = Quoting.BACKSLASH) -> LineProgram:
    """The program of a line made of literals and variables in this order.

    Raises FormatError where two variables stand side by side and nothing tells where the first one ends.
    """
    merged = joined(_merge_literals(pieces))
    if not any(isinstance(piece, Meaning) for piece in merged):
        raise FormatError("the format names no variable, so there is nothing to read from a line")
    if any(isinstance(piece, bytes) and b"\n" in piece for piece in merged):
        raise FormatError("the format writes more than one line for a request; only one line for each can be read")
    if len(merged) > 2 * STEPS_MAX:
        raise FormatError(f"the format has more than {STEPS_MAX} variables")
    names = FieldNames()
    prefix = merged[0] if isinstance(merged[0], bytes) else b""
    quotes = prefix.count(b'"')
    steps: list[Step] = []
    for index, piece in enumerate(merged):
        if isinstance(piece, bytes):
            continue
        following = merged[index + 1] if index + 1 < len(merged) else b""
        until = following if isinstance(following, bytes) else b""
        step = _step(piece, names.claim(piece), until, quotes % 2 == 1, quoting)
        if isinstance(following, Meaning):
            step = _bounded(step, piece, following, quoting)
        quotes += until.count(b'"')
        steps.append(step)
    return LineProgram(fields=names.fields, steps=tuple(steps), prefix=prefix)


def _bounded(step: Step, meaning: Meaning, following: Meaning, quoting: Quoting) -> Step:
    """`step` with `following` right behind it. Raises FormatError where nothing tells where it ends."""
    # A number that is missing where nothing is written for it has no first byte to know it by.
    numbered = quoting.empty_means_missing and meaning.content in _NUMERIC - {Content.STATUS}
    if step.extent is not Extent.SELF or numbered or not ends_by_itself(meaning, following):
        raise side_by_side(meaning, following)
    return replace(step, argument=1) if step.content is Content.STATUS else step


def _step(meaning: Meaning, outputs: tuple[str | None, ...], until: bytes, quoted: bool, quoting: Quoting) -> Step:
    extent = _extent(meaning, until, quoted, quoting)
    nulls = meaning.nulls
    if quoting.empty_means_missing and meaning.content in SIZED and extent is not Extent.SELF:
        nulls = (*nulls, b"")
    return Step(
        extent=extent,
        content=meaning.content,
        outputs=outputs,
        until=until,
        nulls=nulls,
        layout=meaning.layout,
        argument=meaning.argument,
        json_escaped=quoting is Quoting.JSON and meaning.content not in SIZED,
    )


def _extent(meaning: Meaning, until: bytes, quoted: bool, quoting: Quoting) -> Extent:
    if meaning.loose:
        return Extent.MAYBE_QUOTED
    may_be_missing = quoting.empty_means_missing and meaning.content in _NUMERIC and until != b""
    if meaning.content in SIZED and not may_be_missing:
        return Extent.SELF
    if quoted and until.startswith(b'"') and quoting.escapes:
        return Extent.QUOTED
    if meaning.elements and until.startswith(b" "):
        return Extent.LIST
    if meaning.word and not quoting.empty_means_missing:
        return Extent.WORD
    if meaning.content is Content.REQUEST and until.startswith(b" "):
        return Extent.REQUEST
    if meaning.person:
        return Extent.NAME
    return Extent.TEXT


def _merge_literals(pieces: Iterable[Piece]) -> list[Piece]:
    merged: list[Piece] = []
    for piece in pieces:
        last = merged[-1] if merged else None
        if piece == b"":
            continue
        if isinstance(piece, bytes) and isinstance(last, bytes):
            merged[-1] = last + piece
        else:
            merged.append(piece)
    return merged
