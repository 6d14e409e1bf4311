"""Looking into cached HDF5 files, in blocks: what is there, and whether it can be right."""

import io
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from ruamel.yaml import YAML

from pipeline.features.feature_file import FeatureFile
from pipeline.features.groups import GroupFile
from pipeline.features.hdf5 import Layout, mapped, opened, text_names, verify
from pipeline.features.layout import Array, Attributes
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.text import Values, printable

BLOCK_VALUES = 1 << 22


def open_file(path: Path) -> FeatureFile | GroupFile:
    """Open a feature file or a file of groups; WorkbenchError when it is damaged or neither."""
    with opened(path) as file:
        groups = [name for name in text_names(file) if file.get(name, getclass=True) is not None]
        flat = "ids" in groups or "schema_version" not in file.attrs
    return FeatureFile(path) if flat else GroupFile(path)


def datasets_of(file: FeatureFile | GroupFile) -> dict[str, Layout]:
    """All datasets by name, those in groups as group/name."""
    if isinstance(file, FeatureFile):
        return file.layouts
    groups = file.layouts.items()
    return {f"{group}/{name}": x for group, members in groups for name, x in members.items()}


def summary_lines(path: Path) -> Iterator[str]:
    """Lines that describe a file: datasets, attributes, value statistics, first ids."""
    file = open_file(path)
    layouts = datasets_of(file)
    ids = f"{len(file):,} ids, " if isinstance(file, FeatureFile) else ""
    yield f"{path}: {ids}{path.stat().st_size:,} bytes"
    rows: list[tuple[str, ...]] = [
        (name, str(x.shape), _type_text(x), f"contiguous at {x.offset:,}", f"{x.nbytes:,} bytes")
        for name, x in layouts.items()
    ]
    yield from _section("datasets", _aligned(rows))
    yield from _section("attributes", attribute_lines(file.attributes).splitlines())
    rows = [("", "min", "max", "mean", "std", "NaN or infinite", "zero rows")]
    for name, stats in _all_statistics(path, layouts).items():
        *numbers, not_finite, zero_rows = stats.values()
        counts = (f"{not_finite:,}", f"{zero_rows:,}")
        rows.append((printable(name), *(f"{number:.5g}" for number in numbers), *counts))
    yield from _section("values", _aligned(rows))
    yield from _section("first entries", _first_entries(path, layouts))


def file_description(path: Path) -> dict[str, object]:
    """What `summary_lines` tells people, for a program; numbers that there are none of are None."""
    file = open_file(path)
    layouts = datasets_of(file)
    datasets: Values = {
        name: {"shape": list(layout.shape), "type": _type_text(layout)}
        for name, layout in layouts.items()
    }
    for name, stats in _all_statistics(path, layouts).items():
        datasets[name] |= {key: None if np.isnan(value) else value for key, value in stats.items()}
    return {
        "file": str(path),
        "bytes": path.stat().st_size,
        "ids": len(file) if isinstance(file, FeatureFile) else None,
        "attributes": _unfolded(file.attributes),
        "datasets": datasets,
    }


def verify_file(path: Path) -> int:
    """Check every dataset against its digest; returns how many. WorkbenchError on a mismatch."""
    layouts = datasets_of(open_file(path))
    for layout in layouts.values():
        verify(path, layout)
    return len(layouts)


def describe_row(path: Path, name: str) -> Iterator[str]:
    """Lines with the row of one id in every dataset, long rows shortened.

    Args:
        path: a feature file.
        name: the id.

    Yields:
        A line for a terminal.

    Raises:
        WorkbenchError: a file without ids, or without this one.
    """
    file = _feature_file(path)
    rows = file.rows([name])
    yield f"{printable(name)}: row {rows[0]:,} of {len(file):,}"
    for dataset, layout in file.layouts.items():
        if dataset != "ids":
            values = file.read(rows, dataset)[0]
            text = np.array2string(values, precision=4, threshold=60, max_line_width=96)
            yield from _section(f"{dataset} {layout.shape[1:]}", text.splitlines())


def nearest_ids(path: Path, name: str, count: int = 10) -> list[tuple[str, float]]:
    """The ids most similar to one by cosine, itself left out. Rows (N, ...) count as flat vectors,
    in float32; a row of zeros has cosine 0 with all.

    Args:
        path: a feature file.
        name: the id.
        count: how many, all others where there are fewer.

    Returns:
        Ids with their cosines, best first.

    Raises:
        WorkbenchError: a file without ids, or without this one.
    """
    file = _feature_file(path)
    row = int(file.rows([name])[0])
    query = _unit_rows(file.read([row]))[0]
    blocks = (_unit_rows(block) @ query for block in _blocks(path, file.layouts["features"]))
    cosines = np.concatenate(list(blocks))
    cosines[row] = -np.inf
    best = np.argsort(-cosines, kind="stable")[: min(count, len(file) - 1)]
    return [(file.ids[index], float(cosines[index])) for index in best]


def statistics(path: Path, layout: Layout) -> dict[str, float]:
    """What the numbers of a dataset are like, in one pass over blocks (Chan et al. 1983, eq. 2.1).

    Args:
        path: the file.
        layout: of the dataset, of numbers.

    Returns:
        Minimum, maximum, mean and std of its finite numbers, NaN for none; how many are not finite,
        and how many rows are all zeros.
    """
    count = 0
    mean = 0.0
    squares = 0.0
    low = np.inf
    high = -np.inf
    not_finite = 0
    zero_rows = 0
    for block in _blocks(path, layout):
        flat = block.reshape(len(block), -1).astype(np.float64)
        zero_rows += int((flat == 0).all(axis=1).sum())
        values = flat[np.isfinite(flat)]
        not_finite += flat.size - values.size
        if values.size == 0:
            continue
        difference = values.mean() - mean
        total = count + values.size
        squares += values.var() * values.size + difference**2 * count * values.size / total
        mean += difference * values.size / total
        count = total
        low = min(low, values.min())
        high = max(high, values.max())
    if count == 0:
        low = high = mean = squares = np.nan
    std = float(np.sqrt(squares / max(count, 1)))
    stats = {"minimum": float(low), "maximum": float(high), "mean": float(mean), "std": std}
    return stats | {"not_finite": not_finite, "zero_rows": zero_rows}


def attribute_lines(attributes: Attributes) -> str:
    """Attributes as YAML, JSON text (params) unfolded."""
    yaml = YAML()
    text = io.StringIO()
    yaml.width = 1000
    yaml.dump(_unfolded(attributes), text)
    return text.getvalue()


def _unfolded(attributes: Attributes) -> dict[str, object]:
    values: dict[str, object] = dict(attributes)
    for name, value in attributes.items():
        if isinstance(value, str) and value[:1] in ("{", "["):
            with suppress(ValueError, RecursionError):  # not JSON after all: shown as it is
                values[name] = json.loads(value)
    return values


def _feature_file(path: Path) -> FeatureFile:
    file = open_file(path)
    if isinstance(file, FeatureFile):
        return file
    raise WorkbenchError(f"{path}: has no ids of its own; rows can be shown of feature files only")


def _blocks(path: Path, layout: Layout) -> Iterator[Array]:
    """A dataset in pieces of at most BLOCK_VALUES values or so."""
    values = mapped(path, layout)
    per_row = max(1, int(np.prod(layout.shape[1:], dtype=np.int64)))
    step = max(1, BLOCK_VALUES // per_row)
    for start in range(0, layout.shape[0], step):
        yield np.array(values[start : start + step])


def _unit_rows(rows: Array) -> Array:
    flat = rows.reshape(len(rows), -1).astype(np.float32)
    lengths = np.linalg.norm(flat, axis=1, keepdims=True)
    return np.divide(flat, lengths, out=np.zeros_like(flat), where=lengths > 0)


def _all_statistics(path: Path, layouts: dict[str, Layout]) -> dict[str, dict[str, float]]:
    kept = {n: layout for n, layout in layouts.items() if layout.dtype.kind != "S" and layout.shape}
    return {name: statistics(path, layout) for name, layout in kept.items()}


def _first_entries(path: Path, layouts: dict[str, Layout], count: int = 5) -> list[str]:
    lines = []
    for name, layout in layouts.items():
        if layout.dtype.kind == "S" and len(layout.shape) == 1:
            texts = mapped(path, layout)[:count].tolist()
            shown = ", ".join(printable(text.decode("utf-8", "replace")) for text in texts)
            lines.append(f"{printable(name)}: {shown}{', ...' if layout.shape[0] > count else ''}")
    return lines


def _type_text(layout: Layout) -> str:
    return (
        f"text of {layout.dtype.itemsize} bytes" if layout.dtype.kind == "S" else layout.dtype.name
    )


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _section(title: str, lines: list[str]) -> Iterator[str]:
    yield title
    yield from (f"  {line}" for line in lines)
