"""A feature file made at once, or in shards: fixed ranges of rows, each a feature file of its own.

A shard is made by a process of its own and copied into the one file through its writer, so that its
bytes are the same. What is done stands in files: the mask of the one file says which rows it has, a
shard under its name is finished, and a half-made one has a mask.
"""

import math
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.runtime.code import code_digest
from pipeline.runtime.engines import Engine
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import fingerprint
from pipeline.runtime.process import Progress, end_with_input, say
from pipeline.storage.features import FeatureFile
from pipeline.storage.layout import Attributes, Datasets, stored_attributes
from pipeline.storage.writer import FeatureWriter

if TYPE_CHECKING:  # for annotations alone
    import pandas as pd

CORPUS = "corpus_sha256"  # the one attribute that a shard does not share with the whole
BLOCK_BYTES = 1 << 24  # copied at a time
MAKE_AGAIN = "delete it and run the same command: this shard alone is made again"


@dataclass(frozen=True)
class FeatureJob:
    """A feature file that is to be made, whoever fills it: a network, an encoder or an import."""

    ids: Sequence[str]
    datasets: Datasets
    attributes: Attributes
    machine: Sequence[Any]  # what else its values depend on
    fill: Callable[[FeatureWriter], None]  # writes the missing rows

    @property
    def width(self) -> int:
        return self.datasets["features"][0][-1]

    def make(self, work: Path, output: Path, plan: "Plan", is_shard: bool = False) -> None:
        """Make the file, of shards where the plan has any; what was killed is continued. work:
        folder for unfinished work; is_shard: whether this process makes one of the shards."""
        if is_shard:
            self._write_shard(output)
        elif plan.size is None:
            self.write(work, output)
        else:
            self._write_in_shards(work, output, plan)

    def write(self, work: Path, output: Path) -> None:
        """Make the file in this process. work: folder for unfinished work."""
        self._fill(work, self._key(), output)

    def _fill(self, work: Path, key: str, output: Path) -> None:
        with self._writer(work, key) as writer:
            self.fill(writer)
            writer.finish(output)

    def _write_shard(self, output: Path) -> None:
        end_with_input()
        key, work = self._key(), output.with_suffix("")
        if output.stem != key:
            raise WorkbenchError(
                f"{output}: this process would make other values than the one that asked for them",
                "processes of an extraction need the same params.yaml, tables, weights, code, "
                "libraries and processor",
            )
        self._fill(work, key, output)
        shutil.rmtree(work)

    def _write_in_shards(self, work: Path, output: Path, plan: "Plan") -> None:
        source = code_digest()
        shards = [
            self._shard(rows, work / "shards", plan, source) for rows in plan.ranges(len(self.ids))
        ]
        # A flush saves the mask of all rows: one per shard, whose file stays until then, is enough.
        with self._writer(work, self._key(source), math.inf) as writer:
            absent = np.zeros(len(self.ids), bool)
            absent[writer.missing] = True
            left = [shard for shard in shards if absent[shard.rows.start : shard.rows.stop].any()]
            finished = [shard for shard in left if shard.path.is_file()]
            asked = {shard.name: shard for shard in left if not shard.path.is_file()}
            idle = plan.engine.workers - len(asked)
            say(
                f"{len(shards):,} shards, {len(shards) - len(asked):,} of them finished before, "
                f"{plan.engine.workers:,} workers"
                + (f"; {idle:,} of these have nothing to do" if idle > 0 else "")
            )
            done = len(self.ids) - sum(len(shard.rows) for shard in left)
            with Progress("shards", len(self.ids), plan.unit, done) as progress:
                for shard in finished:
                    progress.update(shard.move_into(writer))
                commands = {name: plan.command(shard) for name, shard in asked.items()}
                for name in plan.engine.run(commands):
                    progress.update(asked[name].move_into(writer))
            writer.finish(output)
        # What a kill left: a file whose rows were copied, the folder of a finished shard's work.
        for shard in shards:
            shard.path.unlink(missing_ok=True)
            if shard.work.exists():
                shutil.rmtree(shard.work)
        with suppress(OSError):  # there are others, of other settings
            (work / "shards").rmdir()

    def _key(self, source: str | None = None, attributes: Attributes | None = None) -> str:
        return fingerprint(
            attributes=attributes or self.attributes,
            source=source or code_digest(),
            machine=list(self.machine),
        )

    def _writer(self, work: Path, key: str, flush_seconds: float = 5.0) -> FeatureWriter:
        return FeatureWriter(work, key, self.ids, self.datasets, self.attributes, flush_seconds)

    def _shard(self, rows: range, folder: Path, plan: "Plan", source: str) -> "FeatureShard":
        attributes = {**self.attributes, CORPUS: plan.digest(plan.table[rows.start : rows.stop])}
        return FeatureShard(rows, folder / f"{self._key(source, attributes)}.h5", attributes)


@dataclass(frozen=True)
class Plan:
    """How a feature file is divided, and who makes the parts."""

    size: int | None  # rows of a shard, None for no shards
    batch: int  # rows that are computed together: shards hold whole batches, for the same bits
    table: "pd.DataFrame"
    digest: Callable[["pd.DataFrame"], str]  # of rows to the `corpus_sha256` of a file of them
    module: str  # that is run to make a shard, a stage with the option --rows
    paths: Mapping[str, Path | None]  # its other options, None for those that were not given
    engine: Engine
    unit: str = "images"

    def ranges(self, count: int) -> list[range]:
        size = -(-(self.size or count) // self.batch) * self.batch
        return [range(start, min(start + size, count)) for start in range(0, count, size)]

    def command(self, shard: "FeatureShard") -> list[str]:
        paths = {name: path for name, path in self.paths.items() if path} | {"output": shard.path}
        options = [word for name, path in paths.items() for word in (f"--{name}", str(path))]
        rows = ["--rows", str(shard.rows.start), str(shard.rows.stop)]
        return [sys.executable, "-m", self.module, *options, *rows]


@dataclass(frozen=True)
class FeatureShard:
    """A part of a feature file, in a file of its own."""

    rows: range  # of the whole
    path: Path  # of its file once it is finished, named after all that its values depend on
    attributes: Attributes

    @property
    def name(self) -> str:
        return f"shard of rows {self.rows.start} to {self.rows.stop - 1}"

    @property
    def work(self) -> Path:
        """Folder of what its process has not finished."""
        return self.path.with_suffix("")

    def move_into(self, writer: FeatureWriter) -> int:
        """Copy its rows into the whole, then remove its file; returns their number. Raises
        WorkbenchError when the file is missing, damaged, or not of these rows."""
        file = self._opened(writer)
        row_bytes = sum(file.layouts[name].nbytes for name in writer.datasets) // len(file)
        block = max(1, BLOCK_BYTES // max(row_bytes, 1))
        for start in range(0, len(file), block):
            part = np.arange(start, min(start + block, len(file)))
            arrays = {name: file.read(part, name) for name in writer.datasets}
            writer.write(part + self.rows.start, **arrays)
        writer.flush()
        self.path.unlink()
        return len(file)

    def _opened(self, writer: FeatureWriter) -> FeatureFile:
        if not self.path.is_file():
            raise WorkbenchError(
                f"{self.name}: {self.path} is missing, though its process came to its end",
                "machines that share an extraction need the same folder under the same path",
            )
        file, want = FeatureFile(self.path), stored_attributes(self.attributes)
        for key, value in want.items():
            if (have := file.attributes.get(key)) != value:
                fault = f"its {key} is {str(have)[:40]}, not {str(value)[:40]}"
                raise WorkbenchError(f"{self.path}: not the {self.name}: {fault}", MAKE_AGAIN)
        for name in writer.datasets:
            file.verify(name)
        return file
