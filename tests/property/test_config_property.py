"""Places in TOML against `tomllib`, and configurations of any kind: nothing but ConfigError comes out of `load`."""

from __future__ import annotations

import string
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from elfstream.config import ConfigError, NodeConfig, Problem, examine, load
from elfstream.config.toml_lines import KeyPath, key_lines

GOLDEN = Path(__file__).parents[1] / "golden" / "config_errors.txt"
SEEDS = [entry.split("\n", 1)[1].split("\n---\n")[0] for entry in GOLDEN.read_text("utf-8").split("=== ")[1:]]
PIECES = [
    "[node]\n", "[limits]\n", "[security]\n", "[[sources]]\n", "[sources.fields]\n", "[[", "]]", "[", "]", "{", "}",
    "=", ",", '"', "'", '"""', "'''", "\\", "\n", "\r\n", "#", ".", "$", "${HOME}", "${X:-}", "$${", "name", "listen = ",
    "paths = ", "format = ", "fields = ", "join = ", "token_file = ", "server_config = ", "timezone = ", "memory_max = ",
    "cpu_max_cores = ", "drain_max = ", '"0.0.0.0:0"', '"[::]"', '"/dev/null"', '"."', "1e999", "-inf", "nan", "2024-05-01",
    "07:30:00", "0x1F",
    "9" * 400, "true", "\u2028", "é", "\x00", "\x7f", '"$status"', '"%h"', '"\\ud7ff"', '"\\u0000"',
]  # fmt: skip


class Writer:
    """Writes a table as TOML in one of many ways, and knows on which line each key came to stand."""

    def __init__(self, draw: Any) -> None:
        self.draw, self.text = draw, ""
        self.lines: dict[KeyPath, int] = {}

    def note(self, path: KeyPath) -> None:
        self.lines.setdefault(path, self.text.count("\n") + 1)

    def pick(self, *choices: str) -> str:
        return self.draw(st.sampled_from(choices))  # type: ignore[no-any-return]

    def key(self, key: str) -> str:
        if key and set(key) <= set(string.ascii_letters + string.digits + "-_") and self.draw(st.booleans()):
            return key
        escaped = "".join(c if c.isprintable() and c not in '"\\' else f"\\U{ord(c):08X}" for c in key)
        return f'"{escaped}"'

    def space(self) -> str:
        return self.pick("", " ", "\t")

    def value(self, value: Any, path: KeyPath) -> None:
        if isinstance(value, list):
            self.text += "["
            for index, one in enumerate(value):
                self.text += self.pick("", "\n", " # a ] comment [ '''\n", "\n\n\t")
                self.note((*path, index))
                self.value(one, (*path, index))
                self.text += self.pick("", "\n") + ("," if index + 1 < len(value) else self.pick("", ","))
            self.text += self.pick("", "\n") + "]"
        elif isinstance(value, dict):
            self.text += "{" + self.space()
            for index, (key, one) in enumerate(value.items()):
                self.text += ", " if index else ""
                self.note((*path, key))
                self.text += f"{self.key(key)}{self.space()}={self.space()}"
                self.value(one, (*path, key))
            self.text += self.space() + "}"
        else:
            self.text += value

    def pairs(self, table: dict[str, Any], path: KeyPath) -> None:
        """The keys of a table but for those that get a header of their own."""
        for key, value in table.items():
            self.text += self.pick("", "", "\n", "# a [comment] = '\n", "  ")
            if isinstance(value, dict) and value and self.draw(st.booleans()):
                for inner, one in value.items():  # dotted
                    self.note((*path, key))
                    self.note((*path, key, inner))
                    self.text += f"{self.key(key)}{self.space()}.{self.space()}{self.key(inner)} = "
                    self.value(one, (*path, key, inner))
                    self.text += self.pick("\n", " # = [\n", "\r\n")
            else:
                self.note((*path, key))
                self.text += f"{self.key(key)}{self.space()}={self.space()}"
                self.value(value, (*path, key))
                self.text += self.pick("\n", " # = [\n", "\r\n")


SCALARS = st.sampled_from([
    "1", "-1.5e3", "true", "inf", "2024-05-01 07:32:00", "2024-05-01T07:32:00Z", "07:32:00", "0x1F", '""', "''",
    '"a # \\" ] = \\\\"', "'a # \\ ] = {'", '"""x"""', '"""\nx\n[y]\n# z = "" \\"" x"""', "'''\nx ''\n[[y]]'''",
    '"""a"""""', "'''a'''''", '"""\\\n   b"""',
])  # fmt: skip
KEYS = st.one_of(
    st.sampled_from(["a", "b", "name", "7", "a.b", "", "a b", "é", '"', "'", "#", "=", "[x]", "\\", "\n"]),
    st.text(max_size=3).filter(lambda text: not any(0xD800 <= ord(c) < 0xE000 for c in text)),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=8,
)


@st.composite
def documents(draw: Any) -> tuple[str, dict[KeyPath, int]]:
    writer = Writer(draw)
    writer.pairs(draw(st.dictionaries(KEYS, VALUES, max_size=3)), ())
    for key in draw(st.lists(st.sampled_from(["T1", "T 2", "T.3"]), unique=True)):
        table = draw(st.dictionaries(KEYS, VALUES, max_size=3))
        if draw(st.booleans()):
            writer.note((key,))
            writer.text += f"[{writer.space()}{writer.key(key)}{writer.space()}]{writer.pick('', ' # [x]')}\n"
            writer.pairs(table, (key,))
            continue
        for index in range(draw(st.integers(1, 3))):
            path = (key, index)
            writer.note((key,))
            writer.note(path)
            writer.text += f"[[{writer.key(key)}]]\n"
            writer.pairs(table, path)
            if "sub" not in table:
                writer.note((*path, "sub"))
                writer.text += f"[{writer.key(key)}.sub]\n"
                writer.pairs(draw(st.dictionaries(KEYS, SCALARS, max_size=2)), (*path, "sub"))
    return writer.text, writer.lines


def _paths(value: Any, path: KeyPath = ()) -> set[KeyPath]:
    inner = list(value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ())
    return {(*path, key) for key, _ in inner} | {one for key, of in inner for one in _paths(of, (*path, key))}


@given(documents())
@settings(max_examples=300, deadline=None)
def test_keys_are_found_where_they_stand(document: tuple[str, dict[KeyPath, int]]) -> None:
    text, lines = document
    found = key_lines(text)
    assert set(found) == _paths(tomllib.loads(text))
    assert found == lines


def _load(data: bytes, environ: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "node.toml"
        file.write_bytes(data)
        config: NodeConfig | None = None
        problems: tuple[Problem, ...] = ()
        try:
            config = load(file, environ)
        except ConfigError as error:
            problems = error.problems
        examined = examine(file, environ)
        assert examined.problems == problems
        assert (config is None) == bool(problems)
        assert len((config or examined.config).digest) == 16


ENVIRONMENTS = st.dictionaries(
    st.sampled_from(["HOME", "X", "ELFSTREAM_NODE_LISTEN", "ELFSTREAM_NODE_JOIN", "ELFSTREAM_LIMITS_CPU_MAX_CORES",
                     "ELFSTREAM_NODE_DATA_DIR", "ELFSTREAM_SECURITY_KEY", "ELFSTREAM_NODE_", "ELFSTREAM_SOURCES_"]),
    st.text(max_size=8).map(lambda text: text.replace("\0", "") + "\udc80" * (len(text) == 7)),
    max_size=3,
)  # fmt: skip


@given(st.lists(st.one_of(st.sampled_from(PIECES), st.sampled_from(SEEDS)), max_size=12), ENVIRONMENTS)
@settings(max_examples=400, deadline=None)
def test_pieces_of_configurations_are_read_or_refused(pieces: list[str], environ: dict[str, str]) -> None:
    _load("".join(pieces).encode("utf-8", "surrogatepass"), environ)


@given(st.sampled_from(SEEDS), st.data(), ENVIRONMENTS)
@settings(max_examples=400, deadline=None)
def test_damaged_configurations_are_read_or_refused(seed: str, data: Any, environ: dict[str, str]) -> None:
    for _ in range(data.draw(st.integers(1, 4))):
        at, size = data.draw(st.integers(0, len(seed))), data.draw(st.integers(0, 3))
        seed = seed[:at] + data.draw(st.sampled_from(PIECES)) + seed[at + size :]
    _load(seed.encode("utf-8", "surrogatepass"), environ)


@given(st.binary(max_size=64))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    _load(data, {})
