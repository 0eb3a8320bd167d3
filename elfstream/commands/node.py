"""`elfstream node`: the daemon."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from elfstream.config.reading import FILE


@click.command("node", short_help="Run a node: an agent beside logs, or a worker.")
@click.option("--config", "-c", "file", default=FILE, show_default=True, metavar="FILE", help="Its configuration.")
def command(file: str) -> None:
    """Run a node of a fleet until it is told to stop.

    With [[sources]] in its configuration it is an agent that follows the logs of this machine; without, a worker that merges
    what agents send. Any node is asked over HTTP, takes part in commit groups and may become the master of jobs.

    \b
    SIGTERM, SIGINT  leave the fleet and end; the second one ends at once
    SIGHUP           read the configuration again: sources, log level

    \b
    Exit codes: 0 stopped as asked, 1 the machine does not allow it, 70 a fault of elfstream, 78 the configuration is wrong.
    """
    from elfstream.config import load
    from elfstream.config.model import ConfigError
    from elfstream.daemon import CONFIG, Daemon

    try:
        config = load(file)
    except ConfigError as problem:
        more = f"\n'elfstream check -c {file}' tells more." if Path(file).exists() else ""
        click.echo(f"{problem}{more}", err=True)
        sys.exit(CONFIG)
    sys.exit(Daemon(file, config).run())
