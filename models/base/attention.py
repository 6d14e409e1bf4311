"""Models that can be asked what they attended to."""

from collections.abc import Callable
from typing import Any

from models.base.registry import required


def attention_of(name: str) -> Callable[..., Any]:
    """`attention(checkpoint, inputs, device, split)` of a model; WorkbenchError if it has none."""
    problem = "model {name!r} has no attention; {able} have"
    return required(name, "attention", "attention", problem)
