"""A few pairs of the test split with what a model attended to: what the report draws.

Written where the model is at hand, so that the report needs none.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pipeline.scores.groups import group_codes
from pipeline.storage.groups import GroupFile, write_groups
from pipeline.storage.hdf5 import damaged
from pipeline.storage.layout import Attributes

if TYPE_CHECKING:
    from pipeline.scores.file import SplitScores

Floats = npt.NDArray[np.float32]

EXAMPLES = 3  # captions of any kind
FAILURES = 1  # captions that rank a wrong image first


@dataclass(frozen=True, eq=False)
class PairAttention:
    """An image with R regions and a caption of T words.

    Attributes:
        image_id: of the image.
        caption_id: of the caption.
        words: T, those that the model does not know in brackets.
        score: similarity of the two.
        weights: (T, R) of the words' regions, as in models.attention.view.AttentionView.
        boxes: (R, 4) x1, y1, x2, y2 in pixels of an image of `size`.
        size: width, height.
        word_weights: (T,) shares of the words in the score, None where all have the same.
        region_weights: (R,) shares of the regions in it, None where all have the same.
        order: (R,) the regions in the order they were read, None where none is before another.
    """

    image_id: str
    caption_id: str
    words: list[str]
    score: float
    weights: Floats
    boxes: Floats
    size: tuple[int, int]
    word_weights: Floats | None = None
    region_weights: Floats | None = None
    order: npt.NDArray[np.int64] | None = None


@dataclass(frozen=True)
class Chosen:
    """A pair worth a picture.

    Attributes:
        image_id: of the image.
        caption_id: of the caption.
        place: of the image in the caption's ranking of all, 1 is first.
        is_true: whether the two are of one group.
    """

    image_id: str
    caption_id: str
    place: int
    is_true: bool


@dataclass(frozen=True, eq=False)
class RankedPair:
    """What was attended to in a pair, and where the model ranks the image for the caption.

    Attributes:
        attention: of the pair.
        place: 1 is first.
        is_true: whether the image is the caption's own.
    """

    attention: PairAttention
    place: int
    is_true: bool


def choose_pairs(scores: "SplitScores", seed: int) -> list[Chosen]:
    """Captions drawn by the seed, each with its own image and with the hardest wrong one.

    EXAMPLES captions as they come, then FAILURES other ones that rank a wrong image first, as far
    as there are. A wrong image is of another group.
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

    found = [pairs_of(caption) for caption in drawn[:EXAMPLES]]
    failures = (pairs for pairs in map(pairs_of, drawn[EXAMPLES:]) if pairs[-1].place == 1)
    found += [pairs for pairs, _ in zip(failures, range(FAILURES), strict=False)]
    return [pair for pairs in found for pair in pairs]


def record_attention(
    path: Path | str,
    read: Callable[[str, str], PairAttention] | None,
    scores: "SplitScores",
    seed: int,
    attributes: Attributes,
) -> None:
    """Write the pairs that `choose_pairs` chooses; none where there is nothing to read them with.

    Args:
        path: of the file, .h5.
        read: from an image's and a caption's id to the pair (pipeline.attention.reader); None for a
            model without attention to show.
        scores: of the split the pairs are from.
        seed: of the choice.
        attributes: what the pairs are from.
    """
    chosen = choose_pairs(scores, seed) if read else []
    pairs = [
        RankedPair(read(pair.image_id, pair.caption_id), pair.place, pair.is_true)
        for pair in chosen
        if read
    ]
    write_attention(path, pairs, attributes)


def write_attention(path: Path | str, pairs: Sequence[RankedPair], attributes: Attributes) -> None:
    """Write pairs atomically; equal content gives equal bytes.

    Args:
        path: of the file, .h5.
        pairs: in the order they are to be shown.
        attributes: what they are from.
    """
    write_groups(path, {f"{n:03d}": _datasets(pair) for n, pair in enumerate(pairs)}, attributes)


def read_attention(path: Path | str) -> list[RankedPair]:
    """The pairs of a file, in the order in which they were written.

    Raises WorkbenchError when the file is missing or damaged, or its arrays do not fit together.
    """
    file = GroupFile(path)
    return [_pair(file, group) for group in sorted(file.layouts)]


def _datasets(pair: RankedPair) -> dict[str, np.ndarray | Sequence[str]]:
    own = pair.attention
    found: dict[str, np.ndarray | Sequence[str]] = {
        "ids": [own.image_id, own.caption_id],
        "words": own.words,
        "weights": own.weights.astype(np.float32),
        "boxes": own.boxes.astype(np.float32),
        "numbers": np.array([*own.size, pair.place, pair.is_true], np.int64),
        "score": np.array([own.score], np.float64),
    }
    if own.word_weights is not None:
        found["word_weights"] = own.word_weights.astype(np.float32)
    if own.region_weights is not None:
        found["region_weights"] = own.region_weights.astype(np.float32)
    if own.order is not None:
        found["order"] = own.order.astype(np.int64)
    return found


def _pair(file: GroupFile, group: str) -> RankedPair:
    def optional(name: str) -> Any:
        return file.array(group, name) if name in file.names(group) else None

    names, numbers = file.texts(group, "ids"), file.array(group, "numbers")
    score = file.array(group, "score")
    if len(names) != 2 or numbers.shape != (4,) or score.shape != (1,):
        raise damaged(file.path, f"{group} does not describe a pair")
    width, height, place, is_true = numbers.tolist()
    attention = PairAttention(
        image_id=names[0],
        caption_id=names[1],
        words=file.texts(group, "words"),
        score=float(score[0]),
        weights=file.array(group, "weights"),
        boxes=file.array(group, "boxes"),
        size=(width, height),
        word_weights=optional("word_weights"),
        region_weights=optional("region_weights"),
        order=optional("order"),
    )
    problem = misfit(attention)
    if problem:
        raise damaged(file.path, f"{group}: {problem}")
    return RankedPair(attention, place, bool(is_true))


def misfit(pair: PairAttention) -> str:
    """What does not fit together in a pair, empty when everything does."""
    words, regions = len(pair.words), len(pair.boxes)
    shapes = {
        "weights": (pair.weights, (words, regions)),
        "boxes": (pair.boxes, (regions, 4)),
        "word_weights": (pair.word_weights, (words,)),
        "region_weights": (pair.region_weights, (regions,)),
        "order": (pair.order, (regions,)),
    }
    for name, (array, shape) in shapes.items():
        if array is not None and array.shape != shape:
            return f"{name} of shape {array.shape} where {shape} is expected"
        if array is not None and not np.isfinite(array).all():
            return f"{name} are not finite"
    if pair.order is not None and sorted(pair.order.tolist()) != list(range(regions)):
        return "the order does not name every region once"
    return "" if min(pair.size) > 0 else f"an image of {pair.size} pixels"
