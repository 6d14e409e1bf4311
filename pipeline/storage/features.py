"""The HDF5 contract of every feature file: `ids` and datasets with a row per id."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.storage.hdf5 import (
    Layout,
    damaged,
    mapped,
    opened,
    read_attributes,
    read_layouts,
    verify,
)
from pipeline.storage.layout import SCHEMA_VERSION, Array, check_version, take_digest
from pipeline.storage.writer import FeatureWriter, write_features

__all__ = ["SCHEMA_VERSION", "FeatureFile", "FeatureWriter", "write_features"]


class FeatureFile:
    """A feature file: rows by id, random batches, or a whole dataset in memory. Values are read
    when asked for, through a memory map that every process opens for itself. sha256: digest over
    the content. WorkbenchError for a file that is missing, damaged or no feature file."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        with opened(self.path) as file:
            self.attributes = read_attributes(file)
            check_version(self.path, self.attributes)
            self.layouts = read_layouts(file, self.path)
        self._check_schema()
        self.sha256 = take_digest(self.path, self.attributes, self.layouts)
        self._values: dict[str, Array] = {}
        try:
            self.ids: list[str] = [name.decode() for name in self.load("ids").tolist()]
        except UnicodeDecodeError:
            raise damaged(self.path, "ids are not UTF-8 text") from None
        self._index = {name: row for row, name in enumerate(self.ids)}
        if len(self._index) != len(self.ids):
            raise damaged(self.path, "some ids occur more than once")

    def __len__(self) -> int:
        return len(self.ids)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_values": {}}

    def shape(self, name: str = "features") -> tuple[int, ...]:
        """(N, ...) of a dataset; WorkbenchError naming those there are when it is missing."""
        return self._layout(name).shape

    def dtype(self, name: str = "features") -> np.dtype[Any]:
        return self._layout(name).dtype

    def rows(self, ids: Sequence[str]) -> npt.NDArray[np.int64]:
        """(B,) row numbers of B ids; WorkbenchError naming those that the file does not have."""
        missing = [name for name in ids if name not in self._index]
        if missing:
            origin = ", ".join(
                f"{key} {str(self.attributes[key])[:12]}"
                for key in ("model", "corpus_sha256")
                if key in self.attributes
            )
            raise WorkbenchError(
                f"{self.path}: no row for {listing(missing, 3)}; "
                f"it has {len(self):,} ids, built from {origin or 'an unnamed source'}",
                "the file belongs to another corpus; bring it up to date with: dvc repro",
            )
        return np.fromiter((self._index[name] for name in ids), np.int64, len(ids))

    def read(self, rows: npt.ArrayLike, name: str = "features") -> Array:
        """(B, ...) a copy of some rows (B,), in the order asked for; digests are not checked."""
        chosen = np.asarray(rows, dtype=np.int64)
        if name not in self._values:
            self._values[name] = mapped(self.path, self._layout(name))
        return np.asarray(self._values[name][chosen])

    def load(self, name: str = "features") -> Array:
        """(N, ...) a whole dataset in memory, checked against its digest."""
        self.verify(name)
        return np.array(mapped(self.path, self._layout(name)))

    def in_memory(self, budget_bytes: int, name: str = "features") -> bool:
        """Whether a dataset fits the budget; if it does, `read` answers from memory from now on."""
        if self._layout(name).nbytes > budget_bytes:
            return False
        self._values[name] = self.load(name)
        return True

    def verify(self, name: str) -> None:
        """Raise WorkbenchError, naming file and dataset, unless its bytes match their digest."""
        verify(self.path, self._layout(name))

    def _layout(self, name: str) -> Layout:
        if name not in self.layouts:
            raise WorkbenchError(
                f"{self.path}: no dataset {name!r}; it has {listing(self.layouts)}"
            )
        return self.layouts[name]

    def _check_schema(self) -> None:
        if "ids" not in self.layouts or self._layout("ids").dtype.kind != "S":
            raise WorkbenchError(f"{self.path}: not a feature file: no dataset of text ids")
        counts = {layout.shape[:1] for layout in self.layouts.values()}
        if len(counts) != 1 or len(self._layout("ids").shape) != 1:
            shapes = listing(f"{name} {layout.shape}" for name, layout in self.layouts.items())
            raise damaged(self.path, f"datasets differ in their number of rows: {shapes}")
