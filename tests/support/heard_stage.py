"""`python -m heard_stage NAME ...`: a stage, which also prints what its processes say: of those
that end well the stage itself prints nothing."""

import runpy
import sys

import stages  # noqa: F401 - before torch, as the stage does
from pipeline.runtime import engines

_ended = engines.Running.ended


def ended(running: engines.Running) -> tuple[int, str]:
    status, text = _ended(running)
    print(text, file=sys.stderr, flush=True)
    return status, text


engines.Running.ended = ended  # type: ignore[method-assign]
name = sys.argv.pop(1)
runpy.run_module(f"stages.{name}", run_name="__main__", alter_sys=True)
