"""`python -m elfstream.demo.bound PARENT ARGUMENT...`: `elfstream ARGUMENT...`, ended when the process PARENT ends, however
that comes about. Linux only; elsewhere it is `elfstream` and nothing more."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

from elfstream.__main__ import main

PR_SET_PDEATHSIG = 1
"""prctl(2): the signal that is sent to this process when its parent ends."""


def bind(parent: int) -> bool:
    """Whether the parent was still there when the signal was asked for."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    return os.getppid() == parent


if __name__ == "__main__" and bind(int(sys.argv[1])):
    sys.argv = ["elfstream", *sys.argv[2:]]
    main()
