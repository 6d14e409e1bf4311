"""Score files from other programs' scores or embeddings, through temporary files."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from pipeline.arrays.ids import file_beside
from pipeline.corpus.tables import captions_digest, images_digest, in_split
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import sha256_file
from pipeline.scores.blocks import cuts, temporary_matrix
from pipeline.scores.file import SplitScores, write_scores
from pipeline.scores.matrix_file import MatrixFile, open_matrix, places

SOURCE, EXTERNAL = "source", "external"  # attribute of score files that no model of ours wrote
# Lists of ids that may lie beside a file: of embeddings one, of a matrix of scores two.
OF_SCORES: tuple[str, ...] = ("image_ids", "caption_ids")
OF_VECTORS: tuple[str, ...] = ("ids",)
IDS = dict.fromkeys(("scores", "val_scores"), OF_SCORES)
IDS |= dict.fromkeys(("images", "captions"), OF_VECTORS)
Similarity = Literal["cosine", "dot"]
TILE = 1024  # images, and captions, whose products are taken at once


@dataclass(frozen=True, eq=False)
class Pairs:
    """The corpus whose images and captions are scored, its two tables."""

    images: pd.DataFrame
    captions: pd.DataFrame


def write_external(
    output: Path, files: Mapping[str, Path], similarity: Similarity, corpus: Pairs
) -> dict[str, tuple[int, ...]]:
    """Write the score file of another program's scores or embeddings: sizes of each split. files:
    by their keys in `external`; corpus: what they must fit."""
    opened = {key: open_matrix(path, IDS[key]) for key, path in files.items()}
    if "scores" in opened:
        splits = _of_scores(opened, corpus, output.parent)
    else:
        splits = _of_embeddings(opened, similarity, corpus, output.parent)
    digests = _digests(files)
    described: dict[str, str | int | float] = {
        SOURCE: EXTERNAL,
        "model": output.stem,
        "images_sha256": images_digest(corpus.images),
        "captions_sha256": captions_digest(corpus.captions),
        "files_sha256": ", ".join(f"{key} {digest}" for key, digest in digests.items()),
    }
    if "images" in opened:
        described["similarity"] = similarity
    write_scores(output, splits, described)
    return {split: scores.scores.shape for split, scores in splits.items()}


def _digests(files: Mapping[str, Path]) -> dict[str, str]:
    """SHA-256 of each file by its key, and of each list of ids beside it, such as `images.ids`."""
    digests: dict[str, str] = {}
    for key, path in files.items():
        digests[key] = sha256_file(path)
        lists = {f"{key}.{name}": file_beside(path, name) for name in IDS[key]}
        digests |= {name: sha256_file(beside) for name, beside in lists.items() if beside}
    return digests


def _of_scores(
    opened: Mapping[str, MatrixFile], corpus: Pairs, folder: Path
) -> dict[str, SplitScores]:
    matrices = _matrices(opened["scores"], corpus, "test", folder)
    if "val_scores" in opened:
        if "val" in matrices:
            raise WorkbenchError(
                f"{opened['scores'].path} has the validation split, too", "leave val_scores out"
            )
        matrices["val"] = _matrices(opened["val_scores"], corpus, "val", folder)["val"]
    return {split: _split(corpus, split, scores) for split, scores in matrices.items()}


def _matrices(
    matrix: MatrixFile, corpus: Pairs, needed: str, folder: Path
) -> dict[str, np.ndarray]:
    """The scores of each split in the order of the corpus, from a matrix of either orientation."""
    sides = (
        (corpus.images, "image_id", matrix.ids.get("image_ids")),
        (corpus.captions, "caption_id", matrix.ids.get("caption_ids")),
    )
    fitting = [
        {len(in_split(table, needed)), len(table)} if ids is None else {len(ids)}
        for table, _, ids in sides
    ]
    straight, turned = (
        all(count in fits for count, fits in zip(sizes, fitting, strict=True))
        for sizes in (matrix.shape, matrix.shape[::-1])
    )
    if not straight and not turned:
        counts = (" or ".join(f"{count:,}" for count in sorted(fits)) for fits in fitting)
        raise WorkbenchError(
            f"{matrix.path}: shape {matrix.shape}; "
            f"expected are {' images by '.join(counts)} captions",
            "counted are the ids beside it, or else the corpus: its "
            f"{needed} split alone, or all of it in its order",
        )
    is_turned = turned and not straight  # equal numbers are images by captions, as documented
    shape = matrix.shape[::-1] if is_turned else matrix.shape
    images, captions = (
        places(table, key, ids, count, needed, f"{matrix.path}, {key}s")
        for (table, key, ids), count in zip(sides, shape, strict=True)
    )
    by_split = {
        split: temporary_matrix(
            folder, (int(images[split].max()) + 1, int(captions[split].max()) + 1)
        )
        for split in images
        if split in captions
    }
    for start, block in matrix.blocks():
        for split, scores in by_split.items():
            both = (captions, images) if is_turned else (images, captions)
            rows, columns = both[0][split][start : start + len(block)], both[1][split]
            kept, wide = rows >= 0, columns >= 0
            target = scores.T if is_turned else scores
            target[np.ix_(rows[kept], columns[wide])] = block[np.ix_(kept, wide)]
    return by_split


def _of_embeddings(
    opened: Mapping[str, MatrixFile], similarity: str, corpus: Pairs, folder: Path
) -> dict[str, SplitScores]:
    images, captions = opened["images"], opened["captions"]
    if images.shape[1] != captions.shape[1]:
        raise WorkbenchError(
            f"{images.path} is {images.shape[1]:,} wide, {captions.path} {captions.shape[1]:,}",
            "embeddings of images and captions are compared in one space: give both the same width",
        )
    is_unit = similarity == "cosine"
    pictures = _embeddings(images, corpus.images, "image_id", is_unit, folder)
    texts = _embeddings(captions, corpus.captions, "caption_id", is_unit, folder)
    return {
        split: _split(corpus, split, _products(part, texts[split], folder), part, texts[split])
        for split, part in pictures.items()
        if split in texts
    }


def _embeddings(
    matrix: MatrixFile, table: pd.DataFrame, key: str, is_unit: bool, folder: Path
) -> dict[str, np.ndarray]:
    """(n, K) float32 of each split in the order of the corpus, of length 1 if wanted."""
    at = places(
        table, key, matrix.ids.get("ids"), matrix.shape[0], "test", f"{matrix.path}, {key}s"
    )
    vectors = {
        split: temporary_matrix(folder, (int(numbers.max()) + 1, matrix.shape[1]))
        for split, numbers in at.items()
    }
    for start, block in matrix.blocks():
        values = _unit(block, start, matrix.path) if is_unit else block
        for split, target in vectors.items():
            rows = at[split][start : start + len(block)]
            target[rows[rows >= 0]] = values[rows >= 0]
    return vectors


def _unit(block: np.ndarray, start: int, path: Path) -> np.ndarray:
    lengths = np.linalg.norm(block.astype(np.float64), axis=1, keepdims=True)
    if not lengths.all():
        row = start + int(np.argmin(lengths))
        raise WorkbenchError(
            f"{path}: row {row} (from 0) is all zeros, which has no cosine",
            "give this row its values, or set similarity: dot",
        )
    return block / lengths


def _products(images: np.ndarray, captions: np.ndarray, folder: Path) -> np.ndarray:
    scores = temporary_matrix(folder, (len(images), len(captions)))
    for rows in cuts(len(images), TILE):
        for columns in cuts(len(captions), TILE):
            with np.errstate(over="ignore", invalid="ignore"):  # named when the file is written
                scores[rows, columns] = images[rows] @ captions[columns].T
    return scores


def _split(
    corpus: Pairs,
    split: str,
    scores: np.ndarray,
    pictures: np.ndarray | None = None,
    texts: np.ndarray | None = None,
) -> SplitScores:
    images, captions = in_split(corpus.images, split), in_split(corpus.captions, split)
    return SplitScores(
        scores=scores,
        image_ids=list(images["image_id"]),
        caption_ids=list(captions["caption_id"]),
        caption_image_ids=list(captions["image_id"]),
        image_groups=list(images["group"]),
        image_embeddings=pictures,
        caption_embeddings=texts,
    )
