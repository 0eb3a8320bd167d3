"""What an operator installs: the unit, and (slow) the Debian package."""

from __future__ import annotations

import configparser
import os
import random
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from elfstream.config.keys import NODE
from elfstream.config.model import LimitsConfig
from tests.integration.bad_peers import token_file
from tests.integration.fleet_processes import NodeProcess, free_port, is_ready, until
from tests.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
UNIT = ROOT / "packaging" / "elfstream.service"


def service() -> configparser.SectionProxy:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(UNIT)
    return unit["Service"]


def test_the_unit_leaves_room_for_the_defaults() -> None:
    limits = LimitsConfig()
    assert int(service()["TimeoutStopSec"]) > limits.drain_max_s
    assert service()["MemoryMax"] == "1G"
    assert limits.memory_max * 2 <= 1 << 30


def test_the_unit_uses_commands_that_there_are() -> None:
    from elfstream.cli import COMMANDS

    used = set(re.findall(r"^Exec\w+=/usr/bin/elfstream (\S+)", UNIT.read_text(), re.MULTILINE))
    assert used >= {"check", "node"}
    assert used - set(COMMANDS) <= {"node"}  # the daemon has a command of its own as soon as it is there


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    unit = tmp_path / "elfstream.service"
    unit.write_text(UNIT.read_text().replace("/usr/bin/elfstream", "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, check=False
    )
    ours = [line for line in (done.stdout + done.stderr).splitlines() if "elfstream" in line]
    assert (done.returncode, ours) == (0, [])


def test_the_unit_stays_hardened(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    command = ["systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager", str(UNIT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "offline" in done.stderr:
        pytest.skip("this systemd-analyze cannot judge a file")
    assert done.returncode == 0, done.stdout + done.stderr


def test_scripts_of_the_package_are_shell() -> None:
    for script in [ROOT / "packaging" / "build_deb", *(ROOT / "packaging" / "debian").iterdir()]:
        assert os.access(script, os.X_OK)
        subprocess.run(["sh", "-n", script], check=True)


@pytest.mark.stress
def test_the_debian_package_installs_into_a_folder_and_answers(tmp_path: Path) -> None:
    """Built as `make deb` does, unpacked below a folder: complete, light, and no path of this machine in it."""
    if shutil.which("dpkg-deb") is None:
        pytest.skip("dpkg-deb is not installed")
    source = tmp_path / "source"
    subprocess.run(["git", "clone", "-q", ROOT, source], check=True)
    done = subprocess.run(
        ["sh", source / "packaging" / "build_deb", sys.executable], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    package = source / done.stdout.strip()
    root = tmp_path / "root"
    subprocess.run(["dpkg-deb", "-x", package, root], check=True)
    site = next((root / "usr/lib/elfstream/lib").glob("python3.*")) / "site-packages"
    code = (
        f"import sys; sys.path.insert(0, {str(site)!r}); sys.argv[1:] = ['check', '--example']; "
        "from elfstream.cli import main; main()"
    )
    python = f"/usr/bin/{site.parent.name}"
    shown = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown == (root / "etc/elfstream/node.toml").read_text()
    assert (root / "usr/bin/elfstream").is_symlink()
    for path in root.rglob("*"):
        if path.is_file() and not path.is_symlink():
            assert str(source).encode() not in path.read_bytes(), path


CONTAINERFILE = ROOT / "packaging" / "Containerfile"


def _instructions() -> list[tuple[str, str]]:
    text = CONTAINERFILE.read_text().replace("\\\n", " ")
    found = re.findall(r"^([A-Z]+) (.*)$", text, re.MULTILINE)
    return [(word, " ".join(rest.split())) for word, rest in found]


def test_the_container_gets_all_packages_and_nobody_is_root_in_it() -> None:
    steps = _instructions()
    copied = {rest.split()[0] for word, rest in steps if word == "COPY" and not rest.startswith("--")}
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    assert copied >= {package.partition(".")[0] for package in packages}
    files = [name for word, rest in steps if word == "COPY" and not rest.startswith("--") for name in rest.split()[:-1]]
    assert [name for name in files if not (ROOT / name).exists()] == []
    last = max(index for index, (word, _) in enumerate(steps) if word == "FROM")
    image = dict(steps[last:])
    assert image["USER"] == "elfstream"
    assert f'"{image["VOLUME"]}"' == next(key.default for key in NODE if key.name == "data_dir")
    assert {"HEALTHCHECK", "STOPSIGNAL", "EXPOSE", "ENTRYPOINT", "CMD"} <= image.keys()


def test_the_health_of_a_container_is_that_of_its_node(tmp_path: Path) -> None:
    node = NodeProcess(tmp_path, "web1", free_port(random.Random()), [], {})
    command = [sys.executable, str(ROOT / "packaging" / "healthcheck.py"), str(node.folder / "node.toml")]

    def checked(**environment: str) -> subprocess.CompletedProcess[str]:
        environ = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
        return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)

    def is_healthy(done: subprocess.CompletedProcess[str]) -> bool:
        return (done.returncode, done.stderr) == (0, "")

    dead = checked()
    assert (dead.returncode, "refused" in dead.stderr) == (1, True)
    node.start()
    try:
        until(lambda: is_ready(node.url), PATIENCE_S, "the node")
        # It has seconds to answer, and is asked again when they are not enough, as by whoever runs containers.
        until(lambda: is_healthy(checked()), PATIENCE_S, "health")
        wildcard = {
            "ELFSTREAM_NODE_LISTEN": f"0.0.0.0:{node.port}",
            "ELFSTREAM_NODE_ADVERTISE": f"web1:{node.port}",
            "ELFSTREAM_SECURITY_TOKEN_FILE": str(token_file(tmp_path, "a-token-of-a-container")),
        }
        until(lambda: is_healthy(checked(**wildcard)), PATIENCE_S, "health behind a wildcard")
    finally:
        node.kill()
