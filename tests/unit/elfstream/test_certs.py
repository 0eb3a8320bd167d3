"""Certificates of a fleet, and links over TLS with them."""

from __future__ import annotations

import ssl
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from elfstream.certs import CertsError, dial_context, make_authority, make_node, server_context
from elfstream.commands.certs import command
from srt.automaton import Ref
from srt.peer_options import PeerAuth
from srt.ring_messages import Ping
from tests.peers import Node, run, until

pytest.importorskip("cryptography")


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    make_authority(tmp_path, 30)
    make_node(tmp_path, "one", ["127.0.0.1", "one.example"], 20)
    make_node(tmp_path, "two", ["127.0.0.1"], 20)
    return tmp_path


def contexts(directory: Path, name: str) -> tuple[PeerAuth, ssl.SSLContext]:
    files = [str(directory / one) for one in (f"{name}.pem", f"{name}.key", "ca.pem")]
    return PeerAuth(dial_context=dial_context(*files), certificate_required=True), server_context(*files)


def test_nodes_with_certificates_of_one_authority_have_links(fleet: Path) -> None:
    async def test() -> None:
        (auth, server), (other_auth, other_server) = contexts(fleet, "one"), contexts(fleet, "two")
        one = await Node(1, auth=auth).start(server_context=server)
        two = await Node(2, auth=other_auth).start(server_context=other_server)
        one.peers.send(two.ref, Ping())
        await until(two.got)
        two.peers.send(one.ref, Ping())
        await until(one.got)
        assert one.peers.refusals.counts == two.peers.refusals.counts == {}
        await one.stop()
        await two.stop()

    run(test)


def test_others_are_refused(fleet: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    strangers = tmp_path_factory.mktemp("strangers")
    make_authority(strangers, 30)
    make_node(strangers, "two", ["127.0.0.1"], 20)
    make_node(fleet, "elsewhere", ["10.0.0.9"], 20)

    async def test() -> None:
        auth, server = contexts(fleet, "one")
        node = await Node(1, auth=auth).start(server_context=server)
        there = Ref(node.ref.id, node.ref.address, 1)
        bare = ssl.create_default_context(cafile=str(fleet / "ca.pem"))
        foreign = dial_context(str(strangers / "two.pem"), str(strangers / "two.key"), str(fleet / "ca.pem"))
        mistrusting, _ = contexts(strangers, "two")
        misnamed, _ = contexts(fleet, "elsewhere")
        for number, (theirs, reasons) in enumerate(
            [
                (PeerAuth(dial_context=bare), {"refused"}),
                (PeerAuth(dial_context=foreign), {"unreachable", "certificate"}),
                (mistrusting, {"certificate"}),
                (misnamed, {"refused"}),
                (PeerAuth(), {"refused", "unreachable"}),
            ]
        ):
            peer = await Node(10 + number, auth=theirs).start()
            peer.peers.send(there, Ping())
            await until(lambda: peer.lost() == [there])  # noqa: B023 - awaited at once
            assert set(peer.peers.refusals.counts) <= reasons, number
            await peer.stop()
        assert node.got() == []
        assert node.peers.refusals.counts == {"certificate": 2}
        await node.stop()

    run(test)


def test_files_are_private_and_never_replaced_by_accident(fleet: Path) -> None:
    assert (fleet / "ca.key").stat().st_mode & 0o777 == 0o600
    assert (fleet / "one.key").stat().st_mode & 0o777 == 0o600
    before = (fleet / "one.pem").read_bytes()
    with pytest.raises(CertsError, match="makes all certificates of the old one void"):
        make_authority(fleet, 30)
    with pytest.raises(CertsError, match="say --renew"):
        make_node(fleet, "one", ["127.0.0.1"], 20)
    assert (fleet / "one.pem").read_bytes() == before
    make_node(fleet, "one", ["127.0.0.1"], 20, renew=True)
    assert (fleet / "one.pem").read_bytes() != before


def test_an_old_certificate_is_not_accepted(fleet: Path) -> None:
    make_node(fleet, "two", ["127.0.0.1"], 20, renew=True, now=datetime.now(UTC) - timedelta(days=21))

    async def test() -> None:
        (auth, server), (_, other_server) = contexts(fleet, "one"), contexts(fleet, "two")
        one = await Node(1, auth=auth).start(server_context=server)
        two = await Node(2).start(server_context=other_server)
        one.peers.send(two.ref, Ping())
        await until(lambda: one.lost() == [two.ref])
        assert one.peers.refusals.counts == {"certificate": 1}
        await one.stop()
        await two.stop()

    run(test)


@pytest.mark.parametrize(
    ("name", "hosts", "said"),
    [
        ("../x", ["h"], "is no name for a node's files"),
        ("ca", ["h"], "is no name for a node's files"),
        ("x", [], "has 0 hosts"),
        ("x", ["bücher.example"], "is no host name or address"),
    ],
)
def test_names_that_cannot_be(fleet: Path, name: str, hosts: list[str], said: str) -> None:
    with pytest.raises(CertsError, match=said):
        make_node(fleet, name, hosts, 20)


def test_the_command(tmp_path: Path) -> None:
    directory = str(tmp_path / "certs")
    done = CliRunner().invoke(command, [directory, "web1=127.0.0.1,web1.example", "web2"])
    assert done.exit_code == 0, done.output
    assert (
        f"{directory}/web1.pem, {directory}/web1.key: node web1, reached at 127.0.0.1, web1.example"
        in done.output
    )
    assert "node web2, reached at web2" in done.output
    again = CliRunner().invoke(command, [directory, "web2"])
    assert again.exit_code == 1
    assert "say --renew" in again.output
    assert CliRunner().invoke(command, [directory, "web3", "--renew"]).exit_code == 0


def test_without_the_package_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(CertsError, match=r"pip install 'elfstream\[tls\]'"):
        make_authority(tmp_path, 1)
