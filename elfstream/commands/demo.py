"""`elfstream demo`: see it work, checked."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import click

LINES = 300_000


@click.command("demo", short_help="See it work on a made-up shop, live and checked.")
@click.option("--seed", type=int, default=7, show_default=True, metavar="N", help="One seed gives one play.")
@click.option("--rate", type=click.FloatRange(1, 500_000), default=20_000, show_default=True, metavar="N",
              help="Lines per second of the three servers together, on average.")
@click.option("--seconds", type=click.FloatRange(1, 3600), default=20, show_default=True, metavar="N",
              help="How long a play lasts.")
@click.option("--keep", is_flag=True, help="Begin the play again and again, until Ctrl-C.")
@click.option("--dir", "folder", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
              help="Write the logs to DIR (new or empty) and leave them there.")
@click.option("--questions", is_flag=True, help="Instead: five questions about the logs of an evening.")
@click.option("--lines", type=click.IntRange(1_000, 20_000_000), metavar="N",
              help=f"With --questions: lines of the evening; default: {LINES}.")
def command(
    seed: int, rate: float, seconds: float, keep: bool, folder: Path | None, questions: bool, lines: int | None
) -> None:  # fmt: skip
    """Watch three webservers of a small shop, live.

    A generator writes their logs, which are rotated and compressed under way; three agents follow them and a master merges
    what they count. On a terminal a table shows hot products, error rates and response times of the last ten seconds; in a
    pipe each window is a line. At the end every total and every window is compared with what the generator meant, and the
    command fails when one differs. Ctrl-C ends the play early.

    Without --dir the logs go to a temporary folder and are removed at the end.
    """
    if lines is not None and not questions:
        raise click.UsageError("--lines is for --questions; the live play has --rate and --seconds")
    if keep and questions:
        raise click.UsageError("--keep is for the live play; --dir keeps the logs")
    if folder is not None and folder.exists() and any(folder.iterdir()):
        raise click.UsageError(f"--dir {folder}: the folder is not empty; name a new one")

    def play(place: Path) -> bool:
        if questions:
            from elfstream.demo.questions import run as ask

            return ask(place, lines or LINES, seed)
        from elfstream.demo.live import run
        from elfstream.stopping import stop_on_signals

        return run(place, seed, rate, seconds, keep, stop_on_signals())

    if folder is not None:
        is_right = play(folder)
        from elfstream.demo.questions import farewell

        click.echo("\n" + farewell(folder))
    else:
        with TemporaryDirectory(prefix="elfstream-demo-") as temporary:
            is_right = play(Path(temporary))
    if not is_right:
        sys.exit(1)
