"""Score files: what any model says about every image and caption of a split, with their ids.

That is a matrix of scores, or embeddings alone, whose inner products are the scores. Stages that
put several score files together check here that these are of the same images and captions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pipeline.evaluation.scores import (
    VECTORS,
    Products,
    Scores,
    as_scores,
    check_finite,
    cuts,
    release,
)
from pipeline.evaluation.truth import group_codes
from pipeline.features.groups import GroupFile, encoded_texts, write_groups
from pipeline.features.layout import Attributes, encode_ids
from pipeline.runtime.errors import WorkbenchError, listing

TEXTS = ("image_ids", "caption_ids", "caption_image_ids", "image_groups")
EMBEDDINGS = ("image_embeddings", "caption_embeddings")
CORPUS = ("images_sha256", "captions_sha256")  # attributes of files of models, not of all others
SHORTLIST = "shortlist"  # an attribute: images per caption that were scored in full
BLOCK = 1 << 20  # scores looked at at once
SAME_CORPUS = "score all of them on the corpus that is there now"


@dataclass(frozen=True, eq=False)
class SplitScores:
    """Scores of one split, N images and M captions in corpus order.

    Attributes:
        scores: (N, M) float32, larger is better.
        image_ids: (N,) of the images.
        caption_ids: (M,) of the captions.
        caption_image_ids: (M,) the image that each caption describes.
        image_groups: (N,) the image's own id or the person it shows.
        image_embeddings: (N, K) float32, of models that have them.
        caption_embeddings: (M, K) float32.
    """

    scores: np.ndarray | Scores
    image_ids: Sequence[str]
    caption_ids: Sequence[str]
    caption_image_ids: Sequence[str]
    image_groups: Sequence[str] | np.ndarray
    image_embeddings: np.ndarray | None = None
    caption_embeddings: np.ndarray | None = None

    @property
    def matrix(self) -> np.ndarray:
        """The scores (N, M), which are made where there are embeddings alone."""
        return as_scores(self.scores).matrix()

    @property
    def caption_groups(self) -> np.ndarray:
        """(M,) the group of the image that each caption describes."""
        group_of = dict(zip(self.image_ids, self.image_groups, strict=True))
        return np.array([group_of[image] for image in self.caption_image_ids])


def write_scores(
    path: Path | str, splits: Mapping[str, SplitScores], attributes: Attributes
) -> None:
    """Write a model's scores atomically: one group per split, equal content in equal bytes.

    Args:
        path: of the file.
        splits: by name, such as "val" and "test". Products of embeddings are not written: the
            embeddings are.
        attributes: what the file says of itself.

    Raises:
        WorkbenchError: shapes that do not fit together, a caption of an unknown image, NaN and
            infinity.
    """
    groups: dict[str, dict[str, np.ndarray | Sequence[str]]] = {}
    for name, split in sorted(splits.items()):
        _check(split, f"scores of split {name}")
        groups[name] = {}
        for dataset in ("scores", *TEXTS, *EMBEDDINGS):  # an order that the bytes depend on
            values = getattr(split, dataset)
            if dataset in TEXTS:
                groups[name][dataset] = list(values)
            elif isinstance(values, np.ndarray):
                groups[name][dataset] = values
    write_groups(path, groups, attributes)


def read_scores(
    path: Path | str, split: str, in_memory: bool = True, needed_by: str | None = None
) -> SplitScores:
    """Read one split of a score file, digests verified.

    Args:
        path: of the file.
        split: its name.
        in_memory: False leaves scores and embeddings in the file; without scores embeddings always
            are.
        needed_by: what cannot do without the matrix, None for what works with both.

    Returns:
        The scores with their ids and groups.

    Raises:
        WorkbenchError: no such file or split, damage, and no scores where they are needed.
    """
    file = GroupFile(path)
    names = file.names(split)
    texts = set(TEXTS)
    embeddings = set(EMBEDDINGS)
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


def _products(vectors: Mapping[str, np.ndarray]) -> Products:
    images, captions = (vectors[name] for name in EMBEDDINGS)
    return Products(images, captions)


def check_name(path: Path) -> None:
    """Raise WorkbenchError for scores of one model under the name of another."""
    model = GroupFile(path).attributes.get("model", path.stem)
    if model != path.stem:
        raise WorkbenchError(
            f"{path}: scores of {model}, not of {path.stem}",
            f"write it again with: dvc repro, or name it {model}.h5 in a folder of its own",
        )


def digests_of_corpus(files: Sequence[GroupFile]) -> dict[str, str | int | float]:
    """Digests of the tables that were scored: ids do not tell the worlds of two seeds apart.

    Raises:
        WorkbenchError: files that were scored on different tables.
    """
    digests: dict[str, str | int | float] = {}
    for key in CORPUS:
        having = [file for file in files if key in file.attributes]
        for file in having:
            if file.attributes[key] != having[0].attributes[key]:
                what = key.removesuffix("_sha256")
                raise WorkbenchError(
                    f"{having[0].path} and {file.path} were scored on other {what} of equal ids",
                    SAME_CORPUS,
                )
            digests[key] = file.attributes[key]
    return digests


def check_same_items(first: SplitScores, second: SplitScores, where: str) -> None:
    """Refuse scores of other images or captions, or in another order.

    Args:
        first: scores of one file.
        second: scores of another one.
        where: begins the message.

    Raises:
        WorkbenchError: the first difference.
    """
    for name in TEXTS:
        left = list(getattr(first, name))
        right = list(getattr(second, name))
        if len(left) != len(right):
            message = f"{where}: {len(left)} and {len(right)} entries in {name}"
            raise WorkbenchError(message, SAME_CORPUS)
        for number, (a, b) in enumerate(zip(left, right, strict=True), start=1):
            if a != b:
                difference = f"number {number} is {a!r} and {b!r} in {name}"
                raise WorkbenchError(f"{where}: {difference}", SAME_CORPUS)


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
    images = len(split.image_ids)
    captions = len(split.caption_ids)
    for name, length in (("caption_image_ids", captions), ("image_groups", images)):
        if len(getattr(split, name)) != length:
            raise WorkbenchError(f"{len(getattr(split, name))} {name} where {length} are expected")
    expected: dict[str, tuple[int, ...]] = {"scores": (images, captions)}
    if (split.image_embeddings is None) != (split.caption_embeddings is None):
        raise WorkbenchError("embeddings of images or captions only; expected both or neither")
    if split.image_embeddings is not None:
        width = split.image_embeddings.shape[-1]
        expected["image_embeddings"] = (images, width)
        expected["caption_embeddings"] = (captions, width)
    for name, shape in expected.items():
        array = getattr(split, name)
        if array.shape != shape or len(shape) != 2 or array.dtype != np.float32:
            raise WorkbenchError(
                f"{name} of shape {array.shape} and type {array.dtype} for {images} images and "
                f"{captions} captions; expected {shape} float32"
            )


def _check_numbers(split: SplitScores) -> None:
    if isinstance(split.scores, np.ndarray):  # products of finite numbers are checked when ranked
        for rows in cuts(len(split.scores), max(1, BLOCK // split.scores.shape[1])):
            check_finite(split.scores[rows], rows.start, 0)
    for name in EMBEDDINGS:
        array = getattr(split, name)
        if array is not None:
            for rows in cuts(len(array), VECTORS):
                wrong = rows.start + np.flatnonzero(~np.isfinite(array[rows]).all(axis=1))
                release(array)
                if len(wrong):
                    raise WorkbenchError(f"NaN or infinity in {name}, rows {listing(wrong, 5)}")
