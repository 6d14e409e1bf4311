"""A few pairs of the test split with what a model attended to: the report needs no model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from pipeline.evaluation.truth import group_codes
from pipeline.features.groups import GroupFile, write_groups
from pipeline.features.layout import Attributes
from pipeline.runtime.text import Values

if TYPE_CHECKING:
    from pipeline.evaluation.score_file import SplitScores

Floats = npt.NDArray[np.float32]

EXAMPLES = 3  # captions of any kind
FAILURES = 1  # captions that rank a wrong image first
OPTIONAL = ("word_weights", "region_weights", "order")  # what not every model has


@dataclass(frozen=True, eq=False)
class PairAttention:
    """An image with R regions and a caption of T words."""

    image_id: str
    caption_id: str
    words: list[str]  # T, those that the model does not know in brackets
    score: float  # similarity of the two
    weights: Floats  # (T, R) of the words' regions
    boxes: Floats  # (R, 4) x1, y1, x2, y2 in pixels of an image of `size`
    size: tuple[int, int]  # width, height
    # (T,) shares of the words in the score, None where all have the same
    word_weights: Floats | None = None
    # (R,) shares of the regions in it, None where all have the same
    region_weights: Floats | None = None
    # (R,) the regions in the order they were read, None where none is before another
    order: npt.NDArray[np.int64] | None = None


class Chosen(NamedTuple):
    image_id: str
    caption_id: str
    place: int  # of the image in the caption's ranking of all, 1 is first
    is_true: bool


@dataclass(frozen=True, eq=False)
class RankedPair:
    attention: PairAttention
    place: int
    is_true: bool


def choose_pairs(scores: "SplitScores", seed: int) -> list[Chosen]:
    """EXAMPLES captions, each with its own image and with the hardest one of another group; then
    FAILURES other ones that rank a wrong image first.

    Args:
        scores: of the split, N images by M captions.
        seed: of the draw of captions.

    Returns:
        The pairs, those of a caption beside each other.
    """
    images, captions = group_codes(scores.image_groups, scores.caption_groups)
    owners = {name: row for row, name in enumerate(scores.image_ids)}
    drawn = np.random.default_rng(seed).permutation(len(scores.caption_ids)).tolist()
    matrix = scores.matrix

    def pairs_of(caption: int) -> list[Chosen]:
        true = images == captions[caption]
        order = np.lexsort((true, -matrix[:, caption])).tolist()  # ties: wrong ones first
        wanted = [owners[scores.caption_image_ids[caption]]]
        wanted += [row for row in order if not true[row]][:1]
        name = scores.caption_ids[caption]
        return [
            Chosen(scores.image_ids[row], name, order.index(row) + 1, bool(true[row]))
            for row in wanted
        ]

    chosen = [pairs_of(caption) for caption in drawn[:EXAMPLES]]
    failures = (pairs for pairs in map(pairs_of, drawn[EXAMPLES:]) if pairs[-1].place == 1)
    chosen += [pairs for pairs, _ in zip(failures, range(FAILURES), strict=False)]
    return [pair for pairs in chosen for pair in pairs]


def record_attention(
    path: Path | str,
    read: Callable[[str, str], PairAttention] | None,
    scores: "SplitScores",
    seed: int,
    attributes: Attributes,
) -> None:
    """Write what a model attends to in the pairs of `choose_pairs`.

    Args:
        path: the file to write.
        read: from the ids of an image and a caption to what is attended to; None for a model that
            has no attention: the file has no pairs.
        scores: of the split.
        seed: of the draw of captions.
        attributes: of the file.
    """
    pairs = []
    if read is not None:
        for image, caption, rank, is_true in choose_pairs(scores, seed):
            pairs.append(RankedPair(read(image, caption), rank, is_true))
    write_attention(path, pairs, attributes)


def write_attention(path: Path | str, pairs: Sequence[RankedPair], attributes: Attributes) -> None:
    """Write pairs atomically, in their order; equal content gives equal bytes.

    Args:
        path: the file to write.
        pairs: with their places in the rankings.
        attributes: of the file.
    """
    write_groups(path, {f"{n:03d}": _datasets(pair) for n, pair in enumerate(pairs)}, attributes)


def read_attention(path: Path | str) -> list[RankedPair]:
    """The pairs of a file, in the order in which they were written."""
    file = GroupFile(path)
    return [_pair(file, group) for group in sorted(file.layouts)]


def _datasets(pair: RankedPair) -> dict[str, np.ndarray | Sequence[str]]:
    shown = pair.attention
    arrays: dict[str, np.ndarray | Sequence[str]] = {
        "ids": [shown.image_id, shown.caption_id],
        "words": shown.words,
        "weights": shown.weights,
        "boxes": shown.boxes,
        "numbers": np.array([*shown.size, pair.place, pair.is_true], np.int64),
        "score": np.array([shown.score], np.float64),
    }
    optional = {name: getattr(shown, name) for name in OPTIONAL}
    return arrays | {name: array for name, array in optional.items() if array is not None}


def _pair(file: GroupFile, group: str) -> RankedPair:
    image_id, caption_id = file.texts(group, "ids")
    width, height, place, is_true = file.array(group, "numbers").tolist()
    names = ["weights", "boxes", *(name for name in OPTIONAL if name in file.names(group))]
    arrays: Values = {name: file.array(group, name) for name in names}
    words = file.texts(group, "words")
    (score,) = file.array(group, "score").tolist()
    size = width, height
    attention = PairAttention(image_id, caption_id, words, score, size=size, **arrays)
    return RankedPair(attention, place, bool(is_true))
