"""What a node is told by its operator, as values. docs/OPERATE.md and `elfstream check --example` explain the keys."""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from master.asking import PORT

if TYPE_CHECKING:
    from job.formats import Format


class Address(NamedTuple):
    """Where a node listens or is reached. `host` is an IP address without brackets, or a host name."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_wildcard(self) -> bool:
        """Whether it stands for all addresses of the machine."""
        try:
            return ipaddress.ip_address(self.host).is_unspecified
        except ValueError:
            return False

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host.lower() == "localhost"


LOCAL = Address("127.0.0.1", PORT)


@dataclass(frozen=True)
class SourceConfig:
    """A log stream of this node. `paths` are absolute, and may be globs."""

    paths: tuple[str, ...]
    name: str = "access"
    format: str = "combined"
    server_config: str | None = None
    read_from: Literal["end", "beginning"] = "end"
    timezone: str | None = None
    fields: dict[str, str] = field(default_factory=dict)
    """Of JSON logs: key to SQL type."""

    @property
    def server_path(self) -> Path | None:
        return None if self.server_config is None else Path(self.server_config)

    def log_format(self) -> Format:
        """The format that the keys say. Raises job.errors.FormatError; a config that was loaded has been asked already,
        but `server_config` may have changed since."""
        from job import formats

        found = formats.find(self.format, server_config=self.server_path)
        if self.timezone is not None:
            found = formats.in_zone(found, self.timezone)
        return formats.with_fields(found, self.fields) if self.fields else found


@dataclass(frozen=True)
class LimitsConfig:
    memory_max: int = 256 << 20
    """Bytes of state, buffers and codec contexts; the interpreter and its imports come on top."""
    spill_max: int = 10 << 30
    """Bytes of disk for groups beyond it."""
    cpu_max_cores: float | None = None
    """None: all there are."""
    drain_max_s: float = 10.0
    """How long SIGTERM may take."""


@dataclass(frozen=True)
class SecurityConfig:
    """Files; the secrets in them are read where they are used and are no part of the configuration."""

    token_file: str | None = None
    cert: str | None = None
    key: str | None = None
    ca: str | None = None
    webhook_secret_file: str | None = None
    webhook_hosts: tuple[str, ...] | None = None
    """None: all."""

    @property
    def has_tls(self) -> bool:
        return self.cert is not None and self.key is not None

    @property
    def authenticates(self) -> bool:
        """Whether strangers are refused: by a token, or by asking for certificates of `ca`."""
        return self.token_file is not None or (self.has_tls and self.ca is not None)


@dataclass(frozen=True)
class NodeConfig:
    """All of it. `listen` port 0 is any free port; `advertise` is None then unless it was given: what the socket says."""

    file: str
    name: str
    data_dir: str
    fleet: str = "default"
    listen: Address = LOCAL
    advertise: Address | None = LOCAL
    join: tuple[Address, ...] = ()
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["text", "json"] = "text"
    sources: tuple[SourceConfig, ...] = ()
    limits: LimitsConfig = LimitsConfig()
    security: SecurityConfig = SecurityConfig()

    @property
    def is_agent(self) -> bool:
        return bool(self.sources)

    @property
    def digest(self) -> str:
        """16 hex digits that differ between nodes or times whose configuration differs, wherever it came from."""
        import msgspec

        content = {**asdict(self), "file": ""}
        return hashlib.sha256(msgspec.json.encode(content, order="deterministic")).hexdigest()[:16]


class Problem(NamedTuple):
    """Something an operator should mend (`error`) or look at (`warning`)."""

    file: str
    """The configuration file, or `environment`."""
    line: int | None
    key: str
    """Such as `node.listen` or `sources[0].paths[1]`; the name of an environment variable; empty for a whole file."""
    message: str
    advice: str = ""
    severity: Literal["error", "warning"] = "error"
    detail: str = ""
    """Further lines, such as one of a log with a mark below it."""

    def __str__(self) -> str:
        """Without `detail`: one line."""
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        severity = "warning: " if self.severity == "warning" else ""
        label = f"{self.key}: " if self.key else ""
        advice = f" {self.advice}" if self.advice else ""
        return f"{place}: {severity}{label}{self.message}.{advice}"


class ConfigError(Exception):
    """A configuration that cannot be used. `str(error)` lists every problem, one a line."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))
