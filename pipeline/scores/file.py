"""Score files: what any model says about every image and caption of a split, with their ids.

That is a matrix of scores, or embeddings alone, whose inner products are the scores.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.scores.blocks import check_numbers, cuts, release
from pipeline.scores.groups import group_codes
from pipeline.storage.groups import GroupFile, encoded_texts, write_groups
from pipeline.storage.layout import Attributes, encode_ids

if TYPE_CHECKING:  # matrices alone need no torch
    from pipeline.scores.rerank import Reranked
    from pipeline.scores.tiles import Products

TEXTS = ("image_ids", "caption_ids", "caption_image_ids", "image_groups")
EMBEDDINGS = ("image_embeddings", "caption_embeddings")
BLOCK = 1 << 20  # scores looked at at once
ROWS = 4096  # embeddings looked at at once


@dataclass(frozen=True, eq=False)
class SplitScores:
    """Scores of one split, N images and M captions in corpus order."""

    scores: "np.ndarray | Products | Reranked"  # (N, M) float32, larger is better
    image_ids: Sequence[str]
    caption_ids: Sequence[str]
    caption_image_ids: Sequence[str]  # (M,) the image each caption describes
    image_groups: Sequence[str] | np.ndarray  # (N,) the image's own id or the person it shows
    image_embeddings: np.ndarray | None = None  # (N, K) float32, of models that have them
    caption_embeddings: np.ndarray | None = None  # (M, K) float32

    @property
    def matrix(self) -> np.ndarray:
        """The scores (N, M), which are made where there are embeddings alone."""
        return self.scores if isinstance(self.scores, np.ndarray) else self.scores.matrix()

    @property
    def caption_groups(self) -> np.ndarray:
        """(M,) the group of the image that each caption describes."""
        group_of = dict(zip(self.image_ids, self.image_groups, strict=True))
        return np.array([group_of[image] for image in self.caption_image_ids])


def write_scores(
    path: Path | str, splits: Mapping[str, SplitScores], attributes: Attributes
) -> None:
    """Write a model's scores atomically: one group per split, equal content in equal bytes.
    Products of embeddings are not written: the embeddings are. WorkbenchError for shapes that do
    not fit together, a caption of an unknown image, NaN and infinity."""
    groups = {}
    for name, split in sorted(splits.items()):
        _check(split, f"scores of split {name}")
        texts = {text: list(getattr(split, text)) for text in TEXTS}
        vectors = {kind: getattr(split, kind) for kind in EMBEDDINGS}
        datasets = {"scores": split.scores, **texts, **vectors}
        groups[name] = {n: own for n, own in datasets.items() if isinstance(own, np.ndarray | list)}
    write_groups(path, groups, attributes)


def read_scores(
    path: Path | str, split: str, in_memory: bool = True, needed_by: str | None = None
) -> SplitScores:
    """Read one split of a score file, digests verified. in_memory: False leaves scores and
    embeddings in the file; without scores embeddings always are. needed_by: what cannot do without
    the matrix, None for what works with both."""
    file = GroupFile(path)
    names = file.names(split)
    texts, embeddings = set(TEXTS), set(EMBEDDINGS)
    if not (names - embeddings == {"scores"} | texts or names == texts | embeddings):
        raise WorkbenchError(
            f"{path}: split {split} holds {listing(sorted(names))}; a score file has "
            f"{listing(sorted(texts))}, and scores, {' and '.join(EMBEDDINGS)} or all of these"
        )
    has_scores = "scores" in names
    if needed_by is not None and not has_scores:
        raise WorkbenchError(
            f"{path}: embeddings were kept instead of scores; {needed_by} needs the scores",
            "set scoring.keep: scores in params.yaml and run: dvc repro",
        )
    numbers = file.array if in_memory and has_scores else file.view
    vectors = {name: numbers(split, name) for name in EMBEDDINGS if name in names}
    scores = SplitScores(
        scores=numbers(split, "scores") if has_scores else _products(vectors),
        image_ids=file.texts(split, "image_ids"),
        caption_ids=file.texts(split, "caption_ids"),
        caption_image_ids=file.texts(split, "caption_image_ids"),
        image_groups=file.texts(split, "image_groups"),
        **vectors,
    )
    _check(scores, f"{path}, split {split}")
    return scores


def _products(vectors: Mapping[str, np.ndarray]) -> "Products":
    from pipeline.scores.tiles import Products

    images, captions = EMBEDDINGS
    return Products(vectors[images], vectors[captions])


def check_name(path: Path) -> None:
    """Raise WorkbenchError for scores of one model under the name of another."""
    model = GroupFile(path).attributes.get("model", path.stem)
    if model != path.stem:
        raise WorkbenchError(
            f"{path}: scores of {model}, not of {path.stem}",
            f"write it again with: dvc repro, or name it {model}.h5 in a folder of its own",
        )


def _check(split: SplitScores, where: str) -> None:
    """Raise WorkbenchError, beginning with `where`, unless everything fits together."""
    try:
        for name in TEXTS:
            encoded_texts(list(getattr(split, name)))
        encode_ids(list(split.image_ids))
        encode_ids(list(split.caption_ids))
        _check_shapes(split)
        unknown = sorted(set(split.caption_image_ids) - set(split.image_ids))
        if unknown:
            raise WorkbenchError(f"captions of images that are not there: {listing(unknown, 5)}")
        group_codes(split.image_groups, split.caption_groups)
        _check_numbers(split)
    except WorkbenchError as error:
        raise WorkbenchError(f"{where}: {error.message}", error.hint) from None


def _check_shapes(split: SplitScores) -> None:
    images, captions = len(split.image_ids), len(split.caption_ids)
    for name, length in (("caption_image_ids", captions), ("image_groups", images)):
        if len(getattr(split, name)) != length:
            raise WorkbenchError(f"{len(getattr(split, name))} {name} where {length} are expected")
    vectors, wanted = split.image_embeddings, {"scores": (images, captions)}
    if (vectors is None) != (split.caption_embeddings is None):
        raise WorkbenchError("embeddings of images or captions only; expected both or neither")
    if vectors is not None:
        width = vectors.shape[-1]
        wanted |= {"image_embeddings": (images, width), "caption_embeddings": (captions, width)}
    for name, shape in wanted.items():
        array = getattr(split, name)
        dtype = getattr(array, "dtype", np.dtype(np.float32))
        if array.shape != shape or len(shape) != 2 or dtype != np.float32:
            raise WorkbenchError(
                f"{name} of shape {array.shape} and type {dtype} for {images} images and "
                f"{captions} captions; expected {shape} float32"
            )


def _check_numbers(split: SplitScores) -> None:
    if isinstance(split.scores, np.ndarray):  # products of finite numbers are checked when ranked
        for rows in cuts(len(split.scores), max(1, BLOCK // split.scores.shape[1])):
            check_numbers(split.scores[rows], rows.start, 0)
    for name in EMBEDDINGS:
        array = getattr(split, name)
        if array is not None:
            for rows in cuts(len(array), ROWS):
                wrong = rows.start + np.flatnonzero(~np.isfinite(array[rows]).all(axis=1))
                release(array)
                if len(wrong):
                    raise WorkbenchError(f"NaN or infinity in {name}, rows {listing(wrong, 5)}")
