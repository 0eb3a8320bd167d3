"""Wrong tokens and certificates against nodes that run: each face says what is wrong and where to look."""

from __future__ import annotations

import json
import re
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from elfstream.certs import make_authority, make_node
from tests.integration.bad_peers import token_file
from tests.integration.fleet_processes import ROOT, Fleet, NodeProcess, until
from tests.patience import PATIENCE_S

pytest.importorskip("cryptography")
TOKEN = "the-token-of-the-fleet"


def _files(folder: Path, name: str) -> dict[str, Path]:
    return {"cert": folder / f"{name}.pem", "key": folder / f"{name}.key", "ca": folder / "ca.pem"}


def _section(**files: Path) -> str:
    return "[security]\n" + "".join(f'{key} = "{file}"\n' for key, file in files.items())


def _status(url: str, token: str | None = None) -> tuple[int, dict[str, Any]]:
    request = urllib.request.Request(url)
    if token is not None:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        answer = urllib.request.urlopen(request, timeout=PATIENCE_S)
    except urllib.error.HTTPError as error:
        answer = error
    with closing(answer):
        text = answer.read()
        return int(answer.status), json.loads(text) if text.startswith(b"{") else {}


def _readiness(node: NodeProcess) -> tuple[int, str]:
    status, problem = _status(f"{node.url}/readyz")
    return status, problem["detail"]


class World:
    """`plain` wants the token; `tls` has a certificate, and wants token or certificate."""

    def __init__(self, folder: Path, ending: ExitStack) -> None:
        self.folder, self.ending = folder, ending
        self.token, self.wrong_token = token_file(folder, TOKEN), folder / "wrong"
        self.wrong_token.touch(0o600)
        self.wrong_token.write_text("another-token-of-another-fleet")
        for name in ("certs", "others"):
            (folder / name).mkdir()
            make_authority(folder / name, 30)
            make_node(folder / name, "one", ["127.0.0.1"], 20)
        self.ours, self.others = _files(folder / "certs", "one"), _files(folder / "others", "one")
        self.plain = self.node("plain", _section(token_file=self.token))
        self.tls = self.node("tls", _section(token_file=self.token, **self.ours))
        for node in (self.plain, self.tls):
            until(lambda: "started" in node.said.read_text(), PATIENCE_S, f"the start of {node.name}")  # noqa: B023
        until(lambda: _status(f"{self.plain.url}/readyz")[0] == 200, PATIENCE_S, "a fleet of one")

    def node(self, name: str, section: str, join: NodeProcess | None = None) -> NodeProcess:
        """Started."""
        (self.folder / f"of_{name}").mkdir()
        node = Fleet(self.folder / f"of_{name}", 0, 1, {}).workers[0]
        if join is not None:
            file = node.folder / "node.toml"
            file.write_text(re.sub(r"join = .*", f'join = ["127.0.0.1:{join.port}"]', file.read_text()))
        node.add_to_file(section)
        node.start()
        self.ending.callback(node.kill)
        return node

    def command(self, node: NodeProcess, scheme: str, token: Path | None = None, *options: object) -> str:
        """What `elfstream nodes` says on its standard error."""
        asked = ["nodes", "--url", f"{scheme}://127.0.0.1:{node.port}", *(["--token-file", str(token)] if token else [])]
        done = subprocess.run(
            [sys.executable, "-m", "elfstream", *asked, *map(str, options)],
            cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE_S,
        )  # fmt: skip
        assert done.returncode == (1 if done.stderr else 0)
        return done.stderr.partition("\n")[0].removeprefix("elfstream: error: ")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with ExitStack() as ending:
        yield World(tmp_path_factory.mktemp("world"), ending)


@pytest.mark.parametrize(
    ("name", "seed", "said"),
    [
        ("wrong token", "plain", "refused with 401: the token is missing or wrong: all nodes of a fleet need the same one"),
        ("no token", "plain", "refused with 401: the token is missing or wrong: all nodes of a fleet need the same one"),
        ("no TLS", "tls", "server disconnected instead of an answer: it may want TLS, and this node has no security.cert"),
        ("TLS", "plain", "TLS fails (WRONG_VERSION_NUMBER): this node has security.cert, has it one, too?"),
        ("another authority", "tls", "its certificate is not trusted: self-signed certificate in certificate chain; all "
         "nodes need certificates of the authority in security.ca"),
    ],
)  # fmt: skip
def test_a_node_that_is_not_let_in_says_why(world: World, name: str, seed: str, said: str) -> None:
    """In its log, and to whoever asks whether it is ready. Over TLS `/readyz` needs no certificate of the asker."""
    section = {
        "wrong token": _section(token_file=world.wrong_token),
        "no token": "",
        "no TLS": _section(token_file=world.token),
        "TLS": _section(token_file=world.token, **world.ours),
        "another authority": _section(token_file=world.token, **world.others),
    }[name]
    seeds = {"plain": world.plain, "tls": world.tls}
    node = world.node(name.replace(" ", "-"), section, seeds[seed])
    why = f"no link to 127.0.0.1:{seeds[seed].port}: {said}"
    until(lambda: why in node.said.read_text(), PATIENCE_S, f"{why} in the log")
    if "cert =" not in section:
        # The last dial counts, and on a busy machine one may have got no answer.
        said_by = f"this node has not joined the fleet yet: {why}"
        until(lambda: _readiness(node) == (503, said_by), PATIENCE_S, f"{said_by} in /readyz")


def _refused(node: NodeProcess, trusting: ssl.SSLContext) -> dict[str, int]:
    """By reason, as its metrics have it."""
    request = urllib.request.Request(f"https://127.0.0.1:{node.port}/metrics")
    request.add_header("Authorization", f"Bearer {TOKEN}")
    with urllib.request.urlopen(request, timeout=5.0, context=trusting) as answer:
        text = answer.read().decode()
    return {reason: int(count) for reason, count in re.findall(r'link_refused_total\{reason="(\w+)"\} (\d+)', text)}


def test_handshakes_that_fail_are_counted(world: World) -> None:
    """No request ever comes of them: plain HTTP, a certificate of another authority, a client that does not trust ours."""
    node = world.node("counted", _section(token_file=world.token, **world.ours))
    until(lambda: "started" in node.said.read_text(), 60.0, "the start")
    trusting, stranger = (ssl.create_default_context(cafile=world.ours["ca"]) for _ in range(2))
    assert _refused(node, trusting) == {}
    stranger.load_cert_chain(world.others["cert"], world.others["key"])
    with socket.create_connection(("127.0.0.1", node.port), timeout=5.0) as plain:
        plain.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        while plain.recv(4096):
            pass
    for context in (stranger, ssl.create_default_context(cafile=world.others["ca"])):
        with pytest.raises(OSError):
            urllib.request.urlopen(f"https://127.0.0.1:{node.port}/healthz", timeout=5.0, context=context)
    until(lambda: _refused(node, trusting) == {"tls": 3}, 30.0, "all of them in the metrics")
    assert "a TLS handshake failed: plain HTTP came, and this port has TLS" in node.said.read_text()


def test_the_api_says_what_is_missing(world: World) -> None:
    assert _status(f"{world.plain.url}/v1/jobs", TOKEN)[0] == 200
    for token, said in ((None, "this fleet asks for a token"), ("no", "the token is wrong")):
        status, problem = _status(f"{world.plain.url}/v1/jobs", token)
        assert (status, problem["detail"], problem["field"]) == (401, said, "Authorization")
        assert problem["advice"] == "Send Authorization: Bearer TOKEN, with the token of the fleet."


def test_commands_say_what_to_name(world: World) -> None:
    plain, tls, ask = world.plain, world.tls, world.command
    advice = "Name the file with the fleet's token: --token-file or ELFSTREAM_TOKEN_FILE."
    assert ask(plain, "http", world.token) == ""
    assert ask(plain, "http") == f"this fleet asks for a token. {advice}"
    assert ask(plain, "http", world.wrong_token) == f"the token is wrong. {advice}"
    assert ask(plain, "https", world.token).endswith(": it speaks no TLS. Does it want http?")
    assert ask(tls, "http", world.token).endswith(": Server disconnected. Does it want https?")
    untrusted = "has a certificate that is not trusted here: name the fleet's authority with --cacert."
    assert ask(tls, "https", world.token).endswith(untrusted)
    assert ask(tls, "https", world.token, "--cacert", world.others["ca"]).endswith(untrusted)
    assert ask(tls, "https", world.token, "--cacert", world.ours["ca"]) == ""
    assert ask(tls, "https", None, "--cacert", world.ours["ca"]) == f"this fleet asks for a token. {advice}"
    stranger = ("--cert", world.others["cert"], "--key", world.others["key"])
    said = ask(tls, "https", world.token, "--cacert", world.ours["ca"], *stranger)
    assert said.endswith("Is the certificate of --cert of the fleet's authority?")
