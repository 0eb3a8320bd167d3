"""Writes the manual pages elfstream.1 and elfstream-node.5, from the commands' own help and the table of keys.

usage: manpages.py FOLDER
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from elfstream import __version__
from elfstream.cli import main
from elfstream.config.example import example
from elfstream.config.keys import ABOUT, SECTIONS, Key

FILES = {
    "/etc/elfstream/node.toml": "The configuration of the node, see elfstream-node(5).",
    "/etc/elfstream/conf.d/*.toml": "More [[sources]] for it.",
    "/etc/default/elfstream": "Environment of the service.",
    "/var/lib/elfstream": "Positions in the logs, results, spilled groups.",
}
ENVIRONMENT = {
    "ELFSTREAM_NODE_*, ELFSTREAM_LIMITS_*, ELFSTREAM_SECURITY_*": "Stand above the keys of a node's configuration.",
    "ELFSTREAM_URL": "The node, or nodes, that commands about a fleet talk to.",
    "ELFSTREAM_TOKEN_FILE": "Holds the token of that fleet.",
    "ELFSTREAM_CACERT, ELFSTREAM_CERT, ELFSTREAM_KEY": "Certificates for it, as the options have them.",
    "NO_COLOR": "Set to anything: no colours.",
}


def escaped(text: str) -> str:
    """A line of text for roff."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    text = text.replace("^", "\\(ha").replace("~", "\\(ti")
    return f"\\&{text}" if text.startswith(".") else text


def bold(text: str) -> str:
    return f"\\fB{escaped(text)}\\fR"


def header(name: str, section: int, title: str) -> list[str]:
    return [
        f'.TH {name.upper()} {section} "" "elfstream {__version__}" "elfstream"',
        ".SH NAME",
        f"{escaped(name)} \\- {escaped(title)}",
    ]


def paragraphs(text: str) -> list[str]:
    """Help of click: paragraphs are filled, those that begin with a backspace stay as they are."""
    lines: list[str] = []
    for part in text.strip("\n").split("\n\n"):
        rows = part.strip("\n").splitlines()
        if rows and rows[0].strip() == "\b":
            lines += [".PP", ".nf", *map(escaped, rows[1:]), ".fi"]
        else:
            lines += [".PP", escaped(" ".join(row.strip() for row in rows))]
    return lines


def described(items: dict[str, str]) -> list[str]:
    return [line for name, text in items.items() for line in (".TP", bold(name), escaped(text))]


def options(command: click.Command, context: click.Context) -> list[str]:
    lines: list[str] = []
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context) if isinstance(parameter, click.Option) else None
        if record is not None:
            lines += [".TP", bold(record[0]), escaped(" ".join(record[1].split()))]
    return lines


def every_command(group: click.Group, context: click.Context) -> Iterator[tuple[click.Command, click.Context]]:
    """The commands of a group, and of groups in it, each with its context."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        inner = click.Context(command, info_name=name, parent=context)
        yield command, inner
        if isinstance(command, click.Group):
            yield from every_command(command, inner)


def command_page() -> str:
    """elfstream(1)."""
    context = click.Context(main, info_name="elfstream")
    lines = header("elfstream", 1, "exact SQL over web access logs")
    lines += [".SH SYNOPSIS", f"{bold('elfstream')} \\fICOMMAND\\fR [\\fIARGUMENTS\\fR]", ".SH DESCRIPTION"]
    lines += [*paragraphs(main.help or ""), ".SH OPTIONS", *options(main, context), ".SH COMMANDS"]
    for command, inner in every_command(main, context):
        usage = " ".join(command.collect_usage_pieces(inner))
        lines += [f".SS {escaped(f'{inner.command_path} {usage}')}", *paragraphs(command.help or "")]
        lines += [*options(command, inner), *paragraphs(command.epilog or "")]
    lines += [".SH FILES", *described(FILES), ".SH ENVIRONMENT", *described(ENVIRONMENT)]
    return "\n".join([*lines, ".SH SEE ALSO", "\\fBelfstream\\-node\\fR(5), \\fBsystemctl\\fR(1)"]) + "\n"


def key_entry(key: Key) -> list[str]:
    default = f" Default: {key.default}." if key.default else ""
    shown = f" Example: {key.example}." if key.example else ""
    change = "" if key.reloads else " A change needs a restart."
    return [".TP", bold(key.name), escaped(f"{key.about[:1].upper()}{key.about[1:]}.{default}{shown}{change}")]


def node_page() -> str:
    """elfstream-node(5)."""
    lines = header("elfstream-node", 5, "configuration of an elfstream node")
    introduction = [line.removeprefix("#").strip() for line in example().split("\n\n#", 1)[0].splitlines()]
    lines += [".SH DESCRIPTION", "The file is TOML.", *paragraphs("\n".join(introduction))]
    for section, keys in SECTIONS.items():
        heading = "[[sources]]" if section == "sources" else f"[{section}]"
        lines += [f'.SH "{heading}"', escaped(ABOUT[section])]
        lines += [line for key in keys for line in key_entry(key)]
    lines += [".SH FILES", *described(FILES)]
    return "\n".join([*lines, ".SH SEE ALSO", "\\fBelfstream\\fR(1)"]) + "\n"


def write(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "elfstream.1").write_text(command_page(), "utf-8")
    (folder / "elfstream-node.5").write_text(node_page(), "utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
