"""The command line, as `elfstream` and as `python -m elfstream`. Ctrl-C while it is imported ends it without a word."""

from __future__ import annotations

import os
import signal
from types import FrameType

INTERRUPTED = 130
"""As `elfstream.cli` has it, which is not imported yet."""


def _interrupted(_number: int, _frame: FrameType | None) -> None:
    # Nothing was begun; an exception would be told with the frames of whatever was just being imported.
    os._exit(INTERRUPTED)


def main() -> None:
    """Runs the command that the arguments name, and ends the process."""
    # Not where it is ignored, as for a job in the background of a shell.
    heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if heard:
        signal.signal(signal.SIGINT, _interrupted)
    from elfstream.cli import main as run

    if heard:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


if __name__ == "__main__":
    main()
