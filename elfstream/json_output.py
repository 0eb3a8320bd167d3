"""Documents of the fleet on standard output, for `-o json`."""

from __future__ import annotations

import sys

import msgspec

from elfstream.output import write_lines


def write_document(document: object) -> None:
    """One JSON document, indented, as the API has it."""
    write_lines([msgspec.json.format(msgspec.json.encode(document), indent=2), b"\n"], sys.stdout)
