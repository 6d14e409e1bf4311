"""What a file of one vector per row will hold, whoever fills it: a network or an import."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pipeline.storage.layout import Datasets
from pipeline.storage.writer import FeatureWriter


@dataclass(frozen=True)
class VectorJob:
    """What a file of vectors will hold, and how it is filled.

    Attributes:
        width: D of a vector.
        dtype: of the stored values.
        attributes: of the file.
        machine: what else its values depend on.
        fill: writes the missing rows.
    """

    width: int
    dtype: str
    attributes: dict[str, str | int | float]
    machine: list[Any]
    fill: Callable[[FeatureWriter], None]

    @property
    def datasets(self) -> Datasets:
        """Of the file, as its writer takes them."""
        return {"features": ((self.width,), self.dtype)}
