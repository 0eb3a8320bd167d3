"""`elfstream version`: what to name in a bug report."""

from __future__ import annotations

import platform

import click

from elfstream import __version__
from elfstream.commands.options import EXIT_CODES


def version_text() -> str:
    """Name and version."""
    return f"elfstream {__version__}"


EPILOG = """\b
Example:
  elfstream version
"""


@click.command("version", epilog=EPILOG + EXIT_CODES)
def command() -> None:
    """Show the version, and what it runs on."""
    system = f"{platform.system()} {platform.machine()}"
    click.echo(f"{version_text()} ({platform.python_implementation()} {platform.python_version()}, {system})")
