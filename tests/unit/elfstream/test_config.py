"""A node's configuration: what is read, from where, and what it comes to. Mistakes: tests/golden/config_errors.txt."""

from __future__ import annotations

import os
import socket
import tomllib
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from elfstream.config import (
    Address,
    ConfigError,
    LimitsConfig,
    NodeConfig,
    SecretError,
    SecurityConfig,
    SourceConfig,
    changes,
    examine,
    load,
    read_token,
)
from elfstream.config.keys import SECTIONS, effective
from elfstream.config.secrets import read_webhook_secret
from elfstream.config.values import Wrong, hosts
from elfstream.node_security import Security

TOKEN = "0123456789abcdef0123"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(socket, "gethostname", lambda: "web1")
    return tmp_path / "node.toml"


def loaded(file: Path, text: str, **environ: str) -> NodeConfig:
    file.write_text(text)
    return load(file, environ)


def said(file: Path, text: str = "") -> list[str]:
    if text:
        file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(file, {})
    return [str(problem).replace(str(file.parent), "DIR") for problem in caught.value.problems]


def test_an_empty_file_is_a_worker_with_the_defaults(file: Path) -> None:
    config = loaded(file, "")
    assert config == NodeConfig(file=str(file), name="web1", data_dir="/var/lib/elfstream")
    assert not config.is_agent


def test_the_defaults_that_people_are_told_are_those_used(file: Path) -> None:
    told: dict[str, Any] = {}
    for section, keys in SECTIONS.items():
        for key in keys:
            if key.default:
                told[section, key.field] = key.read(tomllib.loads(f"x = {key.default}")["x"], "/")
    config = loaded(file, '[[sources]]\npaths = ["/a"]')
    parts = {"node": config, "sources": config.sources[0], "limits": config.limits, "security": config.security}
    assert told == {(section, name): getattr(parts[section], name) for section, name in told}


@pytest.mark.parametrize(
    ("section", "of"),
    [("sources", SourceConfig), ("limits", LimitsConfig), ("security", SecurityConfig), ("node", NodeConfig)],
)
def test_every_value_has_a_key(section: str, of: type) -> None:
    beside = {"file", "sources", "limits", "security"} if of is NodeConfig else set()
    assert {key.field for key in SECTIONS[section]} == {field.name for field in fields(of)} - beside


def test_everything_can_be_set(file: Path) -> None:
    (file.parent / "token").write_text(TOKEN + "\n")
    (file.parent / "token").chmod(0o640)
    (file.parent / "web1.key").touch(0o600)
    (file.parent / "nginx.conf").write_text("http { log_format main '$remote_addr $status'; }")
    config = loaded(file, """
        [node]
        name = "web-1.example"
        fleet = "shop"
        listen = "[::]:8000"
        advertise = "web1.example.net"
        join = ["10.0.0.1", "[2001:db8::1]:7000", "web2:7117"]
        data_dir = "data"
        log_level = "DEBUG"
        log_format = "json"
        [[sources]]
        paths = ["/var/log/nginx/*.log", "logs/a.log"]
        format = "main"
        server_config = "nginx.conf"
        read_from = "beginning"
        [[sources]]
        name = "app"
        paths = "/var/log/app.json"
        format = "json"
        timezone = "Europe/Berlin"
        [sources.fields]
        latency = "double"
        [limits]
        memory_max = "1GiB"
        spill_max = 0
        cpu_max_cores = 1.5
        drain_max = "500ms"
        [security]
        token_file = "token"
        cert = "web1.pem"
        key = "web1.key"
        ca = "/etc/ca.pem"
        webhook_secret_file = "token"
        webhook_hosts = ["Hooks.example.net", "[::1]"]
        """)  # fmt: skip
    here = str(file.parent)
    assert config == NodeConfig(
        file=str(file), name="web-1.example", fleet="shop", listen=Address("::", 8000),
        advertise=Address("web1.example.net", 7117),
        join=(Address("10.0.0.1", 7117), Address("2001:db8::1", 7000), Address("web2", 7117)),
        data_dir=f"{here}/data", log_level="debug", log_format="json",
        sources=(
            SourceConfig(("/var/log/nginx/*.log", f"{here}/logs/a.log"), format="main", read_from="beginning",
                         server_config=f"{here}/nginx.conf"),
            SourceConfig(("/var/log/app.json",), name="app", format="json", timezone="Europe/Berlin",
                         fields={"latency": "DOUBLE"}),
        ),
        limits=LimitsConfig(1 << 30, 0, 1.5, 0.5),
        security=SecurityConfig(f"{here}/token", f"{here}/web1.pem", f"{here}/web1.key", "/etc/ca.pem",
                                f"{here}/token", ("hooks.example.net", "::1")),
    )  # fmt: skip
    assert str(config.listen) == "[::]:8000"
    assert read_token(f"{here}/token") == TOKEN
    assert list(config.sources[0].log_format().fields) == ["remote_addr", "status"]
    assert str(config.sources[1].log_format().fields["latency"]) == "DOUBLE"
    assert config.sources[1].log_format().zone.name == "Europe/Berlin"


def test_sources_of_the_folder_follow_in_the_order_of_names(file: Path) -> None:
    folder = file.parent / "conf.d"
    folder.mkdir()
    for name in ("20-b.toml", "10-a.toml", ".hidden.toml", "notes.txt"):
        (folder / name).write_text(f'[[sources]]\nname = "s{name[0:2]}"\npaths = ["x"]')
    (folder / "30-empty.toml").write_text("")
    os.mkfifo(folder / "pipe.toml")
    config = loaded(file, '[[sources]]\nname = "first"\npaths = ["x"]')
    assert [source.name for source in config.sources] == ["first", "s10", "s20"]
    assert [source.paths for source in config.sources] == [
        (f"{file.parent}/x",), (f"{folder}/x",), (f"{folder}/x",),
    ]  # fmt: skip


def test_a_dangling_link_in_the_folder_is_told(file: Path) -> None:
    (file.parent / "conf.d").mkdir()
    (file.parent / "conf.d" / "gone.toml").symlink_to("nowhere")
    assert said(file, "[node]")[0].startswith("DIR/conf.d/gone.toml: there is no such file")


def test_the_environment_stands_above_the_file(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = loaded(
        file, '[node]\nname = "a"\njoin = ["a"]\n[limits]\nmemory_max = "1GiB"',
        ELFSTREAM_NODE_NAME="b", ELFSTREAM_NODE_JOIN="b:1, c:2,", ELFSTREAM_LIMITS_MEMORY_MAX="64MiB",
        ELFSTREAM_LIMITS_CPU_MAX_CORES="2", ELFSTREAM_LIMITS_DRAIN_MAX="1m", ELFSTREAM_NODE_DATA_DIR="data",
        ELFSTREAM_NODE_LISTEN="", ELFSTREAM_URL="http://x", ELFSTREAM_DEBUG="1",
    )  # fmt: skip
    assert config.name == "b"
    assert config.join == (Address("b", 1), Address("c", 2))
    assert config.limits == LimitsConfig(64 << 20, 10 << 30, 2.0, 60.0)
    assert config.data_dir == str(tmp_path / "data")
    assert str(config.listen) == "127.0.0.1:7117"  # an empty variable is none


def test_variables_in_values(file: Path) -> None:
    config = loaded(
        file,
        '[node]\nname = "${HOST}-${N:-1}"\ndata_dir = "${EMPTY:-/data}"\n[limits]\ncpu_max_cores = "${CORES}"\n'
        "[[sources]]\npaths = ['/x/${remote_addr}']\nformat = '$remote_addr ${status} $${HOST}'",
        HOST="web", EMPTY="", CORES="3",
    )  # fmt: skip
    assert config.name == "web-1"
    assert config.data_dir == "/data"
    assert config.limits.cpu_max_cores == 3.0
    assert config.sources[0].format == "$remote_addr ${status} ${HOST}"
    assert config.sources[0].paths == ("/x/${remote_addr}",)


def test_what_a_variable_holds_is_no_toml_and_no_variable(file: Path) -> None:
    config = loaded(file, '[node]\ndata_dir = "/${A}"', A='x"\n[limits] ${B}', B="y")
    assert config.data_dir == '/x"\n[limits] ${B}'


def test_advertise_is_what_listens_unless_that_is_unknown(file: Path) -> None:
    assert loaded(file, '[node]\nlisten = "127.0.0.2:7000"').advertise == Address("127.0.0.2", 7000)
    assert loaded(file, '[node]\nlisten = "127.0.0.1:0"').advertise is None
    assert loaded(file, '[node]\nlisten = "localhost:1"\nadvertise = "x:2"').advertise == Address("x", 2)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.10", "localhost", "[::1]"])
def test_loopback_needs_no_secret(file: Path, host: str) -> None:
    assert loaded(file, f'[node]\nlisten = "{host}:1"').listen.is_loopback


@pytest.mark.parametrize("host", ["10.0.0.1", "web1", "[2001:db8::1]", "[::ffff:127.0.0.1]", "localhost.example.net"])
def test_everything_else_does(file: Path, host: str) -> None:
    assert "nothing keeps strangers out" in said(file, f'[node]\nlisten = "{host}:1"')[0]


def test_a_missing_file_and_others_that_cannot_be_read(file: Path) -> None:
    assert said(file) == [
        "DIR/node.toml: there is no such file. To begin with one:  elfstream check --example > DIR/node.toml"
    ]
    assert said(file.parent) == [f"DIR/{file.parent.name}: this is a folder. Name the file in it, such as node.toml."]
    file.write_bytes(b"[node]\nname = '\xff'")
    assert said(file) == ["DIR/node.toml:2: the file is not UTF-8 here. Save it as UTF-8."]
    file.write_bytes(b"#" * (1 << 20) + b"#")
    assert said(file) == ["DIR/node.toml: the file is larger than 1 MiB."]
    file.write_text("a = " + "[" * 5000 + "]" * 5000)
    assert said(file) == ["DIR/node.toml: arrays or tables are nested more than 32 deep."]
    file.write_text("a = " + "[" * 40 + "]" * 40)
    assert said(file) == ["DIR/node.toml: arrays or tables are nested more than 32 deep."]


def test_a_file_that_may_not_be_read(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str, *_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", name)

    monkeypatch.setattr("builtins.open", refuse)  # root, who may run the tests, may read everything
    assert said(file) == [
        "DIR/node.toml: permission denied. Run this as the user of the service, or give that user's group the right to "
        "read it."
    ]


def test_a_byte_order_mark_and_windows_line_ends(file: Path) -> None:
    file.write_bytes(b'\xef\xbb\xbf[node]\r\nname = "a"\r\nx = 1\r\n')
    assert said(file) == [
        "DIR/node.toml:3: node.x: there is no such key in [node]. There are advertise, data_dir, fleet, join, listen, "
        "log_format, log_level, name."
    ]


def test_a_host_name_that_is_no_name(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "büro")
    assert said(file, "[limits]") == [
        "DIR/node.toml: node.name: the host name 'büro' is no name for a node. Write name = \"...\"."
    ]


def test_the_digest_tells_configurations_apart(file: Path) -> None:
    first = loaded(file, '[[sources]]\npaths = ["/a"]')
    again = loaded(file, '# the same\n[[sources]]\npaths = "/a"\nname = "access"')
    other = loaded(file, '[[sources]]\npaths = ["/b"]')
    assert first.digest == again.digest != other.digest
    assert len(first.digest) == 16


def test_which_changes_need_a_restart(file: Path) -> None:
    old = loaded(file, "[node]\nname = 'a'\n[[sources]]\npaths='/a'\n[[sources]]\nname='old'\npaths='/o'")
    new = loaded(file, """
        [node]
        name = "a"
        listen = "127.0.0.1:1"
        log_level = "debug"
        [limits]
        memory_max = "1GiB"
        drain_max = "1s"
        [[sources]]
        paths = ["/a", "/b"]
        [[sources]]
        name = "new"
        paths = "/n"
        """)  # fmt: skip
    found = changes(old, new)
    assert found.restart == ("node.listen", "node.advertise", "limits.memory_max")
    assert found.changed == (
        "node.log_level", "limits.drain_max", "sources.access.paths", "sources.new", "sources.old"
    )  # fmt: skip
    taken = replace(new, listen=old.listen, advertise=old.advertise)
    assert found.config == replace(taken, limits=replace(new.limits, memory_max=old.limits.memory_max))
    assert changes(new, new) == (new, (), ())


def test_a_worker_becomes_no_agent_by_a_reload(file: Path) -> None:
    worker = loaded(file, "[node]\nname = 'a'")
    agent = loaded(file, "[node]\nname = 'a'\n[[sources]]\npaths='/a'")
    assert changes(worker, agent) == (worker, (), ("sources",))
    assert changes(agent, worker) == (agent, (), ("sources",))


def test_the_effective_configuration_can_be_read_again(file: Path) -> None:
    config = loaded(file, '[node]\njoin = "a,b"\n[limits]\nmemory_max = "100MiB"\n[[sources]]\npaths = "/a"')
    shown = effective(config)
    assert shown["node"]["join"] == ["a:7117", "b:7117"]
    assert shown["limits"] == {"memory_max": "100MiB", "spill_max": "10GiB", "cpu_max_cores": None, "drain_max": "10s"}
    assert shown["sources"][0]["paths"] == ["/a"]


def test_what_can_be_read_is_there_beside_the_problems(file: Path) -> None:
    file.write_text('[node]\nname = "a"\nlisten = "x:y"\n[[sources]]\nname = "bad"\n[[sources]]\npaths = "/a"')
    examined = examine(file, {})
    assert len(examined.problems) == 2
    assert examined.config.name == "a"
    assert [source.paths for source in examined.config.sources] == [("/a",)]
    assert examined.numbers == (1,)
    assert str(examined.place(("sources", 1, "paths"))) == f"{file}:7"
    assert str(examined.place(("sources", 1, "format"))) == f"{file}:6"


def test_tokens(tmp_path: Path) -> None:
    file = tmp_path / "token"
    os.mkfifo(tmp_path / "pipe", 0o600)
    file.touch(0o600)
    wrong = {b"short": "has 5 characters", b"\xff" * 20: "is not ASCII", b"x" * 9999: "has 4098 characters"}
    for content, why in wrong.items():
        file.write_bytes(content)
        with pytest.raises(SecretError, match=why):
            read_token(str(file))
    with pytest.raises(SecretError, match="is no file"):
        read_token(str(tmp_path / "pipe"))
    file.write_text(f"  {TOKEN}\r\n")
    assert read_token(str(file)) == TOKEN
    file.chmod(0o604)
    with pytest.raises(SecretError, match="everybody on this machine may use"):
        read_token(str(file))


def test_secrets_of_webhooks(tmp_path: Path) -> None:
    file = tmp_path / "webhook"
    file.touch(0o600)
    file.write_text(f"{TOKEN}\n")
    security = Security(SecurityConfig(webhook_secret_file=str(file), webhook_hosts=("a.example",)))
    assert (security.webhook_secret, security.webhook_hosts) == (TOKEN.encode(), frozenset({"a.example"}))
    assert Security(SecurityConfig()).webhook_hosts is None
    file.write_text("whsec_c2l4dGVlbiBieXRlcyE=\n")
    assert read_webhook_secret(str(file)) == b"sixteen bytes!"
    file.write_text("whsec_no_base_64_at_all\n")
    with pytest.raises(SecretError, match="what follows whsec_ in"):
        read_webhook_secret(str(file))


@pytest.mark.parametrize("host", ["https://a.example", "a.example:443", "", "a b"])
def test_hosts_of_webhooks_are_names_alone(host: str) -> None:
    with pytest.raises(Wrong):
        hosts([host])
