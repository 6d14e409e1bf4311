"""What a fitted sentence encoder is made of, in a form that can be stored and inspected."""

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class State:
    """settings: JSON-able values; words: what the rows of per-word arrays belong to; arrays: by
    name. An encoder restored from its state gives the same bytes."""

    settings: dict[str, Any]
    words: list[str]
    arrays: dict[str, np.ndarray]
