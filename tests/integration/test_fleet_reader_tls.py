"""What Spark asks a fleet with, against a real node with certificates of `elfstream certs` and a token."""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner

import elfstream as elf
from elfstream.commands.certs import command as certs
from master.spark.errors import FleetReadError
from master.spark.fleet_reader import FleetAddress, FleetReader
from tests.integration.bad_peers import token_file
from tests.integration.fleet_processes import NodeProcess, free_port

pytest.importorskip("cryptography")
TOKEN = "open-sesame-open-sesame"
ENDLESS_S = 3600.0
"""The patience of those who are to be told at once."""


class Guarded(NamedTuple):
    """A node that wants a certificate of its authority, or a token; and what there is to show it."""

    port: int
    ours: Path
    """Files of its authority."""
    others: Path
    """Of another one, with the same names."""

    def read(self, patience_s: float = ENDLESS_S, *, host: str = "https://127.0.0.1", **shown: str) -> list[str]:
        """Names of jobs."""
        return FleetReader(FleetAddress((f"{host}:{self.port}",), **shown), patience_s).names()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("guarded")
    for made in ("ours", "others"):
        done = CliRunner().invoke(certs, [str(folder / made), "web1=127.0.0.1", "spark=127.0.0.1"])
        assert done.exit_code == 0, done.output
    found = Guarded(free_port(random.Random()), folder / "ours", folder / "others")
    node = NodeProcess(folder, "web1", found.port, [], {})
    files = {"cert": "web1.pem", "key": "web1.key", "ca": "ca.pem"}
    lines = [f'{name} = "{found.ours / file}"' for name, file in files.items()]
    with open(node.folder / "node.toml", "a") as config:
        config.write("\n".join(["[security]", f'token_file = "{token_file(folder, TOKEN)}"', *lines, ""]))
    node.start()
    try:
        assert found.read(30.0, token=TOKEN, cacert=str(found.ours / "ca.pem")) == []  # when it listens
        yield found
        node.check()
    finally:
        node.kill()


def test_who_has_a_certificate_or_the_token_is_let_in(guarded: Guarded) -> None:
    ca, cert, key = (str(guarded.ours / name) for name in ("ca.pem", "spark.pem", "spark.key"))
    assert guarded.read(cacert=ca, cert=cert, key=key) == []
    assert guarded.read(cacert=ca, token=TOKEN) == []
    assert guarded.read(host="127.0.0.1", cacert=ca, token=TOKEN) == []  # with certificates it is https


@pytest.mark.parametrize("shown", [{}, {"token": "another"}])
def test_others_are_refused(guarded: Guarded, shown: dict[str, str]) -> None:
    url = f"https://127.0.0.1:{guarded.port}"
    with pytest.raises(FleetReadError, match=f"^{url}: .*token"):
        guarded.read(cacert=str(guarded.ours / "ca.pem"), **shown)


@pytest.mark.parametrize(
    ("authority", "host", "said"),
    [
        ("", "https://127.0.0.1", "its certificate is not trusted: .*the option cacert names the fleet's authority"),
        ("others", "https://127.0.0.1", "its certificate is not trusted: "),
        ("ours", "https://localhost", "its certificate is not trusted: .*not valid for 'localhost'"),
    ],
)
def test_a_node_that_is_not_trusted_is_told_at_once(guarded: Guarded, authority: str, host: str, said: str) -> None:
    shown = {"cacert": str(guarded.ours.with_name(authority) / "ca.pem")} if authority else {}
    with pytest.raises(FleetReadError, match=f"no node answers at {host}:{guarded.port}: {said}"):
        guarded.read(host=host, **shown)


def test_where_a_node_hangs_up_it_is_said_what_it_may_want(guarded: Guarded) -> None:
    """Nobody tells a restart from a refusal there, so it is tried again first."""
    files = {"cert": str(guarded.others / "spark.pem"), "key": str(guarded.others / "spark.key")}
    with pytest.raises(FleetReadError, match="Is the certificate of the option cert of the fleet's authority"):
        guarded.read(0.3, cacert=str(guarded.ours / "ca.pem"), **files)
    with pytest.raises(FleetReadError, match=r"no node answers at http:.* Does it want https"):
        guarded.read(0.3, host="http://127.0.0.1", token=TOKEN)


def test_the_client_tells_a_certificate_that_is_not_trusted_at_once(guarded: Guarded) -> None:
    async def main(tls: ssl.SSLContext | None, said: str) -> None:
        async with elf.connect_async(f"https://127.0.0.1:{guarded.port}", tls=tls, patience_s=ENDLESS_S) as fleet:
            with pytest.raises(elf.UnreachableError, match=said):
                await fleet.jobs()
            with pytest.raises(elf.UnreachableError, match=said):
                await anext(fleet.job("hot").watch(after=0))

    asyncio.run(main(None, "CERTIFICATE_VERIFY_FAILED"))
    asyncio.run(main(ssl.create_default_context(cafile=str(guarded.others / "ca.pem")), "CERTIFICATE_VERIFY_FAILED"))
