"""A log format by its name in the server's own configuration: nginx's log_format, Apache's LogFormat.

Include directives are followed with their globs. The limits bound what a wrong path (a device, a huge tree) can cost.
"""

from __future__ import annotations

import glob
import os
from pathlib import Path
from typing import NamedTuple

from job.errors import FormatError
from job.formats import apache, apache_conf, nginx, nginx_conf

DEPTH_MAX = 16
FILES_MAX = 1000
FILE_BYTES_MAX = 4 << 20
_UNREAD_SHOWN_MAX = 3
_NGINX_COMBINED = (
    '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"'
)


class Found(NamedTuple):
    """A log format of a configuration. `template` has its quotes resolved for nginx, is as written for Apache."""

    server: str
    name: str
    escape: str
    template: str
    where: str


def find(path: Path, name: str) -> Found:
    """The log format called `name` in the configuration file `path` or a file it includes; the last definition wins.

    Raises FormatError when there is none, naming those there are.
    """
    reader = _read(path)
    formats = reader.formats
    if name in formats:
        return formats[name]
    folded = [known for known in formats if known.lower() == name.lower()]
    if len(folded) == 1:
        return formats[folded[0]]
    included = f" or the {reader.files - 1} files it includes" if reader.files > 1 else ""
    there = f"there are {', '.join(formats)}" if formats else "there is none at all"
    raise FormatError(f"no log format is called {name!r} in {path}{included}; {there}{_unread(reader.unread)}")


def read(path: Path) -> dict[str, Found]:
    """All log formats of a configuration by name. Raises FormatError."""
    return _read(path).formats


def _read(path: Path) -> _Reader:
    text = _text(path)
    reader = _ApacheReader(path) if _is_apache(text) else _NginxReader(path)
    reader.read(path, text, 0)
    return reader


def _unread(unread: list[str]) -> str:
    if not unread:
        return ""
    more = f" and {len(unread) - _UNREAD_SHOWN_MAX} more" if len(unread) > _UNREAD_SHOWN_MAX else ""
    return f". These includes could not be read: {'; '.join(unread[:_UNREAD_SHOWN_MAX])}{more}"


def _is_apache(text: str) -> bool:
    names = {directive.name.lower() for directive in apache_conf.directives(text)}
    return bool(names & _APACHE_ONLY) or (";" not in text and "log_format" not in names)


_APACHE_ONLY = frozenset(
    ["logformat", "customlog", "serverroot", "loadmodule", "includeoptional", "<virtualhost", "<ifmodule", "documentroot"]
)


def _text(path: Path) -> str:
    try:
        if not path.is_file():
            raise FormatError(f"{path}: no such file; --server-config takes the server's main configuration file")
        if path.stat().st_size > FILE_BYTES_MAX:
            raise FormatError(f"{path} is larger than {FILE_BYTES_MAX >> 20} MiB, too large for a configuration file")
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise FormatError(f"{path}: {error.strerror or error}") from error


class _Reader:
    def __init__(self, path: Path) -> None:
        self.formats: dict[str, Found] = {}
        self.files = 0
        self.unread: list[str] = []
        self.root = path.resolve().parent
        self._open: set[Path] = set()

    def read(self, path: Path, text: str, depth: int) -> None:
        self.files += 1
        if self.files > FILES_MAX:
            raise FormatError(f"{path}: the configuration includes more than {FILES_MAX} files")
        if depth > DEPTH_MAX:
            raise FormatError(f"{path}: includes are nested more than {DEPTH_MAX} deep")
        place = path.resolve()
        if place in self._open:
            raise FormatError(f"{path} includes itself")
        self._open.add(place)
        try:
            self.directives(path, text, depth)
        finally:
            self._open.discard(place)

    def directives(self, path: Path, text: str, depth: int) -> None:
        raise NotImplementedError

    def include(self, pattern: str, depth: int) -> None:
        """Reads what an include names. What cannot be read is only noted: a copied configuration often lacks files that
        define no log format."""
        full = os.path.join(self.root, pattern)
        if os.path.isdir(full):
            full = os.path.join(full, "*")
        matches = sorted(path for path in map(Path, glob.iglob(full)) if path.is_file())
        if not matches and not glob.has_magic(pattern):
            self.unread.append(f"{full}: no such file")
        for path in matches:
            try:
                text = _text(path)
            except FormatError as error:
                self.unread.append(str(error))
                continue
            self.read(path, text, depth + 1)


class _NginxReader(_Reader):
    def directives(self, path: Path, text: str, depth: int) -> None:
        try:
            found = list(nginx_conf.directives(text))
        except FormatError as error:
            raise FormatError(f"{path}: {error}") from error
        for words, line in found:
            if words[0] == "log_format" and len(words) >= 3:
                escape, template = nginx.from_words(words[2:])
                self.formats[words[1]] = Found("nginx", words[1], escape, template, f"{path}:{line}")
            elif words[0] == "include" and len(words) == 2:
                self.include(words[1], depth)

    def read(self, path: Path, text: str, depth: int) -> None:
        if depth == 0:
            self.formats["combined"] = Found("nginx", "combined", "default", _NGINX_COMBINED, "nginx itself")
        super().read(path, text, depth)


class _ApacheReader(_Reader):
    def directives(self, path: Path, text: str, depth: int) -> None:
        for name, rest, line in apache_conf.directives(text):
            keyword = name.lower()
            if keyword == "logformat":
                words = apache.split_words(rest)
                if len(words) == 2:
                    self.formats[words[1]] = Found("Apache", words[1], "", words[0], f"{path}:{line}")
            elif keyword == "serverroot":
                root = Path(apache.split_words(rest)[0]) if rest else self.root
                self.root = root if root.is_dir() else self.root
            elif keyword in ("include", "includeoptional") and rest:
                self.include(apache.split_words(rest)[0], depth)
