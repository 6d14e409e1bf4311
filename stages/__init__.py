"""One module per DVC stage: read params, call pipeline and models, write."""

import os
import signal
import sys
from types import FrameType

from pipeline.runtime.kernels import fix_kernels

HELP_OPTIONS = {"help_option_names": ["--help", "-h"]}


def end_at_once(number: int, frame: FrameType | None) -> None:
    """Leave with the exit code of an interrupted program."""
    os.write(2, b"error: interrupted; run the same command to continue\n")
    os._exit(130)


def leave_on_interrupt() -> None:
    """Let Ctrl-C end this process at once, without the traceback of an import.

    Loading libraries takes seconds and has nothing to tidy up.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, end_at_once)


def catch_interrupts() -> None:
    """Make Ctrl-C a KeyboardInterrupt again, as a command expects it that has begun."""
    if signal.getsignal(signal.SIGINT) is end_at_once:
        signal.signal(signal.SIGINT, signal.default_int_handler)


fix_kernels(os.environ)  # before a stage loads numpy
if sys.argv[:1] == ["-m"]:  # `python -m stages.<name>`, while the name is sought
    leave_on_interrupt()
