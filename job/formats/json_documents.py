"""Formats that log a JSON object per line: which value of the document is which field."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from job.formats.boundaries import Piece
from job.formats.fields import SIZED, FieldNames, Meaning
from job.formats.program import JsonPath, JsonProgram

PATH_DEPTH_MAX = 16


def from_template(pieces: Sequence[Piece]) -> JsonProgram | None:
    """The program of a format string that writes a JSON object, such as nginx's with escape=json.

    None when the string is no JSON object, or when a value outside of quotes may be missing: then lines that are no
    JSON do occur, and a line program reads them.
    """
    marked: list[str] = []
    meanings: list[Meaning] = []
    quoted = False
    for piece in pieces:
        if isinstance(piece, bytes):
            if b"\n" in piece:
                return None  # a document over several lines, which the line program refuses by name
            literal = piece.decode()
            quoted ^= literal.replace("\\\\", "").replace('\\"', "").count('"') % 2 == 1
            marked.append(literal)
            continue
        if not quoted and piece.content not in SIZED:
            return None
        mark = _mark(len(meanings))
        marked.append(mark if quoted else f'"{mark}"')
        meanings.append(piece)
    try:
        document = msgspec.json.decode("".join(marked))
    except (msgspec.DecodeError, ValueError):
        return None
    if not isinstance(document, dict):
        return None
    return _program(document, meanings)


def _mark(number: int) -> str:
    # Private-use characters: no server's format has them.
    return f"\ue000{number}\ue001"


def _program(document: dict[str, Any], meanings: Sequence[Meaning]) -> JsonProgram | None:
    places: dict[int, tuple[str, ...]] = {}
    _collect(document, (), {_mark(number): number for number in range(len(meanings))}, places)
    names = FieldNames()
    values = []
    for number, meaning in enumerate(meanings):
        if number not in places:
            continue  # part of a longer text, which is a field by its key
        values.append(path(meaning, names, places[number]))
    if not values:
        return None
    return JsonProgram(fields=names.fields, values=tuple(values), open_fields=True)


def _collect(
    value: Any, at: tuple[str, ...], numbers: dict[str, int], places: dict[int, tuple[str, ...]]
) -> None:
    if isinstance(value, dict) and len(at) < PATH_DEPTH_MAX:
        for key, inner in value.items():
            _collect(inner, (*at, key), numbers, places)
    elif isinstance(value, str) and value in numbers:
        places[numbers[value]] = at


def path(meaning: Meaning, names: FieldNames, *paths: tuple[str, ...]) -> JsonPath:
    """The value at the first of `paths` that a document has, as `meaning` says. An empty text is a missing number."""
    nulls = (*meaning.nulls, b"") if meaning.content in SIZED else meaning.nulls
    return JsonPath(
        paths=paths,
        content=meaning.content,
        outputs=names.claim(meaning),
        layout=meaning.layout,
        argument=meaning.argument,
        nulls=nulls,
        required=meaning.required,
        lenient=meaning.lenient,
    )


def program(values: Sequence[tuple[Meaning, tuple[str, ...]]]) -> JsonProgram:
    """The program of a service's documents: meanings with the dotted paths where they stand, the first one found wins.

    Every other key is a field too, by its dotted path. A key that has dots itself is written with `\\.`.
    """
    names = FieldNames()
    found = tuple(path(meaning, names, *map(split_path, paths)) for meaning, paths in values)
    return JsonProgram(fields=names.fields, values=found, open_fields=True)


def split_path(dotted: str) -> tuple[str, ...]:
    return tuple(part.replace("\0", ".") for part in dotted.replace("\\.", "\0").split("."))

