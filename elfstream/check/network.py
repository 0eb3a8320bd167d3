"""Whether the node can listen where it should, and whether others can be found."""

from __future__ import annotations

import contextlib
import errno
import http.client
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from elfstream.check.finding import Finding, error, warning
from elfstream.config.model import Address, NodeConfig
from elfstream.config.toml_lines import KeyPath

ANSWER_S = 2.0
RESOLVE_S = 3.0


class PortFacts(NamedTuple):
    running: bool
    """A node answers there already."""


def check_port(config: NodeConfig) -> tuple[list[Finding], PortFacts]:
    """Whether `listen` is free. A node that runs there is fine: it is the one that will be restarted or reloaded."""
    listen, key = config.listen, ("node", "listen")
    try:
        found = socket.getaddrinfo(listen.host, listen.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as failed:
        message = f"the host {listen.host} cannot be resolved: {_why(failed)}"
        return [error(key, message, "Write an IP address.")], PortFacts(False)
    for family, kind, protocol, _, where in found:
        failure = _bind(family, kind, protocol, where)
        if failure is None:
            continue
        if failure.errno == errno.EADDRINUSE:
            if answers(config):
                return [], PortFacts(True)
            advice = f"See which:  ss -ltnp 'sport = :{listen.port}'   and stop it, or choose another port."
            return [error(key, f"another program listens on {listen}", advice)], PortFacts(False)
        return [_refusal(listen, failure)], PortFacts(False)
    return [], PortFacts(False)


def _bind(family: int, kind: int, protocol: int, where: object) -> OSError | None:
    try:
        with socket.socket(family, kind, protocol) as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            one.bind(where)  # type: ignore[arg-type]
    except OSError as failed:
        return failed
    return None


def _refusal(listen: Address, failure: OSError) -> Finding:
    key = ("node", "listen")
    if failure.errno == errno.EADDRNOTAVAIL:
        return error(key, f"{listen.host} is no address of this machine", "See which there are:  ip -brief address")
    if failure.errno == errno.EACCES:
        advice = "Choose a port from 1024 on, or give the service CAP_NET_BIND_SERVICE."
        return error(key, f"this user may not listen on port {listen.port}", advice)
    return error(key, f"nothing can listen on {listen}: {_why(failure)}")


def _why(failed: OSError) -> str:
    return (failed.strerror or str(failed)).lower()


def answers(config: NodeConfig) -> bool:
    """Whether what listens there is a node: all its answers say which. Its certificate need not be known for that."""
    from master.api_guard import NODE_HEADER

    host = config.listen.host
    if config.listen.is_wildcard:
        host = "::1" if ":" in host else "127.0.0.1"
    connection: http.client.HTTPConnection
    if config.security.has_tls:
        connection = http.client.HTTPSConnection(host, config.listen.port, timeout=ANSWER_S, context=_asking(config))
    else:
        connection = http.client.HTTPConnection(host, config.listen.port, timeout=ANSWER_S)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().getheader(NODE_HEADER) is not None
    except (OSError, http.client.HTTPException, ValueError):
        return False
    finally:
        connection.close()


def _asking(config: NodeConfig) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with contextlib.suppress(OSError, ValueError):  # told by the check of certificates
        context.load_cert_chain(config.security.cert or "", config.security.key, password=lambda: "")
    return context


def check_reach(config: NodeConfig) -> Iterator[Finding]:
    """What keeps others from this node, and this node from others."""
    beyond = [address for address in config.join if not address.is_loopback]
    advertise = config.advertise
    if config.listen.is_loopback and beyond and (advertise is None or advertise.is_loopback):
        yield warning(
            ("node", "listen"),
            f"join names {beyond[0]}, but this node listens on {config.listen}, where other machines cannot reach it",
            "Listen on an address of the network, with [security].",
        )
    elif not config.listen.is_loopback and advertise is not None and advertise.is_loopback:
        message = f"other machines are told {advertise}, which is themselves"
        yield warning(("node", "advertise"), message, "Write an address of the network.")
    if not config.listen.is_loopback and config.security.token_file is not None and not config.security.has_tls:
        yield warning(
            ("security", "token_file"),
            "without TLS the token and all results cross the network in the clear",
            "Set cert, key and ca (elfstream certs makes them), unless the network is your own.",
        )
    keyed: list[tuple[KeyPath, Address]] = [(("node", "join", index), address) for index, address in enumerate(config.join)]
    if advertise is not None and advertise != config.listen:
        keyed.append((("node", "advertise"), advertise))
    lost = unresolved([address.host for _, address in keyed])
    for key, address in keyed:
        if address.host in lost:
            message = f"the host {address.host} cannot be resolved: {lost[address.host]}"
            yield warning(key, message, "Correct it, or use an IP address.")


def unresolved(hosts: Sequence[str], within_s: float = RESOLVE_S) -> dict[str, str]:
    """Hosts that have no address, and why. A name server that does not answer is waited for `within_s` in all."""
    lost = dict.fromkeys(hosts, f"no answer within {within_s:g} s")

    def resolve(host: str) -> None:
        try:
            socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as failed:
            lost[host] = _why(failed) if isinstance(failed, OSError) else "it is no host name"
        else:
            del lost[host]

    threads = [threading.Thread(target=resolve, args=(host,), daemon=True) for host in list(lost)]
    for thread in threads:
        thread.start()
    left = within_s
    for thread in threads:
        started = time.monotonic()
        thread.join(max(left, 0.0))
        left -= time.monotonic() - started
    return dict(lost)
