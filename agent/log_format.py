"""Which format the logs of a query have: as it was named, or as their first lines tell."""

from __future__ import annotations

from pathlib import Path

from agent.files import Inputs
from job.errors import FormatError
from job.formats import Format, as_logged, detect, find, in_zone

AUTO = "auto"
UNDETECTED = "nothing could be detected: no file has a line that is not blank; read as combined"


def resolve_format(
    name: str, inputs: Inputs, server_config: Path | None = None, timezone: str | None = None
) -> tuple[Format, str]:
    """The format called `name` and why it was chosen; "auto" looks into the first file that has lines, as do formats whose
    logs name their columns. `timezone` is that of times without an offset.

    Raises FormatError, InputError.
    """
    format, why = _found_format(name, inputs, server_config)
    return (format if timezone is None else in_zone(format, timezone)), why


def _found_format(name: str, inputs: Inputs, server_config: Path | None) -> tuple[Format, str]:
    if name.lower() != AUTO:
        format = find(name, server_config=server_config)
        if format.directives and not format.text:
            format = as_logged(format, inputs.head()[1])
        return format, f"as asked: {name}"
    if server_config is not None:
        raise FormatError("--server-config needs the name of a format in that file: add --format NAME")
    path, head = inputs.head()
    if not head:
        return find("combined"), UNDETECTED
    try:
        detection = detect(head)
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from error
    return detection.format, detection.reason
