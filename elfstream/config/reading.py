"""From files and environment to a NodeConfig, with all problems in one report."""

from __future__ import annotations

import difflib
import os
import re
import socket
from collections.abc import Mapping
from dataclasses import fields as fields_of
from typing import Any, NamedTuple

from elfstream.config.document import PREFIX, Document, included_files, label, read_document
from elfstream.config.keys import SECTIONS, key_of
from elfstream.config.model import (
    ConfigError,
    LimitsConfig,
    NodeConfig,
    Problem,
    SecurityConfig,
    SourceConfig,
)
from elfstream.config.rules import findings
from elfstream.config.toml_lines import KeyPath
from elfstream.config.values import LIST_MAX, Wrong
from elfstream.config.values import name as name_of

FILE = "/etc/elfstream/node.toml"
DATA_DIR = "/var/lib/elfstream"
_TABLES = ("node", "limits", "security")
# What Kubernetes puts into the environment of every container when a service is called elfstream-node.
_SERVICE_LINK = re.compile(r"_(?:SERVICE_(?:HOST|PORT(?:_[A-Z0-9_]+)?)|PORT(?:_[0-9]+_(?:TCP|UDP|SCTP)(?:_[A-Z]+)?)?)$")


class Place(NamedTuple):
    """Where a value stands: a file and its line, or an environment variable as `file` "environment" and its name."""

    file: str
    line: int | None
    key: str

    def __str__(self) -> str:
        if self.file == "environment":
            return self.key
        return self.file if self.line is None else f"{self.file}:{self.line}"


class Examined(NamedTuple):
    """What became of a configuration. `config` is what could be read of it, defaults in the place of what could not."""

    config: NodeConfig
    problems: tuple[Problem, ...]
    places: Mapping[KeyPath, Place]
    numbers: tuple[int, ...]
    """Of the sources in their keys: those that could not be read have one, too."""
    refused: frozenset[KeyPath]
    """Keys whose values could not be used."""
    whole: bool
    """False where the file could not be read at all: then everything else is defaults that nobody has asked for."""

    def place(self, key: KeyPath) -> Place:
        """Where `key` stands, or the table that it would be in."""
        for depth in range(len(key), 0, -1):
            found = self.places.get(key[:depth])
            if found is not None:
                return found if depth == len(key) else found._replace(key=label(key))
        return Place(self.config.file, None, label(key))


def load(file: str | os.PathLike[str] = FILE, environ: Mapping[str, str] | None = None) -> NodeConfig:
    """The configuration in `file`, the folder conf.d beside it and `environ` (default: that of the process).

    Raises ConfigError with all problems. Reads the files that the configuration names as secrets and server_config, no
    logs; `elfstream check` (elfstream.node_check) looks at the rest of the world.
    """
    examined = examine(file, environ)
    if examined.problems:
        raise ConfigError(examined.problems)
    return examined.config


def examine(file: str | os.PathLike[str], environ: Mapping[str, str] | None = None) -> Examined:
    """As `load`, but returns the problems, and what could be read beside them. Never raises."""
    return _Reading(os.fspath(file), os.environ if environ is None else environ).examined()


class _Reading:
    def __init__(self, file: str, environ: Mapping[str, str]) -> None:
        try:
            self.folder = os.getcwd()
        except OSError:  # removed under our feet
            self.folder = "/"
        self.file = os.path.normpath(os.path.join(self.folder, file))
        self.environ = environ
        self.problems: list[Problem] = []
        self.places: dict[KeyPath, Place] = {}
        self.refused: set[KeyPath] = set()

    def examined(self) -> Examined:
        document = read_document(self.file, self.environ, self.problems)
        is_whole = bool(document.tree) or not self.problems
        self._unknown_tables(document)
        tables = {name: self._table(document, name) for name in _TABLES}
        for name in _TABLES:
            tables[name].update(self._environment(name))
        sources = self._sources(document)
        for included in included_files(self.file, self.problems):
            sources += self._included(included, len(sources))
        self._foreign_variables()
        numbers = tuple(number for number, source in enumerate(sources) if source is not None)
        config = self._config(tables, [source for source in sources if source is not None])
        examined = Examined(config, (), self.places, numbers, frozenset(self.refused), is_whole)
        if is_whole:
            self._apply_rules(examined)
        return examined._replace(problems=tuple(sorted(self.problems, key=lambda one: order(one, self.file))))

    # problems

    def _problem(self, document: Document, where: KeyPath, message: str, advice: str = "", at: KeyPath = ()) -> None:
        """A problem of the key `where`; `at` is its path in its own file where that is another one."""
        line = document.line(at or where)
        self.problems.append(Problem(document.file, line, label(where), message, advice))

    def _unknown_tables(self, document: Document) -> None:
        for name, value in document.tree.items():
            if name in SECTIONS:
                continue
            homes = [section for section in SECTIONS if key_of(section, name) is not None]
            if homes and not _is_table(value):
                home = "[[sources]]" if homes == ["sources"] else f"[{homes[0]}]"
                self._problem(document, (name,), "the key stands outside of any table", f"Write it below {home}.")
            else:
                self._problem(document, (name,), "there is no table of this name", _meant(name, SECTIONS, _heading))

    def _unknown_key(self, document: Document, section: str, where: KeyPath, at: KeyPath) -> None:
        name = str(where[-1])
        homes = [other for other in SECTIONS if other != section and key_of(other, name) is not None]
        known = {key.name for key in SECTIONS[section]}
        advice = f"It belongs to {_heading(homes[0])}." if homes else _meant(name, known, str)
        self._problem(document, where, f"there is no such key in {_heading(section)}", advice, at)

    # tables

    def _table(self, document: Document, name: str) -> dict[str, Any]:
        given = document.tree.get(name, {})
        if not isinstance(given, dict):
            advice = f"Write [{name}] on a line of its own and its keys below it."
            self._problem(document, (name,), "this is no table", advice)
            return {}
        return self._values(document, name, given, (name,), (name,))

    def _values(
        self, document: Document, section: str, given: dict[str, Any], path: KeyPath, at: KeyPath
    ) -> dict[str, Any]:
        """What the keys of one table are, by attribute; those that are refused are left out."""
        folder = os.path.dirname(document.file)
        self.places[path] = Place(document.file, document.line(at), label(path))
        found: dict[str, Any] = {}
        for name, value in given.items():
            where, here = (*path, name), (*at, name)
            key = key_of(section, name)
            if key is None:
                self._unknown_key(document, section, where, here)
                continue
            self.places[where] = Place(document.file, document.line(here), label(where))
            if any(path[: len(here)] == here for path in document.unset):
                self.refused.add(where)
                continue
            try:
                found[key.field] = key.read(value, folder)
            except Wrong as wrong:
                self.refused.add(where)
                inner = () if wrong.index is None else (wrong.index,)
                self._problem(document, (*where, *inner), wrong.message, wrong.advice, (*here, *inner))
            else:
                self._note_elements(document, value, where, here)
        return found

    def _note_elements(self, document: Document, value: Any, where: KeyPath, here: KeyPath) -> None:
        if isinstance(value, list):
            for index in range(len(value)):
                inner = (*where, index)
                self.places[inner] = Place(document.file, document.line((*here, index)), label(inner))

    def _environment(self, section: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        start = f"{PREFIX}{section.upper()}_"
        for variable in sorted(self.environ):
            value = self.environ[variable]
            if not variable.startswith(start) or not value or _SERVICE_LINK.search(variable):
                continue
            name = variable.removeprefix(start).lower()
            key = key_of(section, name)
            if key is None:
                known = [f"{start}{each.name.upper()}" for each in SECTIONS[section]]
                self._variable_problem(variable, "nothing is set by this variable", _meant(variable, known, str))
                continue
            self.places[section, name] = Place("environment", None, variable)
            self.refused.discard((section, name))
            self.problems = [one for one in self.problems if not _is_about(one, self.file, f"{section}.{name}")]
            try:
                found[key.field] = key.read(value, self.folder)
            except Wrong as wrong:
                self.refused.add((section, name))
                self._variable_problem(variable, wrong.message, wrong.advice)
        return found

    def _variable_problem(self, variable: str, message: str, advice: str) -> None:
        self.problems.append(Problem("environment", None, variable, message, advice))

    def _foreign_variables(self) -> None:
        for variable in sorted(self.environ):
            if variable.startswith(f"{PREFIX}SOURCES_") and not _SERVICE_LINK.search(variable):
                self._variable_problem(
                    variable, "sources cannot be set by variables", "Write ${VAR} into the values of the file instead."
                )

    # sources

    def _sources(self, document: Document, first: int = 0) -> list[SourceConfig | None]:
        """The sources of a file in their order; None for those that could not be read. `first` is the index of the first."""
        given = document.tree.get("sources", [])
        if isinstance(given, dict):
            self._problem(document, ("sources",), "sources is a list of tables", "Write [[sources]], with two brackets.")
            return []
        if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
            advice = "Write [[sources]] on a line of its own and its keys below."
            self._problem(document, ("sources",), "this is no table", advice)
            return []
        if len(given) > LIST_MAX:
            self._problem(document, ("sources",), f"there are {len(given)} sources, more than {LIST_MAX}")
            return []
        return [self._source(document, one, first + index, index) for index, one in enumerate(given)]

    def _source(self, document: Document, given: dict[str, Any], index: int, at: int) -> SourceConfig | None:
        where: KeyPath = ("sources", index)
        found = self._values(document, "sources", given, where, ("sources", at))
        if "paths" in found:
            return SourceConfig(**found)
        if "paths" not in given:
            advice = 'Name the logs: paths = ["/var/log/nginx/access.log*"].'
            self._problem(document, where, "the source has no paths", advice, ("sources", at))
        return None

    def _included(self, file: str, first: int) -> list[SourceConfig | None]:
        document = read_document(file, self.environ, self.problems)
        for name in document.tree:
            if name != "sources":
                advice = f"Write it into {os.path.basename(self.file)}." if name in SECTIONS else ""
                self._problem(document, (name,), "files of conf.d hold [[sources]] and nothing else", advice)
        return self._sources(document, first)

    # the whole

    def _config(self, tables: dict[str, dict[str, Any]], sources: list[SourceConfig]) -> NodeConfig:
        node = tables["node"]
        node.setdefault("data_dir", DATA_DIR)
        if "name" not in node:
            node["name"] = self._host_name()
        listen = node.setdefault("listen", _default(NodeConfig, "listen"))
        if node.get("advertise") is None:
            node["advertise"] = None if listen.is_wildcard or listen.port == 0 else listen
        limits, security = LimitsConfig(**tables["limits"]), SecurityConfig(**tables["security"])
        return NodeConfig(file=self.file, sources=tuple(sources), limits=limits, security=security, **node)

    def _host_name(self) -> str:
        found = socket.gethostname()
        try:
            return name_of(found)
        except Wrong:
            if ("node", "name") not in self.refused:
                message = f"the host name {found!r} is no name for a node"
                self.problems.append(Problem(self.file, None, "node.name", message, 'Write name = "...".'))
            return "unnamed"

    def _apply_rules(self, examined: Examined) -> None:
        for key, message, advice in findings(examined.config, examined.numbers, lambda at: str(examined.place(at))):
            if key not in self.refused and not self._leans_on_refused(key):
                place = examined.place(key)
                self.problems.append(Problem(place.file, place.line, place.key, message, advice))

    def _leans_on_refused(self, key: KeyPath) -> bool:
        """Whether what was found about `key` may follow from another key that was refused."""
        beside = key[:2] if key[0] == "sources" else key[:1]
        also = ("security",) if key == ("node", "listen") else beside
        return any(where[: len(group)] == group for where in self.refused for group in (beside, also))


def _default(of: type[NodeConfig], name: str) -> Any:
    return next(field.default for field in fields_of(of) if field.name == name)


def _is_table(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and bool(value) and isinstance(value[0], dict))


def order(problem: Problem, main: str) -> tuple[bool, bool, str, int]:
    """The main file first, line by line, then conf.d, then the environment."""
    return problem.file == "environment", problem.file != main, problem.file, problem.line or 0


def _is_about(problem: Problem, file: str, key: str) -> bool:
    return problem.file == file and (problem.key == key or problem.key.startswith(f"{key}["))


def _heading(section: str) -> str:
    return "[[sources]]" if section == "sources" else f"[{section}]"


def _meant(name: str, known: Any, shown: Any) -> str:
    folded = {each.lower().replace("-", "_"): each for each in known}
    near = difflib.get_close_matches(name.lower().replace("-", "_"), folded, n=1, cutoff=0.6)
    if near:
        return f"Did you mean {shown(folded[near[0]])}?"
    return f"There are {', '.join(shown(each) for each in sorted(known))}."
