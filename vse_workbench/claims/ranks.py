"""The rank of every query of a kept run, from which intervals over test images come."""

import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from scipy import stats

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import write_bytes

BY_QUERY = re.compile(r"-?(?P<way>i2t|t2i|phrases)\.(?P<figure>r\d+|meanr)")


@dataclass(frozen=True, eq=False)
class KeptRanks:
    """By kind of query (i2t, t2i or phrases): ranks (Q,) of the best true item from 1, 0 where none
    is right, and images (Q,), numbers from 0 of what is drawn together."""

    ranks: Mapping[str, np.ndarray]
    images: Mapping[str, np.ndarray]


# The figures of a run, and its ranks, None where it made none because it collapsed.
FiguresAndRanks = tuple[Mapping[str, float], KeptRanks | None]


def write_ranks(path: Path, kept: KeptRanks) -> None:
    """Write a compressed .npz: `i2t` and `i2t.images`, and so on.

    Args:
        path: the file.
        kept: ranks and images, in the smallest whole numbers that hold them.
    """
    arrays = {way: _smallest_type(ranks) for way, ranks in kept.ranks.items()}
    arrays |= {f"{way}.images": _smallest_type(images) for way, images in kept.images.items()}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    write_bytes(path, buffer.getvalue())


def read_ranks(path: Path) -> KeptRanks:
    """What write_ranks wrote; WorkbenchError when it is anything else."""
    try:
        with np.load(path, allow_pickle=False) as file:
            ways = [name for name in file.files if f"{name}.images" in file.files]
            return KeptRanks(
                {way: file[way].astype(np.int64) for way in ways},
                {way: file[f"{way}.images"].astype(np.int64) for way in ways},
            )
    except (ValueError, EOFError, BadZipFile):
        raise WorkbenchError(f"{path}: not the ranks of a kept run") from None


def image_differences(
    pairs: Sequence[tuple[FiguresAndRanks, FiguresAndRanks]], signs: Mapping[str, int]
) -> np.ndarray | None:
    """What each test image adds to the difference of a measure.

    Args:
        pairs: first and second run of n seeds.
        signs: 1 or -1 of the measure's figures.

    Returns:
        (n, G): of G images with their captions; the mean of a row is that pair's difference. Where
        images have unequal numbers of queries, a figure is a ratio of two sums, which is taken as
        linear about its value. None for a measure with a figure that is no mean over queries, such
        as a median.
    """
    matches = {figure: BY_QUERY.fullmatch(figure) for figure in signs}
    shape = next((ranks for pair in pairs for _, ranks in pair if ranks), None)
    if shape is None or None in matches.values():
        return None
    images = 1 + max(int(codes.max()) for codes in shape.images.values())
    total = np.zeros((len(pairs), images))
    for figure, sign in signs.items():
        match: Any = matches[figure]
        codes = shape.images[match["way"]]
        queries = np.bincount(codes, minlength=images)
        for row, (first, second) in enumerate(pairs):
            difference = _values_of_queries(first, figure, match) - _values_of_queries(
                second, figure, match
            )
            each = difference + np.zeros(len(codes))
            mean = each.mean()
            apart = np.bincount(codes, each, images) - mean * queries
            total[row] += sign * (mean + apart * images / len(codes))
    return total


def chance_of(kept: KeptRanks, figures: Iterable[str]) -> float | None:
    """The sum of recalls that random rankings reach (the hypergeometric distribution).

    Args:
        kept: the queries, by the images that they belong to.
        figures: recalls of retrieval, such as i2t.r5.

    Returns:
        Percent; None where a figure is none of retrieval.
    """
    total = 0.0
    for figure in figures:
        match = BY_QUERY.fullmatch(figure)
        if match is None or match["way"] == "phrases" or match["figure"] == "meanr":
            return None
        own = kept.images[match["way"]]
        other = kept.images["t2i" if match["way"] == "i2t" else "i2t"]
        true = np.bincount(other, minlength=int(own.max()) + 1)[own]
        first = int(match["figure"][1:])
        total += 100 * float(stats.hypergeom.sf(0, len(other), true, first).mean())
    return total


def _values_of_queries(
    run: FiguresAndRanks, figure: str, match: Mapping[str, str]
) -> np.ndarray | float:
    """What each query adds to a figure, (Q,); the figure itself of a run without ranks."""
    figures, kept = run
    if kept is None:
        return figures[figure]
    ranks = kept.ranks[match["way"]]
    if match["figure"] == "meanr":
        return ranks.astype(np.float64)
    return 100.0 * ((ranks > 0) & (ranks <= int(match["figure"][1:])))


def _smallest_type(numbers: np.ndarray) -> np.ndarray:
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))
