"""Configuration files and the environment as trees of plain values, each with its place."""

from __future__ import annotations

import glob
import os
import re
import stat
import tomllib
from collections.abc import Mapping
from typing import Any, NamedTuple

from elfstream.config.model import Problem
from elfstream.config.toml_lines import KeyPath, key_lines

FILE_BYTES_MAX = 1 << 20
INCLUDED_MAX = 1000
DEPTH_MAX = 32
"""Of arrays and tables in each other; what is valid has three."""
FOLDER = "conf.d"
PREFIX = "ELFSTREAM_"

# Capitals only: ${status} is nginx's way to write a variable of a log_format.
_VARIABLE = re.compile(r"\$(?P<escaped>\$\{)|\$\{(?P<name>[A-Z_][A-Z0-9_]*)(?::-(?P<default>[^}]*))?\}")
_AT = re.compile(r" \(at (?:line (?P<line>[0-9]+), column (?P<column>[0-9]+)|(?P<end>end of document))\)$")


class Document(NamedTuple):
    """A file that was read; `tree` is empty where it could not be. Problems stand in the list they were added to."""

    file: str
    tree: dict[str, Any]
    lines: dict[KeyPath, int]
    unset: frozenset[KeyPath] = frozenset()
    """Values with a `${VAR}` that is not set: there is a problem about each already."""

    def line(self, path: KeyPath) -> int | None:
        """Where `path` stands, or the nearest table that it would be in."""
        for depth in range(len(path), 0, -1):
            if path[:depth] in self.lines:
                return self.lines[path[:depth]]
        return None


def label(path: KeyPath) -> str:
    """`sources[0].paths[1]` for ("sources", 0, "paths", 1)."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def read_document(file: str, environ: Mapping[str, str], problems: list[Problem]) -> Document:
    """The file with its `${VAR}` replaced. Adds to `problems`, never raises."""
    text = _text(file, problems)
    tree: dict[str, Any] = {}
    lines: dict[KeyPath, int] = {}
    if text is not None:
        try:
            tree = tomllib.loads(text)
            if _depth(tree) > DEPTH_MAX:
                raise RecursionError
            lines = key_lines(text)
        except RecursionError:
            tree = {}
            problems.append(Problem(file, None, "", f"arrays or tables are nested more than {DEPTH_MAX} deep"))
        except ValueError as error:  # tomllib's own, and Python's about huge integers
            problems.append(_syntax_problem(file, text, error))
    document = Document(file, tree, lines)
    unset: dict[KeyPath, str] = {}
    expanded = _expanded(tree, (), environ, unset)
    for path, name in unset.items():
        message = f"the environment variable {name} is not set"
        advice = f"Set it, or write a default: ${{{name}:-...}}."
        problems.append(Problem(file, document.line(path), label(path), message, advice))
    return document._replace(tree=expanded, unset=frozenset(unset))


def _text(file: str, problems: list[Problem]) -> str | None:
    try:
        with open(file, "rb") as opened:
            data = opened.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        problems.append(_unreadable(file, error))
        return None
    except ValueError:
        problems.append(Problem(file.replace("\0", "\\0"), None, "", "the name of the file has a zero byte in it"))
        return None
    if len(data) > FILE_BYTES_MAX:
        problems.append(Problem(file, None, "", f"the file is larger than {FILE_BYTES_MAX >> 20} MiB"))
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        problems.append(Problem(file, line, "", "the file is not UTF-8 here", "Save it as UTF-8."))
        return None


def _unreadable(file: str, error: OSError) -> Problem:
    if isinstance(error, FileNotFoundError):
        advice = f"To begin with one:  elfstream check --example > {file}"
        return Problem(file, None, "", "there is no such file", advice)
    if isinstance(error, IsADirectoryError):
        return Problem(file, None, "", "this is a folder", "Name the file in it, such as node.toml.")
    if isinstance(error, PermissionError):
        advice = "Run this as the user of the service, or give that user's group the right to read it."
        return Problem(file, None, "", "permission denied", advice)
    return Problem(file, None, "", (error.strerror or str(error)).lower())


def _syntax_problem(file: str, text: str, error: ValueError) -> Problem:
    found = _AT.search(str(error))
    if found is None:
        return Problem(file, None, "", f"this is no TOML: {error}")
    message = str(error)[: found.start()].rstrip(".")
    lines = text.replace("\r\n", "\n").rstrip("\n").split("\n")
    number = len(lines) if found["line"] is None else min(int(found["line"]), len(lines))
    column = "" if found["column"] is None else f", at column {found['column']}"
    said, advice = _syntax_advice(lines[number - 1].strip(), message[:1].lower() + message[1:])
    return Problem(file, number, "", f"this is no TOML: {said}{column}", advice)


def _syntax_advice(line: str, message: str) -> tuple[str, str]:
    """What `tomllib` says of a line in words for operators where there are such, and what to do."""
    key, equals, value = re.sub(r"\s#.*", "", line).partition("=")
    if ":" in line and not equals:
        return message, "TOML is written key = value."
    if "invalid value" in message or "after a statement" in message:
        listed = re.search(r"[\[,]\s*(/[^\s\],]*)", value)
        if listed:
            return "a text without quotes", f'Write "{listed[1]}".'
        if re.fullmatch(r"\s*[^\s\"'\[{#][^\"']*", value):
            return "a text without quotes", f'Write {key.strip()} = "{value.strip()}".'
    if "character '\\n'" in message:
        return "the text is not closed", "A quote is missing at its end."
    if "unescaped" in message:
        return message, "A text with backslashes stands in single quotes: 'like \\this'."
    if "twice" in message:
        return "the table stands here a second time", "Put its keys together; only [[sources]] may be repeated."
    if "overwrite" in message:
        return "the key stands here a second time", "Keep one of them; each source begins with its own [[sources]]."
    return message, ""


def _depth(value: Any) -> int:
    """How deep tables and arrays are nested. Not recursive, for that is what it guards."""
    deepest, waiting = 0, [(value, 1)]
    while waiting and deepest <= DEPTH_MAX:
        one, depth = waiting.pop()
        deepest = max(deepest, depth)
        if isinstance(one, dict):
            waiting += [(inner, depth + 1) for inner in one.values()]
        elif isinstance(one, list):
            waiting += [(inner, depth + 1) for inner in one]
    return deepest


def _expanded(value: Any, path: KeyPath, environ: Mapping[str, str], unset: dict[KeyPath, str]) -> Any:
    """`value` with its `${VAR}` replaced; adds to `unset` where there is nothing to put."""
    if isinstance(value, dict):
        return {key: _expanded(one, (*path, key), environ, unset) for key, one in value.items()}
    if isinstance(value, list):
        return [_expanded(one, (*path, i), environ, unset) for i, one in enumerate(value)]
    if not isinstance(value, str):
        return value

    def put(found: re.Match[str]) -> str:
        if found["escaped"]:
            return "${"
        name, default = found["name"], found["default"]
        if environ.get(name):
            return environ[name]
        if default is not None:
            return default
        unset[path] = name
        return ""

    return _VARIABLE.sub(put, value)


def included_files(file: str, problems: list[Problem]) -> list[str]:
    """The files of the folder conf.d beside `file`, by name."""
    folder = os.path.join(os.path.dirname(file), FOLDER)
    try:
        if not os.path.isdir(folder):
            return []
        os.listdir(folder)
    except (OSError, ValueError) as error:
        if isinstance(error, OSError):
            problems.append(_unreadable(folder, error))
        return []
    names = sorted(glob.glob(os.path.join(glob.escape(folder), "*.toml")))
    if len(names) > INCLUDED_MAX:
        problems.append(Problem(folder, None, "", f"there are {len(names)} files, more than {INCLUDED_MAX}"))
    return [name for name in names[:INCLUDED_MAX] if _is_regular(name)]


def _is_regular(name: str) -> bool:
    """False for pipes and devices, on which reading would wait; True for dangling links, which are to be told."""
    try:
        return stat.S_ISREG(os.stat(name).st_mode)
    except OSError:
        return True
