"""What a fitted sentence encoder is made of, in a form that can be stored and inspected."""

from dataclasses import dataclass
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
