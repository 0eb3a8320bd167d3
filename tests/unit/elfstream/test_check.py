"""`elfstream check`: what it finds out about the world, and how it tells."""

from __future__ import annotations

import gzip
import http.server
import json
import os
import re
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from elfstream.check import check, machine, network
from elfstream.check.certificates import check_certificates
from elfstream.check.finding import Finding
from elfstream.check.logs import check_source
from elfstream.cli import main
from elfstream.config import Address, LimitsConfig, NodeConfig, SecurityConfig, SourceConfig, load
from master.api_guard import NODE_HEADER
from tests.patience import PATIENCE_S

GOOD = '203.0.113.9 - - [28/Nov/2025:20:00:01 +0100] "GET /a HTTP/1.1" 200 100 "-" "curl/8.5.0"\n'
WITH_HOST = f"shop.example:443 {GOOD}"
NOW_US = 1_764_400_000_000_000


def source(*paths: Path, **more: object) -> SourceConfig:
    return SourceConfig(tuple(map(str, paths)), **more)  # type: ignore[arg-type]


def looked(one: SourceConfig, now_us: int = NOW_US) -> list[Finding]:
    return check_source(0, one, now_us)[0]


def config_of(folder: Path, **more: object) -> NodeConfig:
    return NodeConfig(file=str(folder / "node.toml"), name="web1", data_dir=str(folder / "data"), **more)  # type: ignore[arg-type]


# logs


def test_logs_that_fit(tmp_path: Path) -> None:
    (tmp_path / "access.log").write_text(GOOD * 300 + "half a li")
    (tmp_path / "access.log.1.gz").write_bytes(gzip.compress((GOOD * 3).encode()))
    (tmp_path / "access.log.2").touch()
    findings, facts = check_source(0, source(tmp_path / "access.log*"), NOW_US)
    assert findings == []
    assert facts == ("access", "combined", 3, 203, 203)


def test_a_wrong_format_shows_the_line_and_the_right_one(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(WITH_HOST * 5)
    (finding,) = looked(source(tmp_path / "a.log"))
    assert finding.severity == "error"
    assert finding.key == ("sources", 0, "format")
    assert finding.message == f"none of the first 5 lines of {tmp_path}/a.log fit the format combined"
    assert finding.advice == 'vhost_combined fits 5 of them: write format = "vhost_combined".'
    line, mark, why = finding.detail.splitlines()
    assert line.startswith("  shop.example:443 203.0.113.9")
    assert mark.strip() == "^"
    assert why.startswith("  column ")


def test_some_odd_lines_are_a_warning(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("\n" + GOOD * 4 + "odd \x1b[31m\n" + GOOD * 5)
    (finding,) = looked(source(tmp_path / "a.log"))
    assert finding.severity == "warning"
    assert "only 9 of the first 10 lines" in finding.message
    assert "odd \\x1b[31m" in finding.detail
    assert finding.advice == "The other lines do; these are counted as rejected."


@pytest.mark.parametrize(("good", "severity"), [(1, "error"), (2, "warning")])
def test_most_lines_odd_is_an_error(tmp_path: Path, good: int, severity: str) -> None:
    (tmp_path / "a.log").write_text(GOOD * good + "odd\n" * (4 - good))
    (finding,) = looked(source(tmp_path / "a.log"))
    assert finding.severity == severity


def test_a_format_nobody_knows(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("so it goes\n" * 4)
    (tmp_path / "b.log").write_text(GOOD + "so it goes\n")
    (finding,) = looked(source(tmp_path / "*.log"))
    assert "none of the first 4 lines" in finding.message
    assert finding.message.endswith("; 1 more file has such lines")
    assert finding.advice.startswith("No format with a name fits them")


def test_columns_named_by_the_log_itself(tmp_path: Path) -> None:
    (tmp_path / "u_ex.log").write_text(
        "#Fields: date time c-ip sc-status\n2024-03-14 09:26:53 192.0.2.1 200\n2024-03-14 09:26:53 192.0.2.1 twohundred\n"
    )
    (finding,) = looked(source(tmp_path / "u_ex.log", format="w3c"))
    assert "only 1 of the first 2 lines" in finding.message
    assert "twohundred" in finding.detail
    assert "status of three digits" in finding.detail


def test_times_of_another_zone(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("#Fields: date time c-ip\n2025-11-29 10:00:00 192.0.2.1\n")
    (finding,) = looked(source(tmp_path / "a.log", format="w3c"), NOW_US)
    assert finding.severity == "warning"
    assert finding.key == ("sources", 0, "timezone")
    assert "2.9 hours ahead" in finding.message
    assert looked(source(tmp_path / "a.log", format="w3c", timezone="+05:00")) == []


def test_a_format_without_a_time(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("192.0.2.1 200\n")
    (finding,) = looked(source(tmp_path / "a.log", format="$remote_addr $status"))
    assert finding.message == "the format has no time, and windows need one"


def test_paths_that_are_not_there_and_paths_that_are_no_files(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe")
    names = ["none.log", "none*", "folder", "link", "pipe"]
    findings = looked(source(*(tmp_path / name for name in names)))
    assert [(one.severity, one.key[-1], one.message.replace(str(tmp_path), "DIR")) for one in findings] == [
        ("warning", 0, "there is no file DIR/none.log"),
        ("warning", 1, "nothing matches DIR/none*"),
        ("error", 2, "DIR/folder is a folder"),
        ("warning", 3, "DIR/link is a link to nowhere, or its folder may not be entered"),
        ("warning", 4, "DIR/pipe is no regular file and will be passed over"),
    ]


def test_files_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        (tmp_path / f"{number}.log").write_text(GOOD)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    (finding,) = looked(source(tmp_path / "*.log"))
    assert finding.severity == "error"
    assert f"{tmp_path}/2.log and 2 more may not be read by the user" in finding.message
    assert "usermod -aG" in finding.advice
    for path in tmp_path.iterdir():
        path.chmod(0o600)
    (finding,) = looked(source(tmp_path / "*.log"))
    assert f"chmod g+r {tmp_path}/0.log" in finding.advice
    monkeypatch.setattr("elfstream.check.logs.closed_folder", lambda pattern: str(tmp_path))
    tmp_path.chmod(0o700)
    (finding,) = looked(source(tmp_path / "none*.log"))
    assert finding.severity == "error"
    assert f"chmod g+rx {tmp_path}" in finding.advice


def test_a_broken_archive(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(GOOD.encode() * 100)[:40])
    (finding,) = looked(source(tmp_path / "a.gz"))
    assert finding.severity == "error"
    assert str(tmp_path / "a.gz") in finding.message


# machine


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/meminfo").write_text("MemTotal:        1048576 kB\nMemFree: 1 kB\n")
    (root / "proc/self/cgroup").write_text("0::/system.slice/elfstream.service\n")
    group = root / "sys/fs/cgroup/system.slice/elfstream.service"
    group.mkdir(parents=True)
    (group / "memory.max").write_text("max\n")
    return root


def memory(root: Path, size: int) -> list[tuple[str, str]]:
    config = config_of(root, limits=LimitsConfig(memory_max=size))
    return [(one.severity, one.message) for one in machine.check_memory(config, root)]


def test_memory_of_the_machine(root: Path) -> None:
    assert memory(root, 512 << 20) == []
    assert memory(root, 800 << 20) == [("warning", "memory_max is 800MiB, and this machine has 1024 MiB")]
    assert memory(root, 1 << 30) == [("error", "memory_max is 1GiB, and this machine has 1024 MiB")]


def test_memory_of_the_service(root: Path) -> None:
    (root / "sys/fs/cgroup/system.slice/memory.max").write_text("268435456\n")
    assert memory(root, 256 << 20) == [("error", "memory_max is 256MiB, and MemoryMax of the service allows 256 MiB")]
    (root / "sys/fs/cgroup/system.slice/elfstream.service/memory.max").write_text("134217728\n")
    assert memory(root, 256 << 20) == [("error", "memory_max is 256MiB, and MemoryMax of the service allows 128 MiB")]
    (root / "proc/self/cgroup").write_text("1:name=systemd:/\n")
    assert memory(root, 256 << 20) == []


def test_where_nothing_is_known_about_memory(tmp_path: Path) -> None:
    assert memory(tmp_path, 1 << 40) == []


def data_dir(folder: Path, root: Path, **more: object) -> list[tuple[str, str, str]]:
    config = replace(config_of(folder, **more), data_dir=str(folder / "data"))
    return [
        (one.severity, ".".join(map(str, one.key)), one.message.replace(str(folder), "DIR"))
        for one in machine.check_data_dir(config, root)
    ]


def test_the_data_folder(tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = LimitsConfig(spill_max=0)
    assert data_dir(tmp_path, root, limits=small) == []
    assert list(tmp_path.iterdir()) == [root]  # nothing was made
    (tmp_path / "data").write_text("")
    assert data_dir(tmp_path, root) == [("error", "node.data_dir", "DIR/data is no folder")]
    (tmp_path / "data").unlink()
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda path, mode: False)
        who = f"by the user {os.geteuid()}"
        assert data_dir(tmp_path, root) == [
            ("error", "node.data_dir", f"there is no folder DIR/data, and DIR may not be written {who}")
        ]
    assert data_dir(tmp_path, root, limits=LimitsConfig(spill_max=1 << 50))[0][1] == "limits.spill_max"


def test_file_systems(tmp_path: Path, root: Path) -> None:
    mounts = root / "proc/self/mountinfo"
    here = tmp_path.resolve()
    mounts.write_text(
        f"1 0 8:1 / / rw - ext4 /dev/sda rw\n2 1 0:9 / {here} rw shared:1 - nfs4 server:/x rw\n"
        f"3 1 0:9 / {here}x rw - tmpfs t rw\n"
    )
    assert machine.filesystem("/", root) == "ext4"
    assert machine.filesystem(f"{here}2", root) == "ext4"
    assert machine.filesystem(f"{here}/a/b", root) == "nfs4"
    small = LimitsConfig(spill_max=0)
    assert data_dir(tmp_path, root, limits=small) == [
        ("warning", "node.data_dir", "DIR is on a network file system (nfs4)")
    ]
    mounts.write_text(mounts.read_text().replace("nfs4", "tmpfs"))
    assert "is in memory (tmpfs)" in data_dir(tmp_path, root, limits=small)[0][2]


def test_processors_and_clock(tmp_path: Path) -> None:
    (one,) = machine.check_processors(config_of(tmp_path, limits=LimitsConfig(cpu_max_cores=4096.0)))
    assert one.message.startswith("cpu_max_cores is 4096, and this process may use")
    assert list(machine.check_processors(config_of(tmp_path))) == []
    assert [one.severity for one in machine.check_clock(86_400.0, True)] == ["error"]
    assert [one.severity for one in machine.check_clock(2e9, False)] == ["warning"]
    assert list(machine.check_clock(2e9, None)) == []
    assert machine.clock_is_synchronised() in (True, False, None)


# network


@pytest.fixture
def port() -> Iterator[int]:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        one.listen(1)
        yield one.getsockname()[1]


def listening(folder: Path, host: str, port: int) -> tuple[list[str], bool]:
    findings, facts = network.check_port(config_of(folder, listen=Address(host, port)))
    return [one.message for one in findings], facts.running


def test_ports(tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "ANSWER_S", 0.1)
    assert listening(tmp_path, "127.0.0.1", 0) == ([], False)
    assert listening(tmp_path, "127.0.0.1", port) == ([f"another program listens on 127.0.0.1:{port}"], False)
    assert listening(tmp_path, "0.0.0.0", port) == ([f"another program listens on 0.0.0.0:{port}"], False)
    if socket.has_ipv6 and Path("/proc/net/if_inet6").exists():  # asyncio listens there on IPv6 alone
        assert listening(tmp_path, "::", port) == ([], False)
    assert listening(tmp_path, "192.0.2.1", 7117) == (["192.0.2.1 is no address of this machine"], False)
    assert "cannot be resolved" in listening(tmp_path, "no-such-host.invalid", 7117)[0][0]


def test_a_port_that_was_left_a_moment_ago_is_free(tmp_path: Path) -> None:
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as asyncio's servers have
        one.bind(("127.0.0.1", 0))
        one.listen(1)
        left = one.getsockname()[1]
        with socket.create_connection(("127.0.0.1", left)):
            one.accept()[0].close()  # whoever closes first leaves the port in TIME_WAIT
    assert listening(tmp_path, "127.0.0.1", left) == ([], False)


@pytest.mark.parametrize(("header", "running"), [(NODE_HEADER, True), ("X-Other", False)])
def test_a_node_that_runs_already_is_fine(tmp_path: Path, header: str, running: bool) -> None:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header(header, "127.0.0.1:7117")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as answering:
        thread = threading.Thread(target=answering.handle_request)
        thread.start()
        messages, found = listening(tmp_path, "127.0.0.1", answering.server_port)
        thread.join()
    assert found is running
    assert bool(messages) is not running


def reach(folder: Path, **more: object) -> list[str]:
    return [one.message for one in network.check_reach(config_of(folder, **more))]


def test_who_reaches_whom(tmp_path: Path) -> None:
    away, token = Address("192.0.2.9", 7117), SecurityConfig(token_file="x")
    assert reach(tmp_path, join=(Address("127.0.0.1", 1),)) == []
    assert "where other machines cannot reach it" in reach(tmp_path, join=(away,))[0]
    assert reach(tmp_path, listen=away, advertise=away, security=token) == [
        "without TLS the token and all results cross the network in the clear"
    ]
    local = Address("127.0.0.1", 7117)
    assert reach(tmp_path, listen=away, advertise=local) == ["other machines are told 127.0.0.1:7117, which is themselves"]
    assert "no-such-host.invalid cannot be resolved" in reach(tmp_path, join=(Address("no-such-host.invalid", 1),))[-1]


def test_a_silent_name_server_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: released.wait(PATIENCE_S))
    assert network.unresolved(["a", "b"], within_s=0.05) == dict.fromkeys("ab", "no answer within 0.05 s")
    released.set()


# certificates


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ca, another ca, and keys and certificates of web1 signed by the first, one of them for a few days."""
    folder = tmp_path_factory.mktemp("certs")

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    new = ("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    for name in ("ca", "other"):
        openssl(*new, "-x509", "-days", "100", "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem")
    (folder / "names").write_text("subjectAltName=DNS:web1,DNS:*.example.net,IP:192.0.2.7")
    for name, days in (("web1", "90"), ("soon", "3")):
        openssl(*new, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", days,
                "-extfile", "names", "-out", f"{name}.pem")  # fmt: skip
    openssl("ec", "-in", "web1.key", "-out", "locked.key", "-aes256", "-passout", "pass:secret")
    (folder / "junk.pem").write_text("junk")
    return folder


def certified(certs: Path, cert: str, key: str, ca: str | None, host: str = "web1") -> list[str]:
    security = SecurityConfig(None, str(certs / cert), str(certs / key), ca and str(certs / ca))
    config = config_of(certs, security=security, advertise=Address(host, 7117))
    found = check_certificates(config, time.time())
    return [f"{one.severity} {one.key[-1]}: {one.message}".replace(f"{certs}/", "") for one in found]


@pytest.mark.parametrize("host", ["web1", "WEB1.", "a.example.net", "192.0.2.7"])
def test_certificates_that_fit(certs: Path, host: str) -> None:
    assert certified(certs, "web1.pem", "web1.key", "ca.pem", host) == []
    assert certified(certs, "web1.pem", "web1.key", None, host) == []


@pytest.mark.parametrize(
    ("cert", "key", "ca", "said"),
    [
        ("web1.pem", "soon.key", "ca.pem", "error key: soon.key is not the key of web1.pem"),
        ("web1.pem", "locked.key", "ca.pem", "error cert: web1.pem and locked.key cannot be used: the key has a passphrase"),
        ("none.pem", "web1.key", "ca.pem", "error cert: none.pem cannot be read: no such file"),
        ("junk.pem", "web1.key", "ca.pem", "error cert: junk.pem and web1.key cannot be used: "),
        ("web1.pem", "web1.key", "none.pem", "error ca: none.pem cannot be used: no such file"),
        ("web1.pem", "web1.key", "junk.pem", "error ca: junk.pem cannot be used: "),
        ("web1.pem", "web1.key", "other.pem", "error cert: web1.pem is not accepted by other.pem: unable to get"),
        ("soon.pem", "soon.key", "ca.pem", "warning cert: soon.pem expires in 2 days"),
    ],
)
def test_certificates_that_do_not(certs: Path, cert: str, key: str, ca: str, said: str) -> None:
    (found,) = certified(certs, cert, key, ca)
    assert found.startswith(said)


def test_a_certificate_for_other_names(certs: Path) -> None:
    assert certified(certs, "web1.pem", "web1.key", "ca.pem", "a.b.example.net") == [
        "warning cert: the certificate is for web1, *.example.net, 192.0.2.7, and this node is called at a.b.example.net"
    ]


def test_an_expired_certificate(certs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    security = SecurityConfig(None, str(certs / "web1.pem"), str(certs / "web1.key"), str(certs / "ca.pem"))
    config = config_of(certs, security=security, advertise=Address("web1", 7117))
    (found,) = check_certificates(config, time.time() + 100 * 86400)
    assert found.message.endswith("expires in 0 days")


# the command


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["check", *arguments])


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("elfstream.check.clock_is_synchronised", lambda: True)
    (tmp_path / "access.log").write_text(GOOD)
    (tmp_path / "node.toml").write_text(
        '[node]\nname = "web1"\nlisten = "127.0.0.1:0"\ndata_dir = "data"\n[[sources]]\npaths = "access.log*"\n'
        '[limits]\nspill_max = "1MiB"\nmemory_max = "32MiB"\n'
    )
    return tmp_path / "node.toml"


def test_a_good_file(node: Path) -> None:
    result = run("-c", str(node))
    assert result.exit_code == 0
    assert result.stderr == ""
    assert result.stdout.splitlines() == [
        f"{node} is good",
        "  agent web1 of the fleet default",
        "  listens on 127.0.0.1:0, joins nobody",
        "  source access: 1 file, 1 of 1 first lines fit, format combined",
    ]


def test_problems_of_the_file_and_of_the_world_in_one_report(node: Path) -> None:
    (node.parent / "access.log").write_text(WITH_HOST * 2)
    node.write_text(node.read_text().replace("name", "nme") + '[[sources]]\nname = "b"\npaths = "nothing"\n')
    result = run("-c", str(node))
    assert result.exit_code == 78
    assert result.stdout == ""
    told = [line.removeprefix(str(node)) for line in result.stderr.splitlines() if line.startswith("/")]
    assert [line.split(". ")[0] for line in told] == [
        ":2: error: node.nme: there is no such key in [node]",
        f":5: error: sources[0].format: none of the first 2 lines of {node.parent}/access.log fit the format combined",
        f":12: warning: sources[1].paths[0]: there is no file {node.parent}/nothing",
        ": 2 errors and 1 warning",
    ]
    assert "shop.example:443" in result.stderr


def test_json(node: Path) -> None:
    node.write_text(node.read_text() + "[security]\nca = 'x'\n")
    result = run("-c", str(node), "--json")
    document = json.loads(result.stdout)
    assert result.exit_code == 78
    assert document["ok"] is False
    assert document["problems"] == [{
        "file": str(node), "line": 11, "key": "security.ca", "message": "there is a ca without cert and key",
        "advice": "Name the files of this node's certificate and key.", "severity": "error", "detail": "",
    }]  # fmt: skip
    assert document["sources"] == [{"name": "access", "format": "combined", "files": 1, "lines": 1, "good": 1}]
    assert document["config"]["limits"]["memory_max"] == "32MiB"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    result = run("-c", str(tmp_path / "node.toml"))
    assert result.exit_code == 78
    assert "there is no such file. To begin with one:  elfstream check --example >" in result.stderr
    assert len(result.stderr.splitlines()) == 2


def test_of_a_file_that_is_no_toml_nothing_else_is_said(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text("[node]\nname = web1\n")
    result = run("-c", str(file))
    assert result.exit_code == 78
    assert result.stderr.splitlines() == [
        f'{file}:2: error: this is no TOML: a text without quotes, at column 8. Write name = "web1".',
        f"{file}: 1 error",
    ]


def test_a_variable_that_lacks_its_table_is_pointed_out(node: Path) -> None:
    report = check(node, {"ELFSTREAM_LISTEN": "0.0.0.0", "ELFSTREAM_URL": "http://x", "ELFSTREAM_JOIN": ""})
    assert report.ok
    assert [str(problem) for problem in report.problems] == [
        "environment: warning: ELFSTREAM_LISTEN: a node does not read this variable. Write ELFSTREAM_NODE_LISTEN."
    ]


def test_the_example_is_good_and_shows_every_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from elfstream.config.keys import SECTIONS

    shown = run("--example").stdout
    file = tmp_path / "node.toml"
    file.write_text(shown)
    assert load(file, {}).sources[0].paths == ("/var/log/nginx/access.log*",)
    for keys in SECTIONS.values():
        for key in keys:
            assert re.search(rf"^#?{key.name} = .+", shown, re.MULTILINE)
    assert max(map(len, shown.splitlines())) <= 100
    # What is commented out can be switched on: every line is TOML, and every value is one that is read.
    on = re.sub(r"^#(\w+ = )", r"\1", shown, flags=re.MULTILINE)
    for name in ("token", "webhook", "web1.pem", "web1.key", "ca.pem", "nginx.conf"):
        (tmp_path / name).write_text("0123456789abcdef")
        (tmp_path / name).chmod(0o600)
    on = on.replace("/etc/elfstream/", "").replace("/etc/nginx/", "")
    file.write_text(on.replace('format = "combined"', 'format = "json"').replace("server_config", "#server_config"))
    config = load(file, {})
    assert config.limits.cpu_max_cores == 2.0
    assert config.sources[0].fields == {"latency": "DOUBLE", "ctx.user": "BIGINT"}


def test_nothing_is_changed(node: Path) -> None:
    before = sorted((path, path.stat().st_mtime_ns) for path in node.parent.iterdir())
    assert check(node, {}).ok
    assert sorted((path, path.stat().st_mtime_ns) for path in node.parent.iterdir()) == before
