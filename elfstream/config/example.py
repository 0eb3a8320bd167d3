"""The commented file that a new node begins with, made from the table of keys."""

from __future__ import annotations

import textwrap

from elfstream.config.keys import ABOUT, SECTIONS, Key

_ON = {"paths": '["/var/log/nginx/access.log*"]'}
"""The keys that are not commented out: the file is an agent beside nginx as it stands."""
_HEAD = """\
The configuration of an elfstream node. `elfstream check -c FILE` says whether it is good.

Keys with a # in front show their default, or an example. Any value may hold ${VARIABLE} or ${VARIABLE:-default} of the \
environment (capitals only; nginx's ${status} is left alone). ELFSTREAM_NODE_LISTEN=... and the like stand above \
[node], [limits] and [security]. Files conf.d/*.toml beside this one may hold more [[sources]]. Relative paths start \
at the folder of the file."""


def example() -> str:
    """A file that is good on a machine with nginx."""
    parts = [_comment(_HEAD)]
    for section, keys in SECTIONS.items():
        heading = "[[sources]]" if section == "sources" else f"[{section}]"
        body = "\n".join(_lines(key) for key in keys)
        parts.append(f"{_comment(ABOUT[section])}\n{heading}\n{body}")
    return "\n\n".join(parts) + "\n"


def _lines(key: Key) -> str:
    value = _ON.get(key.name)
    shown = f"{key.name} = {value}" if value else f"#{key.name} = {key.example or key.default}"
    return f"{_comment(key.about[:1].upper() + key.about[1:] + '.')}\n{shown}"


def _comment(text: str) -> str:
    paragraphs = [textwrap.fill(part, 96, break_long_words=False, break_on_hyphens=False) for part in text.split("\n\n")]
    return "\n".join(f"# {line}".rstrip() for line in "\n\n".join(paragraphs).splitlines())
