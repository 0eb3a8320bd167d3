"""Fields that an operator declares for keys of JSON logs, so that queries need no cast."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from cython_ext.scan import Scanner
from job.errors import FormatError
from job.formats.fields import type_of
from job.formats.format import Format
from job.formats.json_documents import split_path
from job.formats.program import Content, JsonPath, JsonProgram
from job.types import Type

_CONTENTS = {
    "STRING": JsonPath((), Content.TEXT, ()),
    "BIGINT": JsonPath((), Content.INTEGER, (), lenient=True),
    "DOUBLE": JsonPath((), Content.FLOAT, (), lenient=True),
    "BOOLEAN": JsonPath((), Content.FLAG, (), lenient=True),
    "TIMESTAMP": JsonPath((), Content.TIME, (), layout=b"%+", lenient=True),
    "DECIMAL(18,6)": JsonPath((), Content.DECIMAL, (), argument=6, lenient=True),
}
FIELDS_MAX = 1000


def declared_type(name: str) -> Type:
    """The type called `name`. Raises FormatError, which names those that can be declared."""
    return type_of(_content(name).content)


def _content(name: str) -> JsonPath:
    found = _CONTENTS.get("".join(name.split()).upper())
    if found is None:
        *first, last = _CONTENTS
        raise FormatError(f"{name!r} is no type of a declared field; write {', '.join(first)} or {last}")
    return found


def _paths(name: str) -> tuple[tuple[str, ...], ...]:
    """The nested value, else the key with the dots in it, as any other name of an open document is read."""
    nested = split_path(name)
    return (nested,) if len(nested) == 1 else (nested, (name.replace("\\.", "."),))


def with_fields(format: Format, declared: Mapping[str, str]) -> Format:
    """`format` with further fields: dotted path in the document -> name of the type. A value that does not fit its type is
    NULL. Raises FormatError for formats whose documents are not open, for names taken, and for types that there are not.
    """
    program = format.program
    if not isinstance(program, JsonProgram) or not program.open_fields:
        raise FormatError(
            f"the format {format.name} has no other fields than its own; fields are declared for the format json"
        )
    if len(declared) > FIELDS_MAX:
        raise FormatError(f"there are {len(declared)} declared fields, more than {FIELDS_MAX}")
    fields, values = dict(program.fields), list(program.values)
    folded = {name.lower(): name for name in format.fields}
    for name, named in declared.items():
        taken = folded.get(name.lower())
        if taken is not None:
            raise FormatError(f"{name!r} is a field of the format {format.name} already, of type {fields.get(taken, '')}")
        folded[name.lower()] = name
        content = _content(named)
        fields[name] = type_of(content.content)
        values.append(replace(content, paths=_paths(name), outputs=(name,)))
    declared_format = replace(format, program=replace(program, fields=fields, values=tuple(values)))
    try:
        Scanner(declared_format.program, list(declared))
    except ValueError as error:
        raise FormatError(f"the declared fields cannot be read: {error}") from error
    return declared_format
