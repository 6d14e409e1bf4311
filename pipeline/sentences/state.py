"""What a sentence encoder is fitted on, and what a fitted one is made of, in a form that can be
stored and inspected."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True)
class State:
    """What an encoder needs to give the same bytes again.

    Attributes:
        settings: JSON-able values.
        words: what the rows of per-word arrays belong to.
        arrays: by name.
    """

    settings: dict[str, Any]
    words: list[str]
    arrays: dict[str, np.ndarray]


@dataclass(frozen=True)
class Material:
    """What an encoding is fitted on.

    Attributes:
        settings: its own part of the section `sentences`, None where it has none.
        captions: the words of each training caption.
        vocabulary: folder of the words and their vectors.
        seed: of the run.
    """

    settings: Any
    captions: Sequence[Sequence[str]]
    vocabulary: Path
    seed: int
