"""`elfstream job`: the group of commands about jobs of a fleet."""

from __future__ import annotations

import click

from elfstream.lazy_group import LazyGroup

COMMANDS = {
    "submit": "elfstream.commands.job_submit",
    "list": "elfstream.commands.job_list",
    "show": "elfstream.commands.job_show",
    "update": "elfstream.commands.job_update",
    "changes": "elfstream.commands.job_changes",
    "validate": "elfstream.commands.job_validate",
    "results": "elfstream.commands.job_results",
    "watch": "elfstream.commands.job_watch",
    "stop": "elfstream.commands.job_stop",
    "remove": "elfstream.commands.job_remove",
    "forget": "elfstream.commands.job_forget",
    "recover": "elfstream.commands.job_recover",
}

EPILOG = """\b
First steps:
  elfstream job submit hot "SELECT window(time, '10 seconds') AS w, path, count(*) AS hits
                            FROM access GROUP BY w, path ORDER BY hits DESC LIMIT 10"
  elfstream job watch hot
  elfstream job results hot --from -10m -o csv
"""


@click.group(
    "job",
    cls=LazyGroup,
    commands_at=COMMANDS,
    epilog=EPILOG,
    short_help="Make, watch, change and end jobs of a fleet.",
)
def command() -> None:
    """Jobs of a fleet: questions that stay, answered over the logs of all its agents.

    Any node is asked: at --url or ELFSTREAM_URL, http://127.0.0.1:7117 by itself. docs/CLI.md has all of it.
    """
