"""What a sentence encoder is fitted on, and what a fitted one is made of, in a form to store."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True)
class State:
    """What an encoder needs to give the same bytes again."""

    settings: dict[str, Any]  # JSON-able
    words: list[str]  # what the rows of per-word arrays belong to
    arrays: dict[str, np.ndarray]


@dataclass(frozen=True)
class Material:
    """What an encoding is fitted on."""

    settings: Any  # its own part of the section `sentences`, None where it has none
    captions: Sequence[Sequence[str]]  # the words of each training caption
    vocabulary: Path  # folder of the words and their vectors
    seed: int
