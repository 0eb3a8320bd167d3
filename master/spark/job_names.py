"""Tables called `jobs.NAME` in a query, found without parsing it: all else of the text is Spark's. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable

_TOKEN = re.compile(
    r"""(?P<passed>'(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*" | --[^\n]* | /\*.*?\*/)
      | (?P<table>(?<![\w.`$])(?:jobs|`jobs`)\s*\.\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<plain>[A-Za-z0-9_]+)))
      | `(?:[^`]|``)*` | [\w$]+ | .""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_TABLE = re.compile(r"\b(?:from|join|,)\s+`?jobs`?\s*\.\s*(?:`((?:[^`]|``)+)`|([\w-]+))", re.IGNORECASE)


def view_of(name: str) -> str:
    """What the table of a job is called in Spark, quoted."""
    return f"`jobs.{name.replace('`', '``')}`"


def with_views(text: str, is_job: Callable[[str], bool]) -> tuple[str, list[str]]:
    """The text with views in place of `jobs.NAME` where there is such a job, and the names, each once. Strings, comments and
    quoted names stay. O(text)."""
    names: list[str] = []
    parts: list[str] = []
    for token in _TOKEN.finditer(text):
        name = token["plain"] or (token["quoted"] or "").replace("``", "`")
        if token["table"] and is_job(name):
            if name not in names:
                names.append(name)
            parts.append(view_of(name))
        else:
            parts.append(token[0])
    return "".join(parts), names


def unknown_tables(text: str, is_job: Callable[[str], bool]) -> list[str]:
    """Names behind `jobs.` that stand where tables do, and are no jobs. O(text)."""
    bare = _TOKEN.sub(lambda token: " " if token["passed"] else token[0], text)
    found = (plain or quoted.replace("``", "`") for quoted, plain in _TABLE.findall(bare))
    return [name for name in found if not is_job(name)]
