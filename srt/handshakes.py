"""TLS handshakes that fail at a port: loops end such connections without a word, and no request ever comes of them."""

from __future__ import annotations

import ssl
from collections.abc import Callable


def watch_handshakes(context: ssl.SSLContext, failed: Callable[[str], None]) -> None:
    """`failed` is called with what went wrong, in the loop's thread, for each handshake under this context that either end
    broke off. Of who hangs up or says nothing there is nothing to tell."""

    class Watched(ssl.SSLObject):
        def do_handshake(self) -> None:
            try:
                super().do_handshake()
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                raise
            except ssl.SSLError as error:
                failed(_told(error))
                raise

    context.sslobject_class = Watched


def _told(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"a certificate is not trusted: {error.verify_message}"
    if error.reason in ("HTTP_REQUEST", "HTTPS_PROXY_REQUEST"):
        return "plain HTTP came, and this port has TLS"
    return error.reason or str(error)
