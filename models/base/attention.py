"""Models that can be asked what they attended to."""

from collections.abc import Callable
from typing import Any

from models.base.registry import models_with, offered
from pipeline.runtime.errors import WorkbenchError


def attention_of(name: str) -> Callable[..., Any]:
    """`attention(checkpoint, inputs, device, split)` of a model; WorkbenchError if it has none."""
    found = offered(name, "attention", "attention")
    if found is None:
        able = ", ".join(models_with("attention", "attention"))
        raise WorkbenchError(f"model {name!r} has no attention; {able} have")
    return found
