"""What has to hold between keys, and between a key and the file it names."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

from elfstream.config.model import NodeConfig, SourceConfig
from elfstream.config.secrets import SecretError, check_private, read_token, read_webhook_secret
from elfstream.config.toml_lines import KeyPath

Finding = tuple[KeyPath, str, str]
"""(key, what is wrong, what to do)."""


def findings(config: NodeConfig, numbers: Sequence[int], where: Callable[[KeyPath], str]) -> Iterator[Finding]:
    """Everything that contradicts itself. `numbers` are those of the sources in their keys, `where` tells a place. What
    only follows from a value that was refused is for the caller to drop."""
    yield from _addresses(config)
    yield from _security(config)
    for number, source in zip(numbers, config.sources, strict=True):
        yield from _source(number, source)
    yield from _names(config, numbers, where)


def _addresses(config: NodeConfig) -> Iterator[Finding]:
    if config.listen.is_wildcard and config.advertise is None:
        yield (
            ("node", "advertise"),
            f"listen is {config.listen}, all addresses of this machine, so others cannot know which to use",
            f'Write the one that they reach, such as advertise = "{config.name}:{config.listen.port}".',
        )


def _security(config: NodeConfig) -> Iterator[Finding]:
    security = config.security
    if not config.listen.is_loopback and not security.authenticates:
        yield (
            ("node", "listen"),
            f"{config.listen} can be reached from other machines, and nothing keeps strangers out",
            "Set [security] token_file, or cert, key and ca (elfstream certs makes them); or listen on 127.0.0.1.",
        )
    if (security.cert is None) != (security.key is None):
        given, missing = ("cert", "key") if security.cert is not None else ("key", "cert")
        yield ("security", given), f"there is a {given} without a {missing}", f"Name the {missing} file, too, or neither."
    elif security.ca is not None and not security.has_tls:
        yield ("security", "ca"), "there is a ca without cert and key", "Name the files of this node's certificate and key."
    for name, file, read in (
        ("token_file", security.token_file, read_token),
        ("webhook_secret_file", security.webhook_secret_file, read_webhook_secret),
    ):
        if file is not None:
            try:
                read(file)
            except SecretError as error:
                yield ("security", name), error.message, error.advice
    if security.key is not None:
        try:
            check_private(security.key)
        except SecretError as error:
            is_missing = error.message.startswith("there is no")
            yield (
                ("security", "key"),
                error.message,
                "Make certificates with elfstream certs, or correct the path." if is_missing else error.advice,
            )


def _source(index: int, source: SourceConfig) -> Iterator[Finding]:
    from job import formats
    from job.errors import FormatError

    path: KeyPath = ("sources", index)
    server = source.server_path
    if server is not None and not os.access(server, os.R_OK):
        message = f"{server} cannot be read" if os.path.exists(server) else f"there is no file {server}"
        yield (*path, "server_config"), message, "Name the server's main file, such as /etc/nginx/nginx.conf."
        return
    try:
        found = formats.find(source.format, server_config=server)
    except FormatError as error:
        yield (*path, "format"), _clause(error), ""
        return
    if source.timezone is not None:
        try:
            formats.in_zone(found, source.timezone)
        except FormatError as error:
            yield (*path, "timezone"), _clause(error), ""
    if source.fields:
        try:
            formats.with_fields(found, source.fields)
        except FormatError as error:
            yield (*path, "fields"), _clause(error), ""


def _clause(error: Exception) -> str:
    return str(error).rstrip(".")


def _names(config: NodeConfig, numbers: Sequence[int], where: Callable[[KeyPath], str]) -> Iterator[Finding]:
    seen: dict[str, int] = {}
    for number, source in zip(numbers, config.sources, strict=True):
        first = seen.setdefault(source.name.lower(), number)
        if first != number:
            yield (
                ("sources", number, "name"),
                f"a source is called {source.name} already, at {where(('sources', first, 'name'))}",
                "Give one of them another name, or put the paths of both into one.",
            )
