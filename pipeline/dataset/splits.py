"""Splits that no list of images gives: from the names of files, or drawn by the seed."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from pipeline.corpus.tables import SPLITS
from pipeline.dataset.source import Options
from pipeline.runtime.errors import WorkbenchError, counted

_WORDS = {"train": ("train", "training"), "val": ("val", "valid", "validation", "dev")}
_SPLIT_OF = {word: split for split, words in _WORDS.items() for word in words} | {"test": "test"}
_WORD = re.compile(rf"(?<![a-z])({'|'.join(_SPLIT_OF)})(?![a-z])")


class Settled(NamedTuple):
    """The split of every image that is kept, and remarks about what was drawn and left out."""

    splits: dict[str, str]
    remarks: tuple[str, ...]


def split_in_path(path: str) -> str | None:
    """The split that a path names, or None: words between anything but letters count, as in
    `train-00000-of-00005` and `val2017`, the last one before others."""
    words = _WORD.findall(path.lower())
    return _SPLIT_OF[words[-1]] if words else None


def seeded_splits(names: Sequence[str], options: Options) -> dict[str, str]:
    """A split for each image, drawn over the sorted names: the file's order does not matter."""
    return _held_out(names, ("val", "test"), "train", options)


def settled_splits(named: Mapping[str, str | None], options: Options) -> Settled:
    """Train, val and test from the splits that files name: image_id to a split, or to None for all.

    All three are taken as they are. Train and val alone: corpus.val_images and corpus.test_images
    are drawn from val, whose rest is left out. Train and test alone: corpus.val_images are drawn
    from train. One alone, or none named: all three are drawn.
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


def _counted(splits: Iterable[str]) -> str:
    there = list(splits)
    return ", ".join(f"{there.count(kind):,} {kind}" for kind in ("val", "test") if kind in there)


def _held_out(
    names: Sequence[str], kinds: Sequence[str], rest: str, options: Options
) -> dict[str, str]:
    """A split for each image, drawn by seed, and `rest` for the others; a share gives one at
    least."""
    asked = {kind: getattr(options.corpus, f"{kind}_images") for kind in kinds}
    drawn = []
    for kind, value in asked.items():
        share = isinstance(value, float)
        drawn += [kind] * (max(1, round(value * len(names))) if share else value)
    if len(names) < len(drawn) + bool(rest):
        numbers = " and ".join(f"corpus.{kind}_images = {value}" for kind, value in asked.items())
        raise WorkbenchError(
            f"{numbers}, but raw has {counted(len(names), 'image')} to draw them from"
            + (" and to train on" if rest else ""),
            "make them smaller in params.yaml",
        )
    drawn += [rest] * (len(names) - len(drawn))
    order = np.random.default_rng([options.seed, 0x5B117]).permutation(len(names))
    ranked = sorted(names)
    splits = {ranked[n]: kind for n, kind in zip(order, drawn, strict=True)}
    return {name: splits[name] for name in names}
