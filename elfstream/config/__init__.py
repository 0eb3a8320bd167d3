"""What the operator of a node decides: `load(path)` gives a NodeConfig, or a ConfigError that lists every problem.

    [node]                       who it is, where it listens, whom it joins
    [[sources]]                  logs to follow; more of them in conf.d/*.toml beside the file
    [limits]                     memory, disk, processor
    [security]                   token and certificates

`elfstream check --example` prints all keys with their meaning; docs/OPERATE.md tells the rest.
"""

from __future__ import annotations

from elfstream.config.keys import Changes, changes
from elfstream.config.model import (
    Address,
    ConfigError,
    LimitsConfig,
    NodeConfig,
    Problem,
    SecurityConfig,
    SourceConfig,
)
from elfstream.config.reading import Examined, examine, load
from elfstream.config.secrets import SecretError, read_token

EX_CONFIG = 78
"""The exit code of a process that cannot use its configuration (sysexits.h)."""

__all__ = [
    "EX_CONFIG",
    "Address",
    "Changes",
    "ConfigError",
    "Examined",
    "LimitsConfig",
    "NodeConfig",
    "Problem",
    "SecretError",
    "SecurityConfig",
    "SourceConfig",
    "changes",
    "examine",
    "load",
    "read_token",
]
