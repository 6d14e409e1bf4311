"""Scores of several models as those of one: their average, and one model after the other.

An average is a score file of its own, as SCAN's two networks (Lee et al. 2018, section 4.1) and
DP-RNN's word and object networks (Chen and Luo 2020). Of two models one after the other, a quick
one chooses and a better one orders what was chosen.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from pipeline.evaluation.score_file import (
    BLOCK,
    SHORTLIST,
    SplitScores,
    check_same_items,
    digests_of_corpus,
    read_scores,
    write_scores,
)
from pipeline.evaluation.scores import Reranked, cuts, temporary_matrix
from pipeline.features.groups import GroupFile
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.files import sha256_file

SAME_SPLITS = "average scores of one corpus: score all members on the one that is there now"
UNSCALED = (0.0, 1.0)  # mean and deviation of scores that stay as they are


def write_average(
    output: Path, members: Mapping[str, Path], weights: Sequence[float] | None, normalise: bool
) -> dict[str, tuple[int, int]]:
    """Average score files of the same images and captions, in float64.

    Memory holds a block of scores of each member.

    Args:
        output: the score file that is written.
        members: score files by their names, two or more.
        weights: one above 0 for each member, None for equal ones.
        normalise: whether each member's scores in a split get mean 0 and deviation 1 first.

    Returns:
        Images and captions of each split.

    Raises:
        WorkbenchError: members of other splits, images or captions, two equal members, embeddings
            without scores, and equal scores that are to be normalised.
    """
    factors = np.array(weights or [1.0] * len(members))
    ratios = factors / factors.max()  # the sum of the largest floats is none
    shares = ratios / ratios.sum()
    files = {name: GroupFile(path) for name, path in members.items()}
    paths = list(members.values())
    splits = _common_splits(list(files.values()))
    corpus = digests_of_corpus(list(files.values()))
    averaged = {split: _average(output.parent, paths, split, shares, normalise) for split in splits}
    attributes = {"model": output.stem} | corpus | _described(files, weights, normalise)
    write_scores(output, averaged, attributes)
    return {name: split.matrix.shape for name, split in averaged.items()}


def read_reranked(first: Path, second: Path, top: int) -> SplitScores:
    """The test split of two score files, one model after the other.

    Memory holds two matrices (N, M) when it is ranked.

    Args:
        first: scores of the model that chooses.
        second: scores of the model that orders what was chosen, of the same images and captions.
        top: items of each query that are chosen, from 1.

    Returns:
        Scores that are `Reranked`, without embeddings.

    Raises:
        WorkbenchError: files of other images or captions.
    """
    digests_of_corpus([GroupFile(path) for path in (first, second)])
    of_first = read_scores(first, "test", in_memory=False)
    of_second = read_scores(second, "test", in_memory=False)
    check_same_items(of_first, of_second, f"{first} and {second}, split test")
    scores = Reranked(of_first.matrix, of_second.matrix, top)
    return replace(of_second, scores=scores, image_embeddings=None, caption_embeddings=None)


def _common_splits(files: Sequence[GroupFile]) -> list[str]:
    """The splits of all members; WorkbenchError when they differ, or two members are alike."""
    splits = sorted(files[0].layouts)
    for file in files[1:]:
        if sorted(file.layouts) != splits:
            raise WorkbenchError(
                f"{files[0].path} has the splits {listing(splits)}, {file.path} has "
                f"{listing(sorted(file.layouts))}",
                SAME_SPLITS,
            )
    for left, right in itertools.combinations(files, 2):
        if _digests(left) == _digests(right):
            raise WorkbenchError(
                f"{left.path} and {right.path} hold the same scores",
                "name a member once, and give it a larger weight",
            )
    return splits


def _digests(file: GroupFile) -> list[str | None]:
    layouts = [file.layouts[split].get("scores") for split in sorted(file.layouts)]
    return [layout.sha256 if layout else None for layout in layouts]


def _average(
    folder: Path, paths: Sequence[Path], split: str, shares: np.ndarray, normalise: bool
) -> SplitScores:
    members = [read_scores(path, split, False, "an average of scores") for path in paths]
    for path, other in zip(paths[1:], members[1:], strict=True):
        check_same_items(members[0], other, f"{paths[0]} and {path}, split {split}")
    matrices = [member.matrix for member in members]
    scales = [
        _mean_and_deviation(matrix, f"{path}, split {split}") if normalise else UNSCALED
        for path, matrix in zip(paths, matrices, strict=True)
    ]
    total = temporary_matrix(folder, matrices[0].shape)
    for rows in _runs(total):
        total[rows] = sum(
            share * (matrix[rows].astype(np.float64) - mean) / deviation
            for matrix, share, (mean, deviation) in zip(matrices, shares, scales, strict=True)
        )
    return replace(members[0], scores=total, image_embeddings=None, caption_embeddings=None)


def _mean_and_deviation(scores: np.ndarray, where: str) -> tuple[float, float]:
    """Of a whole matrix (N, M), in float64, in two passes."""
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


def _described(
    files: Mapping[str, GroupFile], weights: Sequence[float] | None, normalise: bool
) -> dict[str, str | int | float]:
    """What the file says of the average: its members, and the shortest of their shortlists."""
    attributes: dict[str, str | int | float] = {
        "members": ", ".join(files),
        "members_sha256": ", ".join(sha256_file(file.path) for file in files.values()),
        "weights": ", ".join(str(float(weight)) for weight in weights or [1.0] * len(files)),
        "normalise": "z" if normalise else "none",
    }
    lists = [file.attributes.get(SHORTLIST) for file in files.values()]
    shortlists = [count for count in lists if isinstance(count, int)]
    if shortlists:
        attributes[SHORTLIST] = min(shortlists)
    return attributes
