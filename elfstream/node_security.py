"""What a node's [security] section means for its sockets: the token, and TLS for both directions."""

from __future__ import annotations

import ssl

from elfstream.certs import dial_context, server_context
from elfstream.config.model import SecurityConfig
from elfstream.config.secrets import read_token, read_webhook_secret
from elfstream.event_log import hide
from srt.peer_options import PeerAuth


class Security:
    """Reads the files when it is made. Raises SecretError, ssl.SSLError, OSError."""

    def __init__(self, config: SecurityConfig) -> None:
        self.token = "" if config.token_file is None else read_token(config.token_file)
        hide(self.token)
        self.webhook_secret = b""
        if config.webhook_secret_file is not None:
            self.webhook_secret = read_webhook_secret(config.webhook_secret_file)
            hide(read_token(config.webhook_secret_file))
        self.webhook_hosts = None if config.webhook_hosts is None else frozenset(config.webhook_hosts)
        self.server_tls: ssl.SSLContext | None = None
        """Of the port; asks browsers and peers for certificates where there is an authority, requires them of peers."""
        self.client_tls: ssl.SSLContext | None = None
        """For asking other nodes."""
        if config.cert is not None and config.key is not None:
            self.server_tls = server_context(config.cert, config.key, config.ca)
            self.client_tls = dial_context(config.cert, config.key, config.ca)
        self.peer_auth = PeerAuth(
            self.token.encode("ascii"), self.client_tls, config.has_tls and config.ca is not None
        )
