"""Equal things under different names: photographs with the same bytes, captions with the same text.

A copy of a photograph (`IMG_1.jpg`, `IMG_1 (1).jpg`) in training and in test makes the test easier
than it is, and in one split it counts as a wrong answer to its own twin's captions. So copies are
one group: one split, and each the right answer of the other.
"""

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from pipeline.corpus.tables import SPLITS
from pipeline.runtime.errors import counted, listing
from pipeline.runtime.files import sha256_file


def equal_photographs(root: Path, image_ids: Sequence[str]) -> list[list[str]]:
    """Images whose files have the same bytes.

    Only files of one size are read, so that a large folder without copies costs little.

    Args:
        root: the folder that the images are paths in.
        image_ids: the images; those without a file are passed over.

    Returns:
        The images of every photograph that is there more than once, in the order of `image_ids`.
    """
    sizes: dict[int, list[str]] = defaultdict(list)
    for image_id in image_ids:
        try:
            size = os.stat(os.path.join(root, image_id)).st_size
        except (OSError, ValueError):
            continue  # the check of all files says what is wrong with it
        if size:
            sizes[size].append(image_id)
    copies: dict[str, list[str]] = defaultdict(list)
    for images in sizes.values():
        if len(images) > 1:
            for image_id in images:
                copies[_digest(root / image_id)].append(image_id)
    return [images for digest, images in copies.items() if digest and len(images) > 1]


def _digest(path: Path) -> str:
    """The SHA-256 of a file, empty where it cannot be read: the check of all files says why."""
    try:
        return sha256_file(path)
    except OSError:
        return ""


def in_one_split(
    copies: Sequence[Sequence[str]], named: Mapping[str, str | None]
) -> list[list[str]]:
    """Equal photographs that may be one group: those that the files put into one split.

    Args:
        copies: the images of every photograph that is there more than once.
        named: image_id to the split that the files name, None for one that is drawn later.

    Returns:
        The same images, divided by their split; those left alone are no copies.
    """
    divided: list[list[str]] = []
    for images in copies:
        by_split: dict[str | None, list[str]] = defaultdict(list)
        for image in images:
            by_split[named[image]].append(image)
        divided += [own for own in by_split.values() if len(own) > 1]
    return divided


def joined_groups(
    groups: Mapping[str, str], copies: Sequence[Sequence[str]]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Groups in which equal photographs are together.

    Args:
        groups: image_id to the group that the source gives it; its own id where it gives none.
        copies: the images of every photograph that is there more than once.

    Returns:
        The group of every image: of groups that copies join, the first one's. And a remark that
        counts and names the copies, none without any.
    """
    leader = {group: group for group in groups.values()}

    def first_of(group: str) -> str:
        while leader[group] != group:
            group = leader[group]
        return group

    for images in copies:
        together = sorted({first_of(groups[image]) for image in images})
        for group in together[1:]:
            leader[group] = together[0]
    joined = {image: first_of(group) for image, group in groups.items()}
    if not copies:
        return joined, ()
    number = sum(map(len, copies))
    shown = listing((" = ".join(images) for images in copies), 3)
    return joined, (
        f"equal photographs under different names: {number:,} images are "
        f"{counted(len(copies), 'photograph')} ({shown}); those of one photograph are one group, "
        "in one split",
    )


def divided_photographs(images: pd.DataFrame) -> tuple[str, ...]:
    """Say which equal photographs the files of the dataset put into different splits.

    Args:
        images: columns image_id, split and sha256 of checked images.

    Returns:
        A remark, none where every photograph is in one split.
    """
    splits = images.groupby("sha256")["split"].nunique()
    divided = images[images["sha256"].isin(splits.index[splits > 1])]
    if divided.empty:
        return ()
    training = set(divided["sha256"][divided["split"] == "train"])
    held_out = divided[(divided["split"] != "train") & divided["sha256"].isin(training)]
    numbers = [f"{(divided['split'] == split).sum():,} {split}" for split in SPLITS]
    examples = listing(
        (" = ".join(own["image_id"]) for _, own in divided.groupby("sha256", sort=False)), 3
    )
    return (
        f"equal photographs in different splits, as the files of the dataset say: "
        f"{', '.join(numbers)} ({examples}); {counted(len(held_out), 'image')} of val and test "
        "can be known from training",
    )


def repeated_captions(captions: pd.DataFrame, groups: Mapping[str, str]) -> tuple[str, ...]:
    """Say how many test captions describe several images, which limits what R@1 can be.

    Args:
        captions: columns image_id, split and tokens.
        groups: image_id to its group; images of one group are the same answer.

    Returns:
        A remark, none where no caption of the test split is that of images of two groups.
    """
    test = captions[captions["split"] == "test"]
    if test.empty:
        return ()
    words = test["tokens"].map(" ".join)
    owners = pd.DataFrame({"words": words, "group": test["image_id"].map(groups)})
    different = owners.groupby("words")["group"].nunique()
    several = different[different > 1]
    if several.empty:
        return ()
    repeated = owners[words.isin(several.index)]
    # Of equal captions with g groups of images a model can be right about one group in g at rank 1.
    chances = repeated["words"].map(1.0 / different)
    reachable = 100.0 * (len(owners) - len(repeated) + chances.sum()) / len(owners)
    return (
        f"equal captions: {len(repeated):,} of {len(owners):,} test captions also describe other "
        f"images, as {several.index[0]!r} does; R@1 of text to image can be at most about "
        f"{reachable:.1f}. corpus.positives: equal_captions makes them right answers",
    )
