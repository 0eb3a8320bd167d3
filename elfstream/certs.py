"""A small authority for one fleet, and certificates of its nodes; and how they are used on links."""

from __future__ import annotations

import ipaddress
import re
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from srt.data_dir import write_whole

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

AUTHORITY = "ca"
NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
HOSTS_MAX = 64
SKEW = timedelta(hours=1)
"""Certificates count from so long ago, for nodes whose clock is late."""


class CertsError(Exception):
    """Certificates cannot be made as asked. `str(error)` is fit to be shown."""


def make_authority(directory: Path, days: int, now: datetime | None = None) -> tuple[Path, Path]:
    """A new authority: certificate and key. CertsError when there is one: its certificates would be void."""
    x509, _ = _cryptography()
    certificate, key_file = directory / f"{AUTHORITY}.pem", directory / f"{AUTHORITY}.key"
    for path in (certificate, key_file):
        if path.exists():
            raise CertsError(f"{path} exists: a new authority makes all certificates of the old one void")
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = _new_key()
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "elfstream fleet authority")])
    made = (
        _builder(name, name, key, days, now or datetime.now(UTC))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    _write(key_file, certificate, key, _signed(made, key))
    return certificate, key_file


def make_node(
    directory: Path, name: str, hosts: list[str], days: int, renew: bool = False, now: datetime | None = None
) -> tuple[Path, Path]:
    """Certificate and key of a node that others reach at `hosts` (names or addresses), signed by the authority in
    `directory`. CertsError: no authority, a bad name, or the node has one and `renew` is not said."""
    x509, serialization = _cryptography()
    if not NODE_NAME.fullmatch(name) or name == AUTHORITY:
        raise CertsError(
            f"{name!r} is no name for a node's files: letters, digits, '.', '_' and '-', and not 'ca'"
        )
    if not 1 <= len(hosts) <= HOSTS_MAX:
        raise CertsError(f"{name} has {len(hosts)} hosts, and needs 1 to {HOSTS_MAX}")
    certificate, key_file = directory / f"{name}.pem", directory / f"{name}.key"
    if not renew and (certificate.exists() or key_file.exists()):
        raise CertsError(f"{certificate} exists: say --renew to replace it")
    try:
        authority = x509.load_pem_x509_certificate((directory / f"{AUTHORITY}.pem").read_bytes())
        signing = serialization.load_pem_private_key((directory / f"{AUTHORITY}.key").read_bytes(), None)
    except (OSError, ValueError, TypeError) as error:
        raise CertsError(f"the authority in {directory} cannot be used: {error}") from error
    key = _new_key()
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    usages = [x509.ExtendedKeyUsageOID.SERVER_AUTH, x509.ExtendedKeyUsageOID.CLIENT_AUTH]
    issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key())
    made = (
        _builder(subject, authority.subject, key, days, now or datetime.now(UTC))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(x509.SubjectAlternativeName([_alternative(host) for host in hosts]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(issuer_key, critical=False)
    )
    _write(key_file, certificate, key, _signed(made, signing))
    return certificate, key_file


def server_context(cert: str, key: str, ca: str | None) -> ssl.SSLContext:
    """For the one port of a node. With `ca`, nodes show a certificate of it; browsers get in without one, and the links
    themselves refuse who has none. OSError or ssl.SSLError: a file cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(cert, key)
    if ca is not None:
        context.load_verify_locations(ca)
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def dial_context(cert: str, key: str, ca: str | None) -> ssl.SSLContext:
    """For dialling other nodes. Without `ca`, certificates that the system trusts are accepted."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if ca is None:
        context.load_default_certs()
    else:
        context.load_verify_locations(ca)
    context.load_cert_chain(cert, key)
    return context


def _cryptography() -> tuple[Any, Any]:
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import serialization
    except ImportError:
        raise CertsError(
            "making certificates needs the package cryptography: pip install 'elfstream[tls]'"
        ) from None
    return x509, serialization


def _new_key() -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _builder(
    subject: x509.Name, issuer: x509.Name, key: EllipticCurvePrivateKey, days: int, now: datetime
) -> x509.CertificateBuilder:
    from cryptography import x509

    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + timedelta(days=days))
    )


def _usage(signs_certificates: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _alternative(host: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        pass
    try:
        return x509.DNSName(host)
    except ValueError as error:
        raise CertsError(f"{host!r} is no host name or address: {error}") from error


def _signed(made: x509.CertificateBuilder, key: EllipticCurvePrivateKey) -> x509.Certificate:
    from cryptography.hazmat.primitives import hashes

    return made.sign(key, hashes.SHA256())


def _write(key_file: Path, file: Path, key: EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
    from cryptography.hazmat.primitives import serialization as form

    private = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    write_whole(key_file, private, mode=0o600)
    write_whole(file, certificate.public_bytes(form.Encoding.PEM), mode=0o644)
