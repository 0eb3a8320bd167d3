"""`elfstream check`: whether a node would start with a configuration, and do what is meant."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from elfstream.terminal import BOLD, RED, YELLOW, has_colour, paint, visible

if TYPE_CHECKING:
    from elfstream.check import Report
    from elfstream.config import Problem

EPILOG = """\b
Examples:
  elfstream check --example > node.toml
  elfstream check -c node.toml
  sudo -u elfstream elfstream check             as the service, with its rights
  elfstream check -c node.toml --json | jq '.problems[] | select(.severity == "error")'

\b
Exit codes: 0 good (there may be warnings), 78 a problem (EX_CONFIG), 2 wrong usage.
docs/OPERATE.md has the keys, and what belongs around them.
"""


@click.command("check", epilog=EPILOG, short_help="Say whether a node's configuration is good.")
@click.option(
    "--config",
    "-c",
    "file",
    default="/etc/elfstream/node.toml",
    show_default=True,
    metavar="FILE",
    help="The node's TOML file; conf.d/*.toml beside it belongs to it.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object with all problems and the values in force.")
@click.option("--example", is_flag=True, help="Print a file with all keys, good on a machine with nginx, and exit.")
def command(file: str, as_json: bool, example: bool) -> None:
    """Say whether a node's configuration is good, before a node has to find out.

    Everything is looked at in one go: the keys, whether the logs are there, may be read and are of the format that is said,
    the data folder, the port, certificates, memory and the clock. Nothing is changed. Run it as the user of the service:
    root may read more.
    """
    if example:
        from elfstream.config.example import example as example_file

        click.echo(example_file(), nl=False)
        return
    from elfstream.check import check
    from elfstream.config import EX_CONFIG

    report = check(file)
    if as_json:
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode(_document(report)), indent=2).decode())
    else:
        _tell(report)
    if not report.ok:
        sys.exit(EX_CONFIG)


def _document(report: Report) -> dict[str, Any]:
    from elfstream.config.keys import effective

    return {
        "ok": report.ok,
        "file": report.config.file,
        "running": report.running,
        "problems": [problem._asdict() for problem in report.problems],
        "sources": [facts._asdict() for facts in report.sources],
        "config": effective(report.config),
    }


def _tell(report: Report) -> None:
    """Problems to standard error, what is good to standard output."""
    colour = has_colour(sys.stderr)
    for problem in report.problems:
        click.echo(_painted(problem, colour), err=True)
        if problem.detail:
            click.echo("\n".join(f"  {line}" for line in problem.detail.splitlines()), err=True)
    errors = sum(problem.severity == "error" for problem in report.problems)
    warnings = len(report.problems) - errors
    if errors:
        also = f" and {_count(warnings, 'warning')}" if warnings else ""
        click.echo(f"{report.config.file}: {_count(errors, 'error')}{also}", err=True)
        return
    also = f", with {_count(warnings, 'warning')}" if warnings else ""
    click.echo(f"{report.config.file} is good{also}")
    for line in _summary(report):
        click.echo(f"  {line}")


def _painted(problem: Problem, colour: bool) -> str:
    text = visible(str(problem))
    place, _, rest = text.partition(": ")
    if problem.severity == "warning":
        return f"{paint(place, BOLD, colour)}: {rest.replace('warning:', paint('warning:', YELLOW, colour), 1)}"
    return f"{paint(place, BOLD, colour)}: {paint('error:', RED, colour)} {rest}"


def _summary(report: Report) -> list[str]:
    config = report.config
    role = "agent" if config.is_agent else "worker (no sources)"
    running = ", where a node runs already" if report.running else ""
    joins = f", joins {', '.join(map(str, config.join))}" if config.join else ", joins nobody"
    lines = [f"{role} {config.name} of the fleet {config.fleet}", f"listens on {config.listen}{running}{joins}"]
    for facts in report.sources:
        fit = f", {facts.good} of {facts.lines} first lines fit" if facts.lines else ""
        lines.append(f"source {facts.name}: {_count(facts.files, 'file')}{fit}, format {visible(facts.format[:60])}")
    return lines


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
