"""An average of several models' scores, a score file of its own, as SCAN's two networks (Lee et al.
2018, section 4.1) and DP-RNN's word and object networks (Chen and Luo 2020)."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.files import sha256_file
from pipeline.scores.blocks import cuts, temporary_matrix
from pipeline.scores.file import BLOCK, TEXTS, SplitScores, read_scores, write_scores
from pipeline.storage.groups import GroupFile

CORPUS = ("images_sha256", "captions_sha256")  # said by files of models, not by all others
SHORTLIST = "shortlist"  # images per caption that a member scored in full
REMEDY = "average scores of one corpus: score all members on the one that is there now"


def write_average(
    output: Path, members: Mapping[str, Path], weights: Sequence[float] | None, normalise: bool
) -> dict[str, tuple[int, int]]:
    """Average score files of the same images and captions, in float64: (images, captions) of each
    split. Memory holds a block of scores of each side. weights: one above 0 for each member, None
    for equal ones; normalise: each member's scores in a split to mean 0 and deviation 1 first."""
    factors = np.array(weights or [1.0] * len(members))
    ratios = factors / factors.max()  # the sum of the largest floats is none
    shares = ratios / ratios.sum()
    files = {name: GroupFile(path) for name, path in members.items()}
    splits, corpus = _splits(list(files.values())), digests_of_corpus(list(files.values()))
    averaged = {
        split: _average(output.parent, list(members.values()), split, shares, normalise)
        for split in splits
    }
    described = {"model": output.stem} | corpus | _described(files, weights, normalise)
    write_scores(output, averaged, described)
    return {name: split.scores.shape for name, split in averaged.items()}


def _splits(files: Sequence[GroupFile]) -> list[str]:
    """The splits of all members; WorkbenchError when they differ, or two members are alike."""
    first = sorted(files[0].layouts)
    for file in files[1:]:
        if sorted(file.layouts) != first:
            raise WorkbenchError(
                f"{files[0].path} has the splits {listing(first)}, {file.path} has "
                f"{listing(sorted(file.layouts))}",
                REMEDY,
            )
    for left, right in itertools.combinations(files, 2):
        if _digests(left) == _digests(right):
            raise WorkbenchError(
                f"{left.path} and {right.path} hold the same scores",
                "name a member once, and give it a larger weight",
            )
    return first


def digests_of_corpus(files: Sequence[GroupFile]) -> dict[str, str | int | float]:
    """Digests of the tables that were scored: ids do not tell the worlds of two seeds apart."""
    said: dict[str, str | int | float] = {}
    for key in CORPUS:
        having = [file for file in files if key in file.attributes]
        for file in having:
            if file.attributes[key] != having[0].attributes[key]:
                what = key.removesuffix("_sha256")
                raise WorkbenchError(
                    f"{having[0].path} and {file.path} were scored on other {what} of equal ids",
                    REMEDY,
                )
            said[key] = file.attributes[key]
    return said


def _digests(file: GroupFile) -> list[str | None]:
    layouts = [file.layouts[split].get("scores") for split in sorted(file.layouts)]
    return [layout.sha256 if layout else None for layout in layouts]


def _average(
    folder: Path, paths: Sequence[Path], split: str, shares: np.ndarray, normalise: bool
) -> SplitScores:
    members = [read_scores(path, split, False, "an average of scores") for path in paths]
    for path, other in zip(paths[1:], members[1:], strict=True):
        check_same_items(members[0], other, f"{paths[0]} and {path}, split {split}")
    scales = [
        _scale(scores.matrix, f"{path}, split {split}") if normalise else (0.0, 1.0)
        for path, scores in zip(paths, members, strict=True)
    ]
    total = temporary_matrix(folder, members[0].scores.shape)
    for rows in _runs(total):
        parts = (
            share * (scores.matrix[rows].astype(np.float64) - mean) / deviation
            for scores, share, (mean, deviation) in zip(members, shares, scales, strict=True)
        )
        total[rows] = sum(parts)
    return replace(members[0], scores=total, image_embeddings=None, caption_embeddings=None)


def _scale(scores: np.ndarray, where: str) -> tuple[float, float]:
    """Mean and standard deviation of a whole matrix (N, M), in float64, in two passes."""
    low = float(scores.min())
    if low == float(scores.max()):  # the deviation of rounded means need not be 0
        raise WorkbenchError(
            f"{where}: all scores are {low:g}: without deviation they cannot be normalised",
            "leave this member out, or set normalise: none",
        )
    mean = sum(float(scores[rows].sum(dtype=np.float64)) for rows in _runs(scores)) / scores.size
    squares = (np.square(scores[rows] - np.float64(mean)) for rows in _runs(scores))
    return mean, float(np.sqrt(sum(float(part.sum()) for part in squares) / scores.size))


def _runs(scores: np.ndarray) -> list[slice]:
    """Rows of a matrix, at most BLOCK scores at a time."""
    return cuts(len(scores), max(1, BLOCK // scores.shape[1]))


def check_same_items(first: SplitScores, second: SplitScores, where: str) -> None:
    """WorkbenchError unless both are of the same images and captions in the same order."""
    for name in TEXTS:
        left, right = list(getattr(first, name)), list(getattr(second, name))
        if len(left) != len(right):
            raise WorkbenchError(f"{where}: {len(left)} and {len(right)} entries in {name}", REMEDY)
        for number, (a, b) in enumerate(zip(left, right, strict=True), start=1):
            if a != b:
                difference = f"number {number} is {a!r} and {b!r} in {name}"
                raise WorkbenchError(f"{where}: {difference}", REMEDY)


def _described(
    files: Mapping[str, GroupFile], weights: Sequence[float] | None, normalise: bool
) -> dict[str, str | int | float]:
    said: dict[str, str | int | float] = {
        "members": ", ".join(files),
        "members_sha256": ", ".join(sha256_file(file.path) for file in files.values()),
        "weights": ", ".join(str(float(w)) for w in weights or [1.0] * len(files)),
        "normalise": "z" if normalise else "none",
    }
    lists = [file.attributes.get(SHORTLIST) for file in files.values()]
    shortest = min((count for count in lists if isinstance(count, int)), default=None)
    return said if shortest is None else said | {SHORTLIST: shortest}
