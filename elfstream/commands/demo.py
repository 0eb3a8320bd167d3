"""`elfstream demo`: see it work, checked."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import click


@click.command("demo", short_help="See it work on a made-up shop, checked.")
@click.option(
    "--lines",
    type=click.IntRange(1_000, 20_000_000),
    default=300_000,
    show_default=True,
    metavar="N",
    help="Lines to generate.",
)
@click.option("--seed", type=int, default=7, show_default=True, metavar="N", help="One seed gives one log.")
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write the logs to DIR (new or empty) and keep them.",
)
def command(lines: int, seed: int, keep: Path | None) -> None:
    """Generate the logs of a small shop, ask five questions, check the answers.

    The generator counts what it writes; the demo compares every row with that and fails when one differs. Without --keep
    the logs go to a temporary folder and are removed at the end.
    """
    if keep is not None:
        if keep.exists() and any(keep.iterdir()):
            raise click.UsageError(f"--keep {keep}: the folder is not empty; name a new one")
        _run(keep, lines, seed)
        from elfstream.demo import farewell

        click.echo("\n" + farewell(keep))
        return
    with TemporaryDirectory(prefix="elfstream-demo-") as folder:
        _run(Path(folder), lines, seed)
    click.echo("(--keep DIR keeps the logs for questions of your own)")


def _run(folder: Path, lines: int, seed: int) -> None:
    from elfstream.demo import run

    if not run(folder, lines, seed):
        sys.exit(1)
