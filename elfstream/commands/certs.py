"""`elfstream certs`: a small authority and certificates of nodes."""

from __future__ import annotations

from pathlib import Path

import click

EPILOG = """\b
Examples:
  elfstream certs certs web1=web1.example.com,10.0.0.1 web2=10.0.0.2 worker1.example.com
  elfstream certs certs web3=10.0.0.3                one more node
  elfstream certs --renew certs web1=10.0.0.1        a new one before the old one ends

\b
A node needs ca.pem, its own .pem and its own .key; ca.key stays where it is made, and away from nodes.
"""


@click.command("certs", epilog=EPILOG, short_help="Make certificates for the nodes of a fleet.")
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
@click.argument("nodes", nargs=-1, metavar="NAME[=HOST,...]...")
@click.option(
    "--days", type=click.IntRange(1, 36_500), default=825, show_default=True, help="How long a node's counts."
)
@click.option(
    "--authority-days",
    type=click.IntRange(1, 36_500),
    default=3650,
    show_default=True,
    help="The same of the authority.",
)
@click.option("--renew", is_flag=True, help="Replace certificates that are there; the authority stays.")
def command(directory: Path, nodes: tuple[str, ...], days: int, authority_days: int, renew: bool) -> None:
    """Make certificates for the nodes of a fleet, in DIRECTORY.

    The authority is made when there is none. HOSTs are those at which other nodes reach this one (names or addresses, as in
    its `advertise`); without them NAME is the host.
    """
    from elfstream.certs import AUTHORITY, CertsError, make_authority, make_node
    from srt.errors import StoreError

    try:
        if not (directory / f"{AUTHORITY}.pem").exists():
            certificate, key = make_authority(directory, authority_days)
            click.echo(f"{certificate}: the authority, for all nodes; {key} is its key, for nobody")
        for node in nodes:
            name, _, hosts = node.partition("=")
            named = [host.strip() for host in hosts.split(",") if host.strip()] or [name]
            certificate, key = make_node(directory, name, named, days, renew)
            click.echo(f"{certificate}, {key}: node {name}, reached at {', '.join(named)}")
    except (CertsError, StoreError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(
        'in node.toml: [security] cert = "NAME.pem", key = "NAME.key", ca = "ca.pem", each with its path'
    )
