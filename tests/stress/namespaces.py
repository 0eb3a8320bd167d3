"""A fleet whose nodes have a network of their own each, and a router between them that can be told to drop packets.

Linux, as root. The thread that enters a `Network` is at the router until it leaves: it reaches every node, whatever is cut.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.integration.fleet_processes import ROOT, Fleet, NodeProcess

_CLONE_NEWNET = 0x40000000
_LIBC = ctypes.CDLL(None, use_errno=True)
PORT = 7117
TOKEN = "a-token-for-nodes-in-namespaces"


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


def lacks() -> str:
    """Why there can be no namespaces here; empty: there can."""
    for tool in ("ip", "unshare", "nsenter"):
        if shutil.which(tool) is None:
            return f"{tool} is not installed"
    done = subprocess.run(
        ["unshare", "--net", "ip", "link", "add", "name", "v1", "type", "veth", "peer", "name", "v2"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return "" if done.returncode == 0 else f"network namespaces cannot be made: {done.stderr.strip() or 'are you root?'}"


def lacks_netem() -> str:
    """Why packets cannot be delayed and lost at random here; empty: they can."""
    if (why := lacks()) or shutil.which("tc") is None:
        return why or "tc is not installed"
    done = subprocess.run(
        ["unshare", "--net", "tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return "" if done.returncode == 0 else f"the kernel has no netem: {done.stderr.strip()}"


class Network:
    """The router, and one namespace for each of the nodes."""

    def __init__(self, names: Iterable[str]) -> None:
        self.addresses = {name: f"10.117.{number}.1" for number, name in enumerate(names, 1)}
        self._holders: dict[str, subprocess.Popen[bytes]] = {}
        self._cuts: set[tuple[str, str]] = set()

    @contextmanager
    def entered(self) -> Iterator[Network]:
        """The calling thread, and what it starts, is at the router."""
        home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            _checked(_LIBC.unshare(_CLONE_NEWNET))
            try:
                self._build()
                yield self
            finally:
                for holder in self._holders.values():
                    holder.kill()
                    holder.communicate()
                _checked(_LIBC.setns(home, _CLONE_NEWNET))
        finally:
            os.close(home)

    def _build(self) -> None:
        _ip("link", "set", "lo", "up")
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        for name, address in self.addresses.items():
            # A namespace lives as long as a process is in it; nodes come and go.
            holder = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo; exec sleep infinity"], stdout=subprocess.PIPE)
            self._holders[name] = holder
            assert holder.stdout is not None
            holder.stdout.read(1)
            router = address[:-1] + "2"
            _ip("link", "add", "name", self._port(name), "type", "veth", "peer", "name", "eth0", "netns", str(holder.pid))
            _ip("address", "add", f"{router}/24", "dev", self._port(name))
            _ip("link", "set", self._port(name), "up")
            for command in (
                ("link", "set", "lo", "up"),
                ("address", "add", f"{address}/24", "dev", "eth0"),
                ("link", "set", "eth0", "up"),
                ("route", "add", "default", "via", router),
            ):
                subprocess.run([*self.within(name), "ip", *command], check=True, capture_output=True)

    def _port(self, name: str) -> str:
        return f"to-{name}"

    def within(self, name: str) -> list[str]:
        """What a command is begun with to run where that node runs."""
        return ["nsenter", f"--net=/proc/{self._holders[name].pid}/ns/net"]

    # what goes wrong

    def cut(self, sender: str, receiver: str) -> None:
        """Packets of the one to the other are dropped without a word; those the other way are not."""
        if (sender, receiver) not in self._cuts:
            self._cuts.add((sender, receiver))
            _ip("rule", "add", *self._rule(sender, receiver))

    def part(self, one: Iterable[str], other: Iterable[str]) -> None:
        """Nothing gets through between the two sides."""
        other = list(other)
        for name in one:
            for far in other:
                self.cut(name, far)
                self.cut(far, name)

    def silence(self, name: str) -> None:
        """It hears all others, and none hears it."""
        for other in self.addresses.keys() - {name}:
            self.cut(name, other)

    def deafen(self, name: str) -> None:
        """All others hear it, and it hears none."""
        for other in self.addresses.keys() - {name}:
            self.cut(other, name)

    def heal(self) -> None:
        for sender, receiver in self._cuts:
            _ip("rule", "del", *self._rule(sender, receiver))
        self._cuts.clear()

    def _rule(self, sender: str, receiver: str) -> list[str]:
        return ["iif", self._port(sender), "to", f"{self.addresses[receiver]}/32", "blackhole"]

    def disturb(self, delay: str, loss: str) -> None:
        """Of all packets between nodes. Needs netem."""
        for name in self.addresses:
            command = ["tc", "qdisc", "add", "dev", self._port(name), "root", "netem", "delay", delay, "loss", loss]
            subprocess.run(command, check=True, capture_output=True)


def _checked(result: int) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


class _Node(NodeProcess):
    def __init__(self, folder: Path, name: str, network: Network, seeds: list[str], is_agent: bool) -> None:
        address = network.addresses[name]
        super().__init__(folder, name, PORT, [], {"access": "combined"} if is_agent else {})
        self.url = f"http://{address}:{PORT}"
        self._within = network.within(name)
        join = ", ".join(f'"{seed}:{PORT}"' for seed in seeds)
        file = self.folder / "node.toml"
        text = file.read_text().replace(f'"127.0.0.1:{PORT}"', f'"{address}:{PORT}"')
        text = text.replace("join = []", f"join = [{join}]")
        file.write_text(f'{text}\n[security]\ntoken_file = "{folder}/token"\n')

    def start(self) -> None:
        command = [*self._within, sys.executable, "-m", "elfstream", "node", "-c", str(self.folder / "node.toml")]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        with open(self.said, "ab") as said:
            self.child = subprocess.Popen(command, cwd=ROOT, stdout=said, stderr=said, env=environment)
        self.is_paused = False


class NamespacedFleet(Fleet):
    """To be made within a `Network`. Agents are the nodes whose names begin with `web`."""

    def __init__(self, folder: Path, network: Network) -> None:
        token = folder / "token"
        token.touch(0o600)
        token.write_text(TOKEN)
        self.token = TOKEN
        seeds = list(network.addresses.values())[:3]
        self.nodes = {
            name: _Node(folder, name, network, seeds, name.startswith("web")) for name in network.addresses
        }
        self.agents = [node for node in self.nodes.values() if node.sources]
        self.workers = [node for node in self.nodes.values() if not node.sources]
