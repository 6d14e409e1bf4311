"""Making a feature file: in one process, or in shards by several.

A `FeatureJob` says what is to be made and who fills it: a network, an encoder or an import. A
`Plan` says how it is divided and who makes the parts. A shard is a fixed range of rows in a feature
file of its own, made by a process of its own and copied into the one file through its writer, so
that the bytes are those of one process. What is done stands in files: the mask of the one file says
which rows it has, a shard under its name is finished, and a half-made one has a mask.
"""

import math
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import pandas as pd

from pipeline.features.batches import RowInputs, packed_batches
from pipeline.features.feature_file import (
    FLUSH_SECONDS,
    FeatureFile,
    FeatureWriter,
    OtherBytes,
    Rows,
)
from pipeline.features.kept_rows import KeptRows, RowStore
from pipeline.features.layout import Attributes, Datasets, stored_attributes
from pipeline.runtime.code import code_digest
from pipeline.runtime.engines import Engine
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import fingerprint
from pipeline.runtime.process import Progress, end_with_input, say

CORPUS = "corpus_sha256"  # the one attribute that a shard does not share with the whole
BLOCK_BYTES = 1 << 24  # copied at a time
MAKE_AGAIN = "delete it and run the same command: this shard alone is made again"


@dataclass(frozen=True)
class Plan:
    """How a feature file is divided, and who makes the parts."""

    size: int | None  # rows of a shard, None for no shards
    batch: int  # rows that are computed together: shards hold whole batches, for the same bits
    table: pd.DataFrame  # of the images or captions, a row for each of the file's
    digest: Callable[[pd.DataFrame], str]  # of rows to the `corpus_sha256` of a file of them
    module: str  # that is run to make a shard, a stage with the option --rows
    paths: Mapping[str, Path | None]  # its other options, None for those that were not given
    engine: Engine
    store: RowStore  # of rows of earlier runs
    unit: str = "images"

    def ranges(self, count: int) -> list[range]:
        """The rows of each shard of a file of `count` rows."""
        size = math.ceil((self.size or count) / self.batch) * self.batch
        return [range(start, min(start + size, count)) for start in range(0, count, size)]

    def command(self, shard: "FeatureShard") -> list[str]:
        """The command that makes a shard, as words."""
        paths = {name: path for name, path in self.paths.items() if path} | {"output": shard.path}
        options = [word for name, path in paths.items() for word in (f"--{name}", str(path))]
        rows = ["--rows", str(shard.rows.start), str(shard.rows.stop)]
        return [sys.executable, "-m", self.module, *options, *rows]


@dataclass(frozen=True, kw_only=True)
class FeatureRows:
    """The rows of a feature file that is to be made, and what their bytes depend on."""

    ids: Sequence[str]
    datasets: Datasets
    attributes: Attributes
    machine: Sequence[object]  # what else the values depend on, JSON-able
    inputs: RowInputs | None = None  # of the rows; None where they depend on the whole corpus

    def kept(self, store: RowStore | None) -> KeptRows | None:
        """Rows that an earlier run has, of a store or of none; None where there are none."""
        if store is None or self.inputs is None:
            return None
        return store.find(self._row_key, self.inputs, self.datasets)

    def keep(self, store: RowStore, output: Path, checksums: Rows) -> None:
        """Keep the rows for later runs.

        Args:
            store: of rows of earlier runs.
            output: the finished file.
            checksums: (N,) CRC-32 of its rows.
        """
        if self.inputs is not None:
            store.keep(self._row_key, self.inputs, output, checksums)

    def key(self, attributes: Attributes) -> str:
        """The name of unfinished work: a digest of all that the values depend on."""
        machine = list(self.machine)
        return fingerprint(attributes=attributes, source=code_digest(), machine=machine)

    @cached_property
    def _row_key(self) -> str:
        """The name of rows in a store: a digest of all that they depend on but their input. The
        code is that which is loaded before the first row is computed."""
        attributes = {name: value for name, value in self.attributes.items() if name != CORPUS}
        kinds = {name: [shape, np.dtype(kind).str] for name, (shape, kind) in self.datasets.items()}
        return fingerprint(
            attributes=attributes, datasets=kinds, source=code_digest(), machine=list(self.machine)
        )


def fill_around(
    fill: Callable[[], None], files: Sequence[tuple[FeatureWriter, KeptRows | None]]
) -> bool:
    """Compute the rows that an earlier run does not have, then copy its own.

    Args:
        fill: computes, and some of the rows that the earlier run has, too.
        files: what it writes, and the rows of each that the earlier run has.

    Returns:
        False, and nothing is written, where one of these rows has other bytes now.
    """
    try:
        fill()
        for writer, kept in files:
            for rows, values in kept.blocks(list(writer.datasets)) if kept else ():
                writer.write(rows, **values)
    except OtherBytes:
        say("rows of an earlier run are not used: some have other bytes now")
        for writer, _ in files:
            writer.start_again()
        return False
    return True


@dataclass(frozen=True, kw_only=True)
class FeatureJob(FeatureRows):
    """A feature file that is to be made, whoever fills it."""

    fill: Callable[[FeatureWriter], None]  # writes the missing rows

    @property
    def width(self) -> int:
        """Values of a feature."""
        return self.datasets["features"][0][-1]

    def make(self, work: Path, output: Path, plan: Plan, is_shard: bool = False) -> None:
        """Make the file, of shards where the plan has any; what was killed is continued.

        Args:
            work: folder for unfinished work.
            output: the file.
            plan: how it is divided.
            is_shard: whether this process makes one of the shards, and `output` is its file.

        Raises:
            WorkbenchError: for values that cannot be stored, and for a shard that fails.
        """
        if is_shard:
            self._write_shard(output, plan.store)
        elif plan.size is None:
            checksums = self.write(work, output, plan.store)
            self.keep(plan.store, output, checksums)
        else:
            self._write_in_shards(work, output, plan)

    def write(self, work: Path, output: Path, store: RowStore | None = None) -> Rows:
        """Make the file in this process; what was killed is continued.

        Args:
            work: folder for unfinished work.
            output: the file.
            store: of rows of earlier runs, None for no use of them.

        Returns:
            (N,) CRC-32 of the rows.

        Raises:
            WorkbenchError: for values that cannot be stored.
        """
        with self._writer(work, self.key(self.attributes)) as writer:
            kept = self.kept(store)
            if kept is None or not self._fill_around(kept, writer):
                self.fill(writer)
            writer.finish(output)
        return writer.checksums

    def _fill_around(self, kept: KeptRows, writer: FeatureWriter) -> bool:
        assert self.inputs is not None, "rows are found by their inputs"
        say(f"reused {len(kept.rows):,} of {len(self.ids):,} rows of an earlier run")
        missing = np.setdiff1d(writer.missing, kept.rows)
        writer.expect(kept.rows, kept.checksums, packed_batches(missing, self.inputs))
        return fill_around(partial(self.fill, writer), [(writer, kept)])

    def _write_shard(self, output: Path, store: RowStore) -> None:
        end_with_input()
        if output.stem != self.key(self.attributes):
            raise WorkbenchError(
                f"{output}: this process would make other values than the one that asked for them",
                "processes of an extraction need the same params.yaml, tables, weights, code, "
                "libraries and processor",
            )
        work = output.with_suffix("")
        self.write(work, output, store)
        shutil.rmtree(work)

    def _write_in_shards(self, work: Path, output: Path, plan: Plan) -> None:
        folder = work / "shards"
        shards = [self._shard(rows, folder, plan) for rows in plan.ranges(len(self.ids))]
        # A flush saves the mask of all rows: one per shard, whose file stays until then, is enough.
        with self._writer(work, self.key(self.attributes), math.inf) as writer:
            is_missing = np.zeros(len(self.ids), bool)
            is_missing[writer.missing] = True
            left = [one for one in shards if is_missing[one.rows.start : one.rows.stop].any()]
            finished = [shard for shard in left if shard.path.is_file()]
            wanted = {shard.name: shard for shard in left if not shard.path.is_file()}
            workers = plan.engine.workers
            idle = workers - len(wanted)
            say(
                f"{len(shards):,} shards, {len(shards) - len(wanted):,} of them finished before, "
                f"{workers:,} workers"
                + (f"; {idle:,} of these have nothing to do" if idle > 0 else "")
            )
            done = len(self.ids) - sum(len(shard.rows) for shard in left)
            with Progress("shards", len(self.ids), plan.unit, done) as progress:
                for shard in finished:
                    progress.update(shard.move_into(writer))
                commands = {name: plan.command(shard) for name, shard in wanted.items()}
                for name in plan.engine.run(commands):
                    progress.update(wanted[name].move_into(writer))
            writer.finish(output)
        self.keep(plan.store, output, writer.checksums)
        # What a kill left: a file whose rows were copied, the folder of a finished shard's work.
        for shard in shards:
            shard.path.unlink(missing_ok=True)
            shutil.rmtree(shard.path.with_suffix(""), ignore_errors=True)
        with suppress(OSError):  # there are others, of other settings
            folder.rmdir()

    def _writer(self, work: Path, key: str, flush_seconds: float = FLUSH_SECONDS) -> FeatureWriter:
        return FeatureWriter(work, key, self.ids, self.datasets, self.attributes, flush_seconds)

    def _shard(self, rows: range, folder: Path, plan: Plan) -> "FeatureShard":
        attributes = {**self.attributes, CORPUS: plan.digest(plan.table[rows.start : rows.stop])}
        return FeatureShard(rows, folder / f"{self.key(attributes)}.h5", attributes)


@dataclass(frozen=True)
class FeatureShard:
    """A part of a feature file, in a file of its own."""

    rows: range  # of the whole
    path: Path  # of its file once it is finished, named after all that its values depend on
    attributes: Attributes

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"shard of rows {self.rows.start} to {self.rows.stop - 1}"

    def move_into(self, writer: FeatureWriter) -> int:
        """Copy its rows into the whole, then remove its file; returns their number. Raises
        WorkbenchError when the file is missing, damaged, or not of these rows."""
        file = self._checked_file(writer)
        row_bytes = sum(file.layouts[name].nbytes for name in writer.datasets) // len(file)
        block = max(1, BLOCK_BYTES // max(row_bytes, 1))
        for start in range(0, len(file), block):
            part = np.arange(start, min(start + block, len(file)))
            arrays = {name: file.read(part, name) for name in writer.datasets}
            writer.write(part + self.rows.start, **arrays)
        writer.flush()
        self.path.unlink()
        return len(file)

    def _checked_file(self, writer: FeatureWriter) -> FeatureFile:
        if not self.path.is_file():
            raise WorkbenchError(
                f"{self.name}: {self.path} is missing, though its process came to its end",
                "machines that share an extraction need the same folder under the same path",
            )
        file = FeatureFile(self.path)
        for key, value in stored_attributes(self.attributes).items():
            found = file.attributes.get(key)
            if found != value:
                fault = f"its {key} is {str(found)[:40]}, not {str(value)[:40]}"
                raise WorkbenchError(f"{self.path}: not the {self.name}: {fault}", MAKE_AGAIN)
        for name in writer.datasets:
            file.verify(name)
        return file
