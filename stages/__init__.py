"""One thin module per DVC stage: read params, call pipeline and models, write."""

import os
import signal
import sys
from types import FrameType

from pipeline.runtime.kernels import configured, fix_kernels


def end_at_once(number: int, frame: FrameType | None) -> None:
    """Leave with the exit code of an interrupted program."""
    os.write(2, b"error: interrupted; run the same command to continue\n")
    os._exit(130)


KERNELS = configured()
NOT_USED = fix_kernels(os.environ, KERNELS)  # before a stage loads numpy or torch
# Loading libraries takes seconds and has nothing to tidy up: Ctrl-C ends it at once, without the
# traceback of an import. Only for `python -m stages.<name>`, as the name says while it is sought.
if sys.argv[:1] == ["-m"] and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, end_at_once)


def catch_interrupts() -> None:
    """Make Ctrl-C a KeyboardInterrupt again, as a stage expects it that has begun."""
    if signal.getsignal(signal.SIGINT) is end_at_once:
        signal.signal(signal.SIGINT, signal.default_int_handler)
