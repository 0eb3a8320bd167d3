"""A command's conversation with a fleet: which nodes answer, and what to say when the fleet refuses.

Every failure becomes a `FleetError`: one plain message that says what to do, and the exit code.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from urllib.parse import urlsplit

import click

from master.asking import PORT, URL

if TYPE_CHECKING:
    import ssl

    from elfstream.client import AsyncClient
    from elfstream.client_errors import ApiError, ResultsLostError
    from elfstream.client_sync import Client

FAILED, USAGE = 1, 2
START = (
    "Start one with 'elfstream node -c node.toml' ('elfstream check --example' prints such a file), or say where one is "
    "with --url or ELFSTREAM_URL."
)
NAMES_SHOWN = 8
RANGE = ("from", "to", "start")
"""Members of requests that are options of the same name."""

T = TypeVar("T")
Work = Callable[["AsyncClient"], Awaitable[T]]


class FleetError(click.ClickException):
    """The message is whole: it says what to do next."""

    exit_code: int  # type: ignore[misc]  # the base has one for all

    def __init__(self, message: str, exit_code: int = FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Fleet(NamedTuple):
    """Where a fleet is, and how one is let in; as the options of a command have it."""

    urls: tuple[str, ...]
    token_file: str | None = None
    cacert: str | None = None
    cert: str | None = None
    key: str | None = None

    def run(self, work: Work[T], *, job: str = "", sql: str = "", patience_s: float | None = None) -> T:
        """What `work` gives, with a client of nodes that answer. `job` and `sql` are those that it asks about, for messages.
        Raises FleetError."""
        import asyncio

        return asyncio.run(self.ask(work, job=job, sql=sql, patience_s=patience_s))

    async def ask(self, work: Work[T], *, job: str = "", sql: str = "", patience_s: float | None = None) -> T:
        """As `run`, inside a loop."""
        from elfstream.client import PATIENCE_S, connect_async
        from elfstream.client_errors import ApiError, ResultsLostError, UnreachableError

        token, tls = self._token(), self._tls()
        urls = await _answering(self._addresses(), token, tls)
        patience_s = PATIENCE_S if patience_s is None else patience_s
        async with connect_async(urls, token=token, tls=tls, patience_s=patience_s) as client:
            try:
                return await work(client)
            except ApiError as error:
                if error.kind == "unknown" and job and error.field != "agent":
                    raise FleetError(await _unknown(client, job)) from None
                raise refused(error, job, sql) from None
            except UnreachableError as error:
                raise FleetError(f"no node answers any more: {reason(error)}") from None
            except ResultsLostError as error:
                raise _lost(error) from None

    def connect(self) -> Client:
        """A client for code that blocks; errors are those of the client. Raises FleetError for options that are wrong."""
        from elfstream.client_sync import connect

        return connect(self._addresses(), token=self._token(), tls=self._tls())

    def _addresses(self) -> list[str]:
        scheme = "https" if self.cacert or self.cert else "http"
        return [_address(url, scheme) for url in self.urls]

    def _token(self) -> str | None:
        if self.token_file is None:
            return None
        from elfstream.config.secrets import SecretError, read_token

        try:
            return read_token(self.token_file)
        except SecretError as error:
            raise FleetError(f"--token-file: {error}", USAGE) from None

    def _tls(self) -> ssl.SSLContext | None:
        if self.key is not None and self.cert is None:
            raise FleetError("--key is the key of a certificate; name that with --cert", USAGE)
        for option, file in (("--cacert", self.cacert), ("--cert", self.cert), ("--key", self.key)):
            if file is not None and not Path(file).is_file():
                raise FleetError(
                    f"{option}: there is no file {file}; 'elfstream certs' makes certificates", USAGE
                )
        if self.cacert is None and self.cert is None:
            return None
        import ssl

        try:
            context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=self.cacert)
            if self.cert is not None:
                context.load_cert_chain(self.cert, self.key)
        except (OSError, ValueError) as error:  # an SSLError is an OSError
            files = " ".join(file for file in (self.cacert, self.cert, self.key) if file)
            raise FleetError(f"certificates cannot be used: {error} ({files})", USAGE) from None
        return context


def _address(given: str, scheme: str) -> str:
    """web1 and web1:7217, as nodes are named in configurations, as addresses; those stay. Raises FleetError."""
    try:
        parts = urlsplit(given if "://" in given else f"{scheme}://{given}")
        port, sound = parts.port, parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:  # a port that is none
        port, sound = None, False
    if not sound:
        raise FleetError(f"--url {given}: this is no address of a node; write one like {URL}", USAGE)
    is_bare = "://" not in given and port is None and not parts.path
    return f"{parts.geturl()}:{PORT}" if is_bare else parts.geturl()


async def _answering(urls: list[str], token: str | None, tls: ssl.SSLContext | None) -> list[str]:
    """`urls`, one that answers first. Nothing is asked twice: where nobody listens people are told at once."""
    from elfstream.client import connect_async
    from elfstream.client_errors import ApiError, UnreachableError

    problems, is_there = [], False
    for at, url in enumerate(urls):
        try:
            async with connect_async(url, token=token, tls=tls, patience_s=0.0) as client:
                await client.ask("GET", "/healthz")
            return [*urls[at:], *urls[:at]]
        except ValueError as error:
            raise FleetError(f"--url {url}: {error}", USAGE) from None
        except (ApiError, UnreachableError) as error:
            guarded = _guarded(url, reason(error))
            is_there = is_there or bool(guarded)
            problems.append(guarded or _unanswered(url, error))
    raise FleetError("\n".join(problems if is_there else [*problems, START]))


def reason(error: Exception) -> str:
    """What an error says, without what aiohttp says of itself."""
    text = re.sub(r"Cannot connect to host \S+ \S+ \[(.*)\]", r"\1", str(error))
    return re.sub(r"(Connect call failed|Multiple exceptions).*", "nobody listens there", text)


def _guarded(url: str, text: str) -> str:
    """What a node wants that is there but does not let us in; empty: nobody knows of one."""
    if "is not valid for" in text:
        return f"{url} has a certificate for another name: ask at the name or address that it was made for."
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return f"{url} has a certificate that is not trusted here: name the fleet's authority with --cacert."
    if "CERTIFICATE_REQUIRED" in text or "HANDSHAKE_FAILURE" in text:
        return f"{url} wants a certificate: name one with --cert and --key."
    if "WRONG_VERSION_NUMBER" in text or "RECORD_LAYER_FAILURE" in text:
        return f"no node answers at {url}: it speaks no TLS. Does it want http?"
    return ""


def _unanswered(url: str, error: Exception) -> str:
    text, hint = reason(error).removeprefix(f"{url}: "), ""
    if "disconnected" in text or "reset by peer" in text:
        has_tls = url.startswith("https:")
        hint = " Is the certificate of --cert of the fleet's authority?" if has_tls else " Does it want https?"
    return f"no node answers at {url}: {text}.{hint}"


async def _unknown(client: AsyncClient, job: str) -> str:
    """That there is no such job, and which one may have been meant."""
    names = [one["name"] for one in await client.jobs()]
    near = difflib.get_close_matches(job, names, n=1, cutoff=0.5)
    if near:
        return f"there is no job {job}; did you mean {near[0]}?"
    if not names:
        return f"there is no job {job}, nor any other; 'elfstream job submit' makes one"
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return f"there is no job {job}; the fleet has {', '.join(names[:NAMES_SHOWN])}{more}"


def refused(error: ApiError, job: str = "", sql: str = "") -> FleetError:
    """What to say about a request that the fleet refused."""
    if error.kind == "sql":
        from job.errors import SqlError

        position = error.position if sql and error.field == "sql" else None
        return FleetError(str(SqlError(error.detail, sql, position, error.advice)), USAGE)
    if error.kind == "stale":
        advice = f"'elfstream job changes {job}' shows its revisions. Leave --revision out to change the current one."
        return FleetError(f"job {job} has changed since: {error.detail}. {advice}")
    if error.kind == "exists":
        advice = f"'elfstream job update {job}' changes it, 'elfstream job show {job}' shows it."
        return FleetError(f"{error.detail}. {advice}")
    if error.kind == "unauthorized":
        return FleetError(
            f"{error.detail}. Name the file with the fleet's token: --token-file or ELFSTREAM_TOKEN_FILE."
        )
    if error.status in (400, 413, 422):
        return FleetError(blamed(error.field, error.detail, error.advice), USAGE)
    where = f" (node {error.node})" if error.node else ""
    return FleetError(f"{error}{where}")


def blamed(field: str | None, detail: str, advice: str | None) -> str:
    """What is wrong with a member of a request, called by the option that it came from."""
    from elfstream.client_errors import advised

    where = (field or "").replace("settings.", "--set ").replace("parameters.", "--param ")
    where = f"--{where}" if where in RANGE else where
    prefix = f"{where}: " if where not in ("", "name", "sql", "confirm") else ""
    return prefix + advised(detail, advice)


def _lost(error: ResultsLostError) -> FleetError:
    return FleetError(f"{error}. Go on with --after {error.resume}.")
