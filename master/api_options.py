"""Limits of the HTTP API, and what a node is told of its fleet's security."""

from __future__ import annotations

import ssl
from dataclasses import dataclass

from master.errors import OptionsError


@dataclass(frozen=True)
class ApiOptions:
    name: str = ""
    """Of this node, for people."""
    token: str = ""
    """Whoever asks has to bring it; empty: nobody has to. Nodes bring it to each other."""
    certificates: bool = False
    """A certificate of the fleet's authority does as well as the token; without a token it is needed. The server's context
    asks for certificates and verifies them (CERT_OPTIONAL: pages and probes are open to all)."""
    client_tls: ssl.SSLContext | None = None
    """How other nodes are asked; None: without TLS."""
    webhook_secret: bytes = b""
    """Signs what webhooks are sent; empty: nothing is signed."""
    webhook_hosts: frozenset[str] | None = None
    """Host names that webhooks may be sent to; None: all."""
    body_bytes_max: int = 1 << 20
    ingest_bytes_max: int = 16 << 20
    """Of a body with windows that were computed elsewhere."""
    ingests_max: int = 2
    """Such bodies at a time."""
    requests_max: int = 256
    """At a time, streams apart."""
    streams_max: int = 256
    submits_max: int = 32
    """Jobs that are being made at a time."""
    request_s: float = 30.0
    """A request that is not answered by then is given up; streams and the bodies of results are not held to it."""
    compile_s: float = 10.0
    compile_waiting_max: int = 32
    connect_s: float = 2.0
    """To reach another node."""
    heartbeat_s: float = 5.0
    """A stream without results says so often that it lives, and looks whether its job is led here still."""
    stalled_s: float = 30.0
    """A reader that takes nothing for so long is dropped."""
    hops_max: int = 3
    """Nodes that hand on one request."""
    page_windows_max: int = 1000
    page_bytes: int = 8 << 20
    """Compressed; a page of results ends with the window that reaches it."""
    result_threads: int = 4
    tree_nodes_max: int = 2000
    tree_depth_max: int = 16
    tree_s: float = 5.0
    """A vertex that does not answer by then is shown as such."""

    def __post_init__(self) -> None:
        problems = [
            f"{name} {getattr(self, name)} is below {least}"
            for name, least in _LEAST.items()
            if not getattr(self, name) >= least
        ]
        if self.heartbeat_s > self.stalled_s:
            problems.append(f"heartbeat_s {self.heartbeat_s} is above stalled_s {self.stalled_s}")
        if problems:
            raise OptionsError("; ".join(problems))


_LEAST: dict[str, float] = {
    "body_bytes_max": 1024,
    "ingest_bytes_max": 1024,
    "ingests_max": 0,
    "requests_max": 1,
    "submits_max": 1,
    "streams_max": 0,
    "request_s": 0.001,
    "compile_s": 0.001,
    "compile_waiting_max": 1,
    "connect_s": 0.001,
    "heartbeat_s": 0.001,
    "stalled_s": 0.001,
    "hops_max": 1,
    "page_windows_max": 1,
    "page_bytes": 1,
    "result_threads": 1,
    "tree_nodes_max": 1,
    "tree_depth_max": 1,
    "tree_s": 0.001,
}
