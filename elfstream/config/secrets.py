"""The shared token: read where it is used, never kept in a configuration."""

from __future__ import annotations

import base64
import os
import stat

TOKEN_LEAST = 16
TOKEN_MOST = 4096
HOW = "Make one:  (umask 077; head -c 32 /dev/urandom | base64 > {})"


class SecretError(Exception):
    """A secret that cannot be used; says why. `advice` says what to do."""

    def __init__(self, message: str, advice: str) -> None:
        self.message, self.advice = message, advice
        super().__init__(f"{message}. {advice}")


def read_token(file: str) -> str:
    """The token in `file`, without blanks around it: one word of 16 to 4096 visible ASCII characters. Raises SecretError."""
    data = _private_bytes(file, TOKEN_MOST + 2)
    try:
        token = data.decode("ascii").strip()
    except UnicodeDecodeError:
        raise SecretError(f"the token in {file} is not ASCII", HOW.format(file)) from None
    if not TOKEN_LEAST <= len(token) <= TOKEN_MOST:
        raise SecretError(
            f"the token in {file} has {len(token)} characters, not {TOKEN_LEAST} to {TOKEN_MOST}", HOW.format(file)
        )
    if not token.isprintable() or " " in token:
        raise SecretError(f"the token in {file} is more than one word", HOW.format(file))
    return token


def read_webhook_secret(file: str) -> bytes:
    """What signs webhooks: a word as `read_token` takes it; behind `whsec_` it is base64 of the key, as Standard Webhooks
    has it. Raises SecretError."""
    word = read_token(file)
    if not word.startswith("whsec_"):
        return word.encode("ascii")
    try:
        return base64.b64decode(word.removeprefix("whsec_"), validate=True)
    except ValueError:
        raise SecretError(f"what follows whsec_ in {file} is no base64", HOW.format(file)) from None


def check_private(file: str) -> None:
    """Raises SecretError unless `file` can be read by us, and not by everybody."""
    _private_bytes(file, 1)


def _private_bytes(file: str, most: int) -> bytes:
    try:
        with open(file, "rb", opener=_opened) as opened:
            found = os.fstat(opened.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise SecretError(f"{file} is no file", "Name a regular file.")
            if found.st_mode & stat.S_IRWXO:
                raise SecretError(f"everybody on this machine may use {file}", f"Run:  chmod o= {file}")
            return opened.read(most)
    except FileNotFoundError:
        raise SecretError(f"there is no file {file}", HOW.format(file)) from None
    except PermissionError:
        raise SecretError(
            f"{file} may not be read by the user {os.geteuid()}",
            f"Give it to the group of the service:  chgrp elfstream {file}; chmod 640 {file}",
        ) from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise SecretError(f"{file} cannot be read: {why}", "Name another file.") from None


def _opened(file: str, flags: int) -> int:
    return os.open(file, flags | os.O_NONBLOCK)  # a pipe without a writer must not hold us
