"""Whether certificate, key and authority fit together: the node shakes hands with itself, in memory."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from typing import Any, NamedTuple

from elfstream.check.finding import Finding, error, warning
from elfstream.config.model import NodeConfig

EXPIRY_S = 14 * 86400
TURNS = 10
"""TLS 1.3 takes three, 1.2 four."""
MAKE = "elfstream certs makes certificates."


class _Shaken(NamedTuple):
    """What a client saw of the certificate, or why it refused it."""

    certificate: dict[str, Any]
    refusal: ssl.SSLError | None


def check_certificates(config: NodeConfig, now_s: float) -> Iterator[Finding]:
    security = config.security
    if security.cert is None or security.key is None:
        return
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        server.load_cert_chain(security.cert, security.key, password=_no_password)
    except (OSError, ValueError) as failed:
        yield _unloaded(security.cert, security.key, failed)
        return
    if security.ca is None:
        return
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    try:
        client.load_verify_locations(security.ca)
        client.load_cert_chain(security.cert, security.key)
    except (OSError, ValueError) as failed:
        message = f"{security.ca} cannot be used: {_why(failed)}"
        yield error(("security", "ca"), message, "It has to be certificates in PEM form.")
        return
    shaken = _shake_hands(server, client)
    if shaken.refusal is not None:
        why = getattr(shaken.refusal, "verify_message", None) or _why(shaken.refusal)
        yield error(("security", "cert"), f"{security.cert} is not accepted by {security.ca}: {why}", MAKE)
        return
    yield from _expiry(shaken.certificate, security.cert, now_s)
    yield from _names(config, shaken.certificate)


def _no_password() -> str:
    """Instead of a prompt at a daemon's start."""
    raise ValueError("the key has a passphrase, which nobody is there to type")


def _unloaded(cert: str, key: str, failed: Exception) -> Finding:
    for name, file in (("cert", cert), ("key", key)):
        try:
            with open(file, "rb"):
                pass
        except OSError as unread:
            return error(("security", name), f"{file} cannot be read: {_why(unread)}", MAKE)
    if isinstance(failed, ssl.SSLError) and failed.reason == "KEY_VALUES_MISMATCH":
        return error(("security", "key"), f"{key} is not the key of {cert}", "Name the two that were made together.")
    return error(("security", "cert"), f"{cert} and {key} cannot be used: {_why(failed)}", "Both have to be in PEM form.")


def _why(failed: Exception) -> str:
    if isinstance(failed, ssl.SSLError):
        return (failed.reason or str(failed)).replace("_", " ").lower()
    return (getattr(failed, "strerror", None) or str(failed)).lower()


def _shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> _Shaken:
    """A handshake between the two, each through the other's buffer."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(TURNS):
        for end in ends:  # nothing happens at an end that is done
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError as refusal:
                return _Shaken({}, refusal)
    return _Shaken(ends[0].getpeercert() or {}, None)


def _expiry(certificate: dict[str, Any], file: str, now_s: float) -> Iterator[Finding]:
    left = ssl.cert_time_to_seconds(certificate["notAfter"]) - now_s
    if left < EXPIRY_S:
        days = max(int(left // 86400), 0)
        message = f"{file} expires in {days} {'day' if days == 1 else 'days'}"
        yield warning(("security", "cert"), message, "Make a new one in time.")


def _names(config: NodeConfig, certificate: dict[str, Any]) -> Iterator[Finding]:
    """Whether clients that check the name of whom they call will find it."""
    advertise = config.advertise
    names = [value for kind, value in certificate.get("subjectAltName", ()) if kind in ("DNS", "IP Address")]
    if advertise is None or any(_is_name(advertise.host, name) for name in names):
        return
    yield warning(
        ("security", "cert"),
        f"the certificate is for {', '.join(names) or 'no name at all'}, and this node is called at {advertise.host}",
        f"Make one with {advertise.host} among its names.",
    )


def _is_name(host: str, name: str) -> bool:
    import ipaddress

    try:
        return ipaddress.ip_address(host) == ipaddress.ip_address(name)
    except ValueError:
        pass
    host, name = host.lower().rstrip("."), name.lower()
    return host == name or (name.startswith("*.") and host.partition(".")[2] == name[2:])
