"""Splits that no list of images gives: from the names of files, or drawn by the seed."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from pipeline.corpus.tables import SPLITS
from pipeline.dataset.source import Options
from pipeline.runtime.errors import WorkbenchError

_WORDS = {"train": ("train", "training"), "val": ("val", "valid", "validation", "dev")}
_SPLIT_OF = {word: split for split, words in _WORDS.items() for word in words} | {"test": "test"}
_WORD = re.compile(rf"(?<![a-z])({'|'.join(_SPLIT_OF)})(?![a-z])")


class Settled(NamedTuple):
    """The split of every image that is kept, and remarks about what was drawn and left out."""

    splits: dict[str, str]
    remarks: tuple[str, ...]


def split_in_path(path: str) -> str | None:
    """The split that a path names, or None: words count between anything but letters, as in
    `train-00000-of-00005` and `val2017`; the last one decides, so that a file's own name comes
    before its folders'."""
    words = _WORD.findall(path.lower())
    return _SPLIT_OF[words[-1]] if words else None


def seeded_splits(names: Sequence[str], options: Options) -> dict[str, str]:
    """A split for each image, drawn over the sorted names: the file's order does not matter."""
    numbers = _numbers(("val", "test"), len(names), options)
    if len(names) <= sum(numbers.values()):
        raise WorkbenchError(
            f"{_asked(numbers, options)} leave nothing to train on: "
            f"the corpus has {len(names):,} images",
            "make them smaller in params.yaml",
        )
    return _drawn(names, numbers, "train", options)


def settled_splits(named: Mapping[str, str | None], options: Options) -> Settled:
    """Train, val and test from the splits that files name, of which some may not be there.

    All three are taken as they are. Train and val alone: both held-out splits are drawn from val,
    corpus.val_images and corpus.test_images of them, and the rest of val is left out, because
    nobody may train on it. Train and test alone: corpus.val_images are drawn from train. One alone,
    or none named: all three are drawn. named: image_id to train, val, test, or to None for every
    image.
    """
    there = {str(split) for split in named.values()}
    if there == set(SPLITS):
        return Settled({image: str(split) for image, split in named.items()}, ())
    if len(there) == 1:
        splits = seeded_splits(list(named), options)
        return Settled(splits, (f"splits drawn by seed: {_counted(splits.values())}",))
    if there == {"train", "val"}:
        pool = [image for image, split in named.items() if split == "val"]
        drawn = _held_out(pool, ("val", "test"), "", options)
        left = sum(not split for split in drawn.values())
        remark = f"drawn from val by seed: {_counted(drawn.values())}; left out: {left:,} images"
    elif there == {"train", "test"}:
        pool = [image for image, split in named.items() if split == "train"]
        drawn = _held_out(pool, ("val",), "train", options)
        remark = f"drawn from train by seed: {_counted(drawn.values())}"
    else:
        raise WorkbenchError(
            f"the files name the splits {' and '.join(sorted(there))}, but none to train on",
            "add the training files to raw",
        )
    splits = {image: drawn.get(image, str(split)) for image, split in named.items()}
    return Settled({image: split for image, split in splits.items() if split}, (remark,))


def _numbers(kinds: Sequence[str], among: int, options: Options) -> dict[str, int]:
    """How many of `among` images are held out for each split; a share gives at least one."""
    asked = {kind: getattr(options.corpus, f"{kind}_images") for kind in kinds}
    return {
        kind: max(1, round(value * among)) if isinstance(value, float) else value
        for kind, value in asked.items()
    }


def _asked(kinds: Iterable[str], options: Options) -> str:
    keys = [f"{kind}_images" for kind in kinds]
    return " and ".join(f"corpus.{key} = {getattr(options.corpus, key)}" for key in keys)


def _counted(splits: Iterable[str]) -> str:
    there = list(splits)
    return ", ".join(f"{there.count(kind):,} {kind}" for kind in ("val", "test") if kind in there)


def _held_out(
    names: Sequence[str], kinds: Sequence[str], rest: str, options: Options
) -> dict[str, str]:
    numbers = _numbers(kinds, len(names), options)
    if len(names) < sum(numbers.values()) + bool(rest):
        raise WorkbenchError(
            f"{_asked(kinds, options)}, but there are {len(names):,} images to draw them from",
            "make them smaller in params.yaml",
        )
    return _drawn(names, numbers, rest, options)


def _drawn(
    names: Sequence[str], numbers: Mapping[str, int], rest: str, options: Options
) -> dict[str, str]:
    order = np.random.default_rng([options.seed, 0x5B117]).permutation(len(names))
    kinds = [split for split, number in numbers.items() for _ in range(number)]
    kinds += [rest] * (len(names) - len(kinds))
    ranked = sorted(names)
    drawn = {ranked[n]: kind for n, kind in zip(order, kinds, strict=True)}
    return {name: drawn[name] for name in names}
