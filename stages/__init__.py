"""One module per DVC stage: read params, call pipeline and models, write."""

import os
import signal
import sys
from pathlib import Path
from types import FrameType, TracebackType

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.kernels import configured_kernels, fix_kernels
from pipeline.runtime.registry import ROOT, syntax_problem
from pipeline.runtime.threads import shorten_waiting


def one_line(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print what a user can mend as a line, also while modules load; a bug keeps its traceback.

    It is `sys.excepthook`, which Python calls with an exception that nobody caught.

    Args:
        kind: the exception's class.
        error: the exception. WorkbenchError, and a SyntaxError in a file of this project, become a
            line; others are printed by Python.
        trace: where it was raised; None where Python does not know.
    """
    source = Path(getattr(error, "filename", None) or "")
    if isinstance(error, SyntaxError) and source.is_relative_to(ROOT):
        error = syntax_problem(error, source)
    if isinstance(error, WorkbenchError):
        print(f"error: {error}", file=sys.stderr, flush=True)
    else:
        sys.__excepthook__(kind, error, trace)


HELP_OPTIONS = {"help_option_names": ["--help", "-h"]}


def end_at_once(number: int, frame: FrameType | None) -> None:
    """End this process with a line and exit code 130, as shells do after Ctrl-C.

    Args:
        number: of the signal, SIGINT; not read, `signal.signal` asks for it.
        frame: what was running; not read either.
    """
    os.write(2, b"error: interrupted; run the same command to continue\n")
    os._exit(130)


def leave_on_interrupt() -> None:
    """Let Ctrl-C end this process at once, without the traceback of an import."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, end_at_once)


def catch_interrupts() -> None:
    """Make Ctrl-C a KeyboardInterrupt again, as a running command expects it."""
    if signal.getsignal(signal.SIGINT) is end_at_once:
        signal.signal(signal.SIGINT, signal.default_int_handler)


KERNELS = configured_kernels()
# Before a stage loads numpy or torch; in a program that has loaded torch, it has chosen already.
NOT_USED = [] if "torch" in sys.modules else fix_kernels(os.environ, KERNELS)
shorten_waiting(os.environ)
sys.excepthook = one_line
if sys.argv[:1] == ["-m"]:  # `python -m stages.<name>`, while the name is sought
    leave_on_interrupt()
