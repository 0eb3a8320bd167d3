"""What a node's [security] section means for its sockets: the token, and TLS for both directions."""

from __future__ import annotations

import ssl

from elfstream.config.model import SecurityConfig
from elfstream.config.secrets import read_token
from elfstream.event_log import hide
from srt.peer_options import PeerAuth


class Security:
    """Reads the files when it is made. Raises SecretError, ssl.SSLError, OSError."""

    def __init__(self, config: SecurityConfig) -> None:
        self.token = "" if config.token_file is None else read_token(config.token_file)
        hide(self.token)
        self.server_tls: ssl.SSLContext | None = None
        """Of the port; asks browsers and peers for certificates where there is an authority, requires them of peers."""
        self.client_tls: ssl.SSLContext | None = None
        """For asking other nodes."""
        if config.has_tls:
            assert config.cert is not None
            self.server_tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=config.ca)
            self.server_tls.load_cert_chain(config.cert, config.key)
            self.client_tls = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=config.ca)
            if config.ca is not None:
                self.server_tls.verify_mode = ssl.CERT_OPTIONAL
                self.client_tls.load_cert_chain(config.cert, config.key)
        self.peer_auth = PeerAuth(
            self.token.encode("ascii"), self.client_tls, config.has_tls and config.ca is not None
        )
