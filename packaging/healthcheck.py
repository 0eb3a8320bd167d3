"""Whether the node of a configuration file answers: exit code 0 or 1, for the HEALTHCHECK of a container.

    python healthcheck.py /etc/elfstream/node.toml

It asks /healthz, which needs no token, at the port that file and environment say, over TLS where the node has it.
"""

from __future__ import annotations

import ssl
import sys
import urllib.error
import urllib.request

from elfstream.config import ConfigError, NodeConfig, load

WAIT_S = 4.0


def url_of(config: NodeConfig) -> str:
    """From beside the node: a wildcard is reached on loopback."""
    listen = config.listen
    if listen.is_wildcard:
        listen = listen._replace(host="::1" if ":" in listen.host else "127.0.0.1")
    return f"{'https' if config.security.has_tls else 'http'}://{listen}/healthz"


def main(file: str) -> int:
    """The exit code; a reason goes to standard error, which `podman inspect` shows."""
    # It is told over a connection that never leaves the container; the certificate names the host, not loopback.
    unverified = ssl.create_default_context()
    unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
    try:
        with urllib.request.urlopen(url_of(load(file)), timeout=WAIT_S, context=unverified) as answer:
            return 0 if answer.status == 200 else 1
    except (ConfigError, urllib.error.URLError, OSError) as problem:
        print(problem, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
