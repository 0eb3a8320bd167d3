"""What a service tells its manager: ready, reloading, stopping, alive. The protocol of sd_notify(3), without libsystemd.

A process that no manager waits for has a Notifier, too, that tells nobody.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping

STATUS_MAX = 1000


class Notifier:
    """Thread-safe. Every method returns whether the manager was told; a manager that is gone is no error."""

    def __init__(self, address: str | None = None, watchdog_s: float | None = None) -> None:
        self._address = address
        self.watchdog_s = watchdog_s
        """Call `alive` at least this often; None: nobody asks."""

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None, pid: int | None = None) -> Notifier:
        """As NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID say."""
        given = os.environ if environ is None else environ
        address = given.get("NOTIFY_SOCKET", "")
        if address[:1] not in ("/", "@"):
            return cls()
        whose = given.get("WATCHDOG_PID")
        is_ours = whose is None or whose == str(os.getpid() if pid is None else pid)
        interval = given.get("WATCHDOG_USEC", "")
        is_asked = is_ours and interval.isascii() and interval.isdigit() and int(interval) > 0
        # Half of it, as sd_watchdog_enabled(3) advises: one may come late.
        return cls(address, int(interval) / 2e6 if is_asked else None)

    def ready(self, status: str = "") -> bool:
        """The node answers: started, or reloaded."""
        return self._tell("READY=1", status)

    def reloading(self, status: str = "") -> bool:
        """A reload begins; `ready` ends it."""
        return self._tell(f"RELOADING=1\nMONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}", status)

    def stopping(self, status: str = "") -> bool:
        return self._tell("STOPPING=1", status)

    def alive(self) -> bool:
        """For the watchdog: call it from the place whose life matters."""
        return self._tell("WATCHDOG=1")

    def status(self, text: str) -> bool:
        """One line for `systemctl status`."""
        return self._tell("", text)

    def extend(self, seconds: float) -> bool:
        """Starting or stopping takes so much longer from now on than the manager may think."""
        return self._tell(f"EXTEND_TIMEOUT_USEC={int(seconds * 1e6)}")

    def _tell(self, state: str, status: str = "") -> bool:
        if self._address is None:
            return False
        shown = " ".join(status.split())[:STATUS_MAX]
        message = "\n".join(part for part in (state, f"STATUS={shown}" if shown else "") if part)
        where = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as one:
                one.setblocking(False)
                one.sendto(message.encode("utf-8", "backslashreplace"), where)
        except OSError:
            return False
        return True
