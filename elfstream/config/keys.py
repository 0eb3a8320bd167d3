"""The table of all keys: what reads them, their defaults, and what people are told. Readers, the example file and the
manual page are made from it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from elfstream.config import values
from elfstream.config.model import Address, NodeConfig
from elfstream.config.values import Reader, duration, one_of, size, size_text
from elfstream.sizes import MEMORY_MAX, SPILL_MAX
from job.durations import SECOND_US, duration_text
from master.asking import PORT

MEMORY_LEAST = 32 << 20
"""A worker of one job gets on with this; see elfstream/memory.py for the share of a table."""


class Key(NamedTuple):
    name: str
    read: Reader
    default: str
    """As it would be written; empty: none. What is used without the key is the default of the dataclass."""
    about: str
    """One or two sentences, without a final point in the last."""
    example: str = ""
    """What the example file shows where the default would say little."""
    attribute: str = ""
    """In the dataclass, where it is not `name`."""
    reloads: bool = False
    """Whether a reload is enough; else the node has to be restarted."""

    @property
    def field(self) -> str:
        return self.attribute or self.name


NODE = (
    Key("name", values.name, "", "unique in the fleet; without it the host name", '"web1"'),
    Key("fleet", values.name, '"default"', "nodes of another fleet are refused, so that a test never joins production"),
    Key("listen", values.listen, f'"127.0.0.1:{PORT}"',
        "one port for people and peers; beyond this machine it needs [security]"),
    Key("advertise", values.reached, "",
        "where other nodes reach this one, if not at `listen`; needed when that is a wildcard",
        f'"web1.example.net:{PORT}"'),
    Key("join", values.addresses, "[]",
        "nodes that run already; the same list on all nodes is fine, none is for the first one",
        f'["web1.example.net:{PORT}", "web2.example.net:{PORT}"]'),
    Key("data_dir", values.path, '"/var/lib/elfstream"', "positions in the logs, results, spilled groups; one per node"),
    Key("log_level", one_of("debug", "info", "warning", "error"), '"info"',
        "how much the node writes to standard error: debug, info, warning or error",
        reloads=True),
    Key("log_format", one_of("text", "json"), '"text"', "how it is written: text, or json with an object per line",
        reloads=True),
)  # fmt: skip

SOURCE = (
    Key("name", values.table_name, '"access"', "the table that queries read FROM; one per node", reloads=True),
    Key("paths", values.paths, "", "files, or globs that name them and their rotated copies, compressed ones too",
        '["/var/log/nginx/access.log*"]', reloads=True),
    Key("format", values.log_format, '"combined"',
        "a name of `elfstream formats`, or the server's own log_format or LogFormat string", reloads=True),
    Key("server_config", values.path, "",
        "the server's main file, if `format` is the name of a format in it",
        '"/etc/nginx/nginx.conf"', reloads=True),
    Key("read_from", one_of("end", "beginning"), '"end"',
        "where a file that is there already is begun, when it is first seen: end or beginning", reloads=True),
    Key("timezone", values.text, "", "of times that are logged without an offset; without it UTC", '"Europe/Berlin"',
        reloads=True),
    Key("fields", values.declared_fields, "{}", "types of further keys of JSON logs; those that are not declared are STRING",
        '{ latency = "DOUBLE", "ctx.user" = "BIGINT" }', reloads=True),
)  # fmt: skip

LIMITS = (
    Key("memory_max", size(MEMORY_LEAST, 16 << 40), f'"{MEMORY_MAX}"',
        "for groups, buffers and what links hold; Python and what it loads take about 180 MiB more"),
    Key("spill_max", size(0, 1 << 50), f'"{SPILL_MAX}"', "disk in `data_dir` for groups that do not fit"),
    Key("cpu_max_cores", values.number(0.1, 4096), "", "processors that the node may use on average; without it all", "2"),
    Key("drain_max", duration(0.0, 3600.0), '"10s"', "how long a node that is told to stop goes on handing over its work",
        attribute="drain_max_s", reloads=True),
)  # fmt: skip

SECURITY = (
    Key("token_file", values.path, "", "a file with a secret that all nodes and clients share, not readable by others",
        '"/etc/elfstream/token"'),
    Key("cert", values.path, "", "for TLS, the certificate of this node and what leads to its authority, PEM",
        '"/etc/elfstream/web1.pem"'),
    Key("key", values.path, "", "for TLS, its private key, PEM, not readable by others", '"/etc/elfstream/web1.key"'),
    Key("ca", values.path, "", "for TLS, the authority that has to have signed the certificates of others, PEM",
        '"/etc/elfstream/ca.pem"'),
    Key("webhook_secret_file", values.path, "",
        "a file with the secret that signs what webhooks are sent, the same on all nodes; without it nothing is signed",
        '"/etc/elfstream/webhook"'),
    Key("webhook_hosts", values.hosts, "", "hosts that webhooks may be sent to, the same on all nodes; without it all",
        '["hooks.example.net"]'),
)  # fmt: skip

SECTIONS: dict[str, tuple[Key, ...]] = {"node": NODE, "sources": SOURCE, "limits": LIMITS, "security": SECURITY}
ABOUT = {
    "node": "Who this node is, and whom it talks to.",
    "sources": "The logs of this machine: one [[sources]] each. A node without any is a worker: it only merges.",
    "limits": "What the node may take. Sizes such as 64MiB or 1GiB, durations such as 500ms, 10s or 5m.",
    "security": "Needed as soon as `listen` is more than this machine: a token, or TLS with `ca`. Both are best.",
}


def key_of(section: str, name: str) -> Key | None:
    return next((key for key in SECTIONS[section] if key.name == name), None)


class Changes(NamedTuple):
    """What a reload makes of a new configuration."""

    config: NodeConfig
    """In force from then on."""
    changed: tuple[str, ...]
    """Keys that differ and are taken over, such as `node.log_level`, `sources.access.paths`, `sources.shop`: all of it."""
    restart: tuple[str, ...]
    """Keys that differ and need a restart; an agent that is to become a worker, or the other way round: `sources`."""


def changes(old: NodeConfig, new: NodeConfig) -> Changes:
    """O(keys)."""
    changed: list[str] = []
    restart: list[str] = []
    taken: dict[str, dict[str, Any]] = {"node": {}, "limits": {}, "security": {}}
    for section, found in taken.items():
        before, after = (one if section == "node" else getattr(one, section) for one in (old, new))
        for key in SECTIONS[section]:
            if getattr(before, key.field) != (value := getattr(after, key.field)):
                (changed if key.reloads else restart).append(f"{section}.{key.name}")
                if key.reloads:
                    found[key.field] = value
    if old.is_agent == new.is_agent:
        taken["node"]["sources"] = new.sources
        changed += _changed_sources(old, new)
    else:
        restart.append("sources")
    config = replace(old, **taken["node"], limits=replace(old.limits, **taken["limits"]))
    return Changes(config, tuple(changed), tuple(restart))


def _changed_sources(old: NodeConfig, new: NodeConfig) -> list[str]:
    before, after = ({one.name: one for one in config.sources} for config in (old, new))
    changed = []
    for name in sorted(before.keys() | after.keys()):
        if name not in before or name not in after:
            changed.append(f"sources.{name}")
            continue
        one, other = before[name], after[name]
        differ = (key.name for key in SOURCE if getattr(one, key.field) != getattr(other, key.field))
        changed += [f"sources.{name}.{key}" for key in differ]
    return changed


def effective(config: NodeConfig) -> dict[str, Any]:
    """The configuration as it would be written, for `elfstream check --json`. It holds paths of secrets, no secrets."""
    node = {key.name: _plain(getattr(config, key.field)) for key in NODE}
    limits = {
        "memory_max": size_text(config.limits.memory_max),
        "spill_max": size_text(config.limits.spill_max),
        "cpu_max_cores": config.limits.cpu_max_cores,
        "drain_max": duration_text(round(config.limits.drain_max_s * SECOND_US)),
    }
    sources = [{key.name: _plain(getattr(source, key.field)) for key in SOURCE} for source in config.sources]
    security = {key.name: _plain(getattr(config.security, key.field)) for key in SECURITY}
    return {"node": node, "sources": sources, "limits": limits, "security": security}


def _plain(value: Any) -> Any:
    if isinstance(value, Address):
        return str(value)
    return [_plain(one) for one in value] if isinstance(value, tuple) else value

