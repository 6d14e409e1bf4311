"""Score files from other programs' scores or embeddings, through temporary files."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from pipeline.corpus.tables import captions_digest, images_digest, in_split
from pipeline.evaluation.digits import check_digits, tied_percentage
from pipeline.evaluation.lists_beside import Order, refuse_lists_beside
from pipeline.evaluation.matrix_file import MatrixFile, open_matrix, places
from pipeline.evaluation.row_ids import Side, captions_per_image
from pipeline.evaluation.score_file import SplitScores, write_scores
from pipeline.evaluation.scores import cuts, temporary_matrix
from pipeline.features.arrays.formats import open_arrays
from pipeline.features.arrays.ids import file_beside
from pipeline.features.arrays.mat import turned
from pipeline.features.imports import Wanted
from pipeline.features.matching import clip_retrieval
from pipeline.features.matching.agreement import check_names_agree
from pipeline.features.matching.images import ImageMatcher
from pipeline.features.matching.repeats import Flags, columns_equal_to_previous, equal_to_previous
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import files_digest, sha256_file
from pipeline.runtime.process import say

SOURCE = "source"  # an attribute of score files
EXTERNAL = "external"  # its value where no model of ours wrote the file
TIED = "tied"  # an attribute of such files: percent of the queries of the test split, see digits
# Lists of ids that may lie beside a file: of embeddings one, of a matrix of scores two.
OF_SCORES: tuple[str, ...] = ("image_ids", "caption_ids")
OF_VECTORS: tuple[str, ...] = ("ids",)
IDS = dict.fromkeys(("scores", "val_scores"), OF_SCORES)
IDS |= dict.fromkeys(("images", "captions"), OF_VECTORS)
NEEDED = dict.fromkeys(IDS, "test") | {"val_scores": "val"}  # split that must be there
KINDS = {"images": clip_retrieval.IMAGES, "captions": clip_retrieval.CAPTIONS}
Similarity = Literal["cosine", "dot"]
# What a matrix of captions by images is called; and files of embeddings of texts, and of images.
_CAPTIONS_FIRST = re.compile(
    r"t2i|(text|txt|caption|cap|sentence)s?_?(2|to|by|x)_?(image|img)|per_(text|caption)",
    re.IGNORECASE,
)
_OF_TEXTS = re.compile(r"te?xt|capt?ion|caps|sent", re.IGNORECASE)
_OF_PICTURES = re.compile(r"im(a)?g|photo|pict|visual", re.IGNORECASE)
FEWEST = 5  # images, and captions, of which rows that are sorted are no accident
TILE = 1024  # images, and captions, whose products are taken at once


@dataclass(frozen=True, eq=False)
class Pairs:
    """The corpus whose images and captions are scored.

    Attributes:
        images: its table of images.
        captions: its table of captions.
    """

    images: pd.DataFrame
    captions: pd.DataFrame


def write_external(
    output: Path, files: Mapping[str, Path], similarity: Similarity, corpus: Pairs
) -> dict[str, tuple[int, ...]]:
    """Write the score file of another program's scores or embeddings.

    Args:
        output: the score file; its stem is the model's name.
        files: by their keys in `external` of params.yaml: scores and val_scores, or images and
            captions.
        similarity: of embeddings: "cosine", or "dot" for inner products as they are.
        corpus: what the files must fit.

    Returns:
        Images and captions of each split.

    Raises:
        WorkbenchError: files that cannot be read, or do not fit the corpus or each other.
    """
    opened = {}
    for key, path in files.items():
        repeated = () if key == "captions" else _counts(corpus.images, NEEDED[key])
        opened[key] = open_matrix(path, IDS[key], KINDS.get(key, ""), repeated)
    if "scores" in opened:
        splits = _of_scores(opened, corpus, output.parent)
    else:
        splits = _of_embeddings(opened, similarity, corpus, output.parent)
    digests = _digests(opened)
    described: dict[str, str | int | float] = {
        SOURCE: EXTERNAL,
        "model": output.stem,
        "images_sha256": images_digest(corpus.images),
        "captions_sha256": captions_digest(corpus.captions),
        "files_sha256": ", ".join(f"{key} {digest}" for key, digest in digests.items()),
    }
    described[TIED] = tied_percentage(splits["test"])
    if "images" in opened:
        described["similarity"] = similarity
    write_scores(output, splits, described)
    return {split: scores.matrix.shape for split, scores in splits.items()}


def _digests(opened: Mapping[str, MatrixFile]) -> dict[str, str]:
    """SHA-256 of each file by its key, and of each list of ids beside it, such as `images.ids`."""
    digests: dict[str, str] = {}
    for key, matrix in opened.items():
        if matrix.parts is not None:
            digests[key] = files_digest(matrix.parts.files)
            continue
        digests[key] = sha256_file(matrix.path)
        lists = {f"{key}.{name}": file_beside(matrix.path, name) for name in IDS[key]}
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
    _refuse_lists_of_scores(matrix, corpus, needed)
    _check_no_ranking(matrix)
    images, captions = (
        _side(matrix, corpus, key, matrix.ids.get(f"{key}s"), needed)
        for key in ("image_id", "caption_id")
    )
    _say_other_order(images, captions)
    _say_other_order(captions, images)
    same = {turn: cache(partial(_same, matrix, turn)) for turn in (False, True)}
    is_turned = _is_turned(matrix, images, captions, same)
    shape = matrix.shape[::-1] if is_turned else matrix.shape
    of_images = images.rows(shape[0], same[is_turned])
    of_captions = captions.rows(shape[1], same[not is_turned])
    rows = places(images.table, images.key, of_images, needed, images.where)
    columns = places(captions.table, captions.key, of_captions, needed, captions.where)
    by_split = {
        split: temporary_matrix(folder, (int(rows[split].max()) + 1, int(columns[split].max()) + 1))
        for split in rows
        if split in columns
    }
    both = (columns, rows) if is_turned else (rows, columns)
    for start, block in matrix.blocks():
        for split, scores in by_split.items():
            down = both[0][split][start : start + len(block)]
            across = both[1][split]
            target = scores.T if is_turned else scores
            chosen = block[np.ix_(down >= 0, across >= 0)]
            target[np.ix_(down[down >= 0], across[across >= 0])] = chosen
    check_digits(matrix.values)
    return by_split


def _counts(table: pd.DataFrame, needed: str) -> set[int]:
    """Numbers of rows that a file without ids may be about."""
    return {len(in_split(table, needed)), len(table)} - {0}


def _refuse_lists_of_scores(matrix: MatrixFile, corpus: Pairs, needed: str) -> None:
    lacking = [name for name in OF_SCORES if name not in matrix.ids]
    refuse_lists_beside(
        matrix.path,
        lacking,
        images=matrix.shape if "image_ids" in lacking else (),
        captions=matrix.shape if "caption_ids" in lacking else (),
        order=Order(corpus.images, corpus.captions, needed),
    )


def _refuse_lists_of_vectors(matrix: MatrixFile, corpus: Pairs, key: str, other: Path) -> None:
    if matrix.parts is not None or "ids" in matrix.ids:
        return
    rows = matrix.shape[0]
    fewer = {count for count in _counts(corpus.images, "test") if rows % count == 0}
    refuse_lists_beside(
        matrix.path,
        OF_VECTORS,
        images={rows, *fewer} if key == "image_id" else {rows},
        captions={rows} if key == "caption_id" else (),
        order=Order(corpus.images, corpus.captions, "test"),
        read=[other],
    )


def _is_turned(
    matrix: MatrixFile, images: Side, captions: Side, same: Mapping[bool, Callable[[], Flags]]
) -> bool:
    """Whether rows are captions. Repeated images tell; then the numbers, of which equal ones are
    images by captions, as documented. same: of either reading, images equal to the one before."""
    shapes = {False: matrix.shape, True: matrix.shape[::-1]}
    for is_turned, (count, others) in shapes.items():
        fits = others in captions.plain
        if fits and images.repeated(count, same[is_turned]) is not None:
            return is_turned
    for is_turned, (count, others) in shapes.items():
        if count in images.plain and others in captions.plain:
            if count == others and _CAPTIONS_FIRST.search(matrix.values.place):
                say(f"{matrix.values.place}: by its name, its rows are captions")
                return True
            if count == others:
                say(
                    f"{matrix.path}: {count:,} images by as many captions: the shape does not say "
                    "which are the rows; taken as images. Transpose it if they are captions"
                )
            return is_turned
    counts = (
        " or ".join(f"{count:,}" for count in sorted(side.plain)) for side in (images, captions)
    )
    raise WorkbenchError(
        f"{matrix.path}: shape {matrix.shape}; expected are {' images by '.join(counts)} captions",
        f"counted are the ids beside it, or else the corpus: its {images.needed} split alone, or "
        "all of it in its order; an image may stand there once for each of its captions",
    )


def _check_no_ranking(matrix: MatrixFile) -> None:
    """Raise WorkbenchError for places instead of scores, and for the scores of the best alone:
    sorted, a column is no image and no caption."""
    rows, columns = matrix.shape
    if min(rows, columns) < FEWEST:
        return
    are_places = matrix.values.dtype.kind in "iu"
    are_sorted = {"rising": True, "falling": True}
    for _, block in matrix.blocks():
        are_places = are_places and bool((np.sort(block) == np.arange(columns)).all())
        steps = np.diff(block)
        are_sorted["rising"] &= bool((steps >= 0).all())
        are_sorted["falling"] &= bool((steps <= 0).all())
        if not (are_places or any(are_sorted.values())):
            return
    constant = all(are_sorted.values())
    if are_places:
        reason = f"each row has every number from 0 to {columns - 1:,} once, as argsort gives them"
    elif not constant:
        reason = "every row is sorted, as faiss and topk give the scores of the best"
    else:
        return
    raise WorkbenchError(
        f"{matrix.values.place}: {reason}; expected are scores, a column for each image or caption",
        "save the matrix of scores before it is sorted",
    )


def _say_other_order(listed: Side, other: Side) -> None:
    """Say that ids of one side are in another order than the corpus, where the other side has none
    and is taken in the order of the corpus."""
    if listed.ids is None or other.ids is not None:
        return
    places = {name: place for place, name in enumerate(listed.table[listed.key])}
    known = [places[name] for name in listed.ids if name in places]
    if known != sorted(known):
        say(
            f"{other.where}: no ids, so they are taken in the order of the corpus, though the "
            f"{listed.key}s are in another. If they follow these, give the {other.key}s, too"
        )


def _same(matrix: MatrixFile, is_turned: bool) -> Flags:
    """Which images of a matrix of scores equal the one before."""
    if is_turned:
        return columns_equal_to_previous(matrix.values)
    return equal_to_previous(matrix.values)


def _side(
    matrix: MatrixFile, corpus: Pairs, key: str, ids: Sequence[str] | None, needed: str
) -> Side:
    """One side of a matrix, image ids as those of the corpus."""
    where = f"{matrix.path}, {key}s"
    if key == "caption_id":
        return Side(corpus.captions, key, ids, None, needed, where)
    if ids is not None:
        # the folder alone: DVC watches no other for an item of params.yaml
        matcher = ImageMatcher(list(corpus.images["image_id"]), [matrix.path.parent])
        ids = matcher.named(ids, where)
    counts = captions_per_image(corpus.images, corpus.captions)
    return Side(corpus.images, key, ids, counts, needed, where)


def _of_embeddings(
    opened: Mapping[str, MatrixFile], similarity: str, corpus: Pairs, folder: Path
) -> dict[str, SplitScores]:
    _check_not_exchanged(opened["images"].path, opened["captions"].path)
    images = _upright(opened["images"], corpus, "image_id")
    captions = _upright(opened["captions"], corpus, "caption_id")
    if images.shape[1] != captions.shape[1]:
        raise WorkbenchError(
            f"{images.path} is {images.shape[1]:,} wide, {captions.path} {captions.shape[1]:,}",
            "embeddings of images and captions are compared in one space: give both the same width",
        )
    is_unit = similarity == "cosine"
    sides = [
        _side(matrix, corpus, key, _vector_ids(matrix, corpus, key), "test")
        for matrix, key in ((images, "image_id"), (captions, "caption_id"))
    ]
    _refuse_lists_of_vectors(images, corpus, "image_id", captions.path)
    _refuse_lists_of_vectors(captions, corpus, "caption_id", images.path)
    _say_other_order(sides[0], sides[1])
    _say_other_order(sides[1], sides[0])
    _check_names(images, sides[0])
    _check_names(captions, sides[1])
    pictures = _embeddings(images, sides[0], is_unit, folder)
    texts = _embeddings(captions, sides[1], is_unit, folder)
    return {
        split: _split(corpus, split, _products(part, texts[split], folder), part, texts[split])
        for split, part in pictures.items()
        if split in texts
    }


def _check_not_exchanged(images: Path, captions: Path) -> None:
    """Raise WorkbenchError for two files that are called like each other's content."""
    first = images.stem
    second = captions.stem
    is_text = _OF_TEXTS.search(first) and not _OF_PICTURES.search(first)
    is_picture = _OF_PICTURES.search(second) and not _OF_TEXTS.search(second)
    if is_text and is_picture:
        raise WorkbenchError(
            f"{images} is to be of images and {captions} of captions; they are called the other "
            "way round",
            "give the images first, or rename the files",
        )


def _embeddings(
    matrix: MatrixFile, side: Side, is_unit: bool, folder: Path
) -> dict[str, np.ndarray]:
    """(n, K) float32 of each split in the order of the corpus, of length 1 if wanted."""
    rows = side.rows(matrix.shape[0], partial(equal_to_previous, matrix.values))
    at = places(side.table, side.key, rows, "test", side.where)
    vectors = {
        split: temporary_matrix(folder, (int(numbers.max()) + 1, matrix.shape[1]))
        for split, numbers in at.items()
    }
    for start, block in matrix.blocks():
        values = _unit(block, start, matrix.path) if is_unit else block
        for split, target in vectors.items():
            numbers = at[split][start : start + len(block)]
            target[numbers[numbers >= 0]] = values[numbers >= 0]
    return vectors


def _check_names(matrix: MatrixFile, side: Side) -> None:
    """Raise WorkbenchError where texts or names in a file of embeddings contradict its ids."""
    if matrix.parts is None and side.ids is not None:
        file = open_arrays(matrix.path)
        wanted = Wanted(side.table, side.key, "")
        used = "ids" if "ids" in file.names else ""
        way_out = (
            "take the list that is wrong out of the file; numbers that count the rows are no ids"
        )
        check_names_agree(file, used, side.ids, wanted, way_out)


def _vector_ids(matrix: MatrixFile, corpus: Pairs, key: str) -> list[str] | None:
    if matrix.parts is None:
        return matrix.ids.get("ids")
    matcher = ImageMatcher(list(corpus.images["image_id"]))
    if key == "image_id":
        return matrix.parts.image_ids(matcher)
    return matrix.parts.caption_ids(matcher, corpus.captions)


def _upright(matrix: MatrixFile, corpus: Pairs, key: str) -> MatrixFile:
    """Embeddings with a row for each image or caption; a .mat may have a column for each."""
    if matrix.path.suffix != ".mat":
        return matrix
    rows, columns = matrix.shape
    table = corpus.images if key == "image_id" else corpus.captions
    counts = Side(table, key, matrix.ids.get("ids"), None, "test", "").plain
    if rows in counts and columns in counts:
        raise WorkbenchError(
            f"{matrix.values.place}: {rows:,} rows and {columns:,} columns; either could be the "
            f"{key}s",
            "save it as .npy with a row for each",
        )
    return replace(matrix, values=turned(matrix.values)) if columns in counts else matrix


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
    if scores.size > 1 and scores.min() == scores.max():
        say(f"all scores of the {split} split are equal, which counts against them")
    images = in_split(corpus.images, split)
    captions = in_split(corpus.captions, split)
    return SplitScores(
        scores=scores,
        image_ids=list(images["image_id"]),
        caption_ids=list(captions["caption_id"]),
        caption_image_ids=list(captions["image_id"]),
        image_groups=list(images["group"]),
        image_embeddings=pictures,
        caption_embeddings=texts,
    )
