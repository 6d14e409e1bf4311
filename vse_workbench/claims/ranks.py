"""The rank of every query of a kept run, from which intervals over test images are drawn."""

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from pipeline.comparison.paired import RESAMPLES
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import write_bytes

BY_QUERY = re.compile(r"-?(?P<way>i2t|t2i|phrases)\.(?P<figure>r\d+|meanr)")


@dataclass(frozen=True, eq=False)
class Ranks:
    """By kind of query (i2t, t2i or phrases): ranks (Q,) of the best true item from 1, 0 where none
    is right, and images (Q,), numbers from 0 of what is drawn together."""

    ranks: Mapping[str, np.ndarray]
    images: Mapping[str, np.ndarray]


# The figures of a run, and its ranks, None where it made none because it collapsed.
Reached = tuple[Mapping[str, float], Ranks | None]


def write_ranks(path: Path, kept: Ranks) -> None:
    """Write a compressed .npz: `i2t` and `i2t.images`, and so on."""
    arrays = {way: _small(ranks) for way, ranks in kept.ranks.items()}
    arrays |= {f"{way}.images": _small(images) for way, images in kept.images.items()}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    write_bytes(path, buffer.getvalue())


def read_ranks(path: Path) -> Ranks:
    """What write_ranks wrote; WorkbenchError when it is anything else."""
    try:
        with np.load(path, allow_pickle=False) as file:
            ways = [name for name in file.files if f"{name}.images" in file.files]
            return Ranks(
                {way: file[way].astype(np.int64) for way in ways},
                {way: file[f"{way}.images"].astype(np.int64) for way in ways},
            )
    except (ValueError, EOFError, BadZipFile):
        raise WorkbenchError(f"{path}: not the ranks of a kept run") from None


def drawn_differences(
    pairs: Sequence[tuple[Reached, Reached]], signs: Mapping[str, int]
) -> np.ndarray | None:
    """(RESAMPLES,): first minus second in a measure, mean over pairs of one seed each, of test
    images drawn with replacement, each with its captions. signs: 1 or -1 of the measure's figures.
    None for a measure with a figure that is no mean over queries, such as a median."""
    matches = {figure: BY_QUERY.fullmatch(figure) for figure in signs}
    shape = next((ranks for pair in pairs for _, ranks in pair if ranks), None)
    if shape is None or None in matches.values():
        return None
    images = 1 + max(int(codes.max()) for codes in shape.images.values())
    random = np.random.default_rng(0)
    weights = random.multinomial(images, np.full(images, 1 / images), RESAMPLES).astype(np.float64)
    total = np.zeros(RESAMPLES)
    for figure, sign in signs.items():
        match: Any = matches[figure]
        codes = shape.images[match["way"]]
        differences = [_values(*a, figure, match) - _values(*b, figure, match) for a, b in pairs]
        summed = np.bincount(codes, np.mean(differences, 0) + np.zeros(len(codes)), images)
        total += sign * (weights @ summed) / (weights @ np.bincount(codes, minlength=images))
    return total


def _values(
    figures: Mapping[str, float], kept: Ranks | None, figure: str, match: Mapping[str, str]
) -> Any:
    """What each query adds to a figure, (Q,); the figure itself of a run without ranks."""
    if kept is None:
        return figures[figure]
    ranks = kept.ranks[match["way"]]
    if match["figure"] == "meanr":
        return ranks.astype(np.float64)
    return 100.0 * ((ranks > 0) & (ranks <= int(match["figure"][1:])))


def _small(numbers: np.ndarray) -> np.ndarray:
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))
