"""What readers of annotation files share: from names and captions to a Source."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pandas as pd

from pipeline.dataset.equal import equal_photographs, in_one_split, joined_groups
from pipeline.dataset.locate import locate_images
from pipeline.dataset.source import Options, Source
from pipeline.dataset.splits import settled_splits
from pipeline.runtime.text import Problems


def described_source(
    raw: Path,
    options: Options,
    splits: Mapping[str, str | None],
    captions: pd.DataFrame,
    groups: Mapping[str, str] | None = None,
    remarks: Sequence[str] = (),
) -> Source:
    """Find the images that annotations name, and settle their splits.

    Args:
        raw: the user's folder.
        options: corpus.images, and how splits are drawn.
        splits: for every image, as the annotations name it and in their order, train, val or test;
            None where they give none (`settled_splits` says what happens then).
        captions: columns caption_id, image_id (the name in the annotations), text and, where the
            annotations have them, tokens.
        groups: the group of every image; None: each image is its own.
        remarks: lines for the user about what the reader assumed or left out.

    Returns:
        The source, its ids paths inside its root, its groups with equal photographs together.

    Raises:
        WorkbenchError: images that cannot be found, or splits that cannot be drawn.
    """
    names = list(splits)
    located = locate_images(raw, options.corpus.images, names)
    ids = located.ids
    own = {ids[name]: groups[name] if groups else ids[name] for name in names}
    named = {ids[name]: split for name, split in splits.items()}
    copies = equal_photographs(located.root, list(own))
    together, equal = joined_groups(own, in_one_split(copies, named))
    settled, drawn = settled_splits(named, options, together)
    images = pd.DataFrame(
        {
            "image_id": list(settled),
            "split": list(settled.values()),
            "group": [together[image] for image in settled],
        }
    )
    left_out = {name for name in names if ids[name] not in settled}
    if left_out:
        is_kept = [name not in left_out for name in captions["image_id"].tolist()]
        captions = captions[is_kept].reset_index(drop=True)
    # a name that no image has stays as it is: the check of all ids refuses it
    described = [ids.get(name, name) for name in captions["image_id"].tolist()]
    return Source(
        root=located.root,
        images=images,
        captions=captions.assign(image_id=described),
        remarks=(*remarks, *located.remarks, *equal, *drawn),
    )


def check_once(path: Path, names: Iterable[str]) -> None:
    """Raise WorkbenchError for images that a file describes in more than one record.

    Args:
        path: the file, for the message.
        names: the image of every record.
    """
    problems = Problems(str(path))
    problems.add("images more than once", (ascii(n) for n, k in Counter(names).items() if k > 1))
    problems.raise_if_any("mend the annotations")


def one_split_each(place: Path, named: Iterable[tuple[str, str | None]]) -> dict[str, str | None]:
    """The split of every image, of records that may name an image several times.

    Args:
        place: the file or folder of the annotations, for the message.
        named: the image of every record with the split that it is in, None for one without.

    Returns:
        The images in the order in which they first come.

    Raises:
        WorkbenchError: images in more than one split.
    """
    splits: dict[str, str | None] = {}
    several: dict[str, None] = {}
    for name, split in named:
        if splits.setdefault(name, split) != split:
            several[name] = None
    problems = Problems(str(place))
    problems.add("images in more than one split", map(ascii, several))
    problems.raise_if_any("an image that is trained on must not be tested on: mend the annotations")
    return splits


def numbered(images: Iterable[str]) -> list[str]:
    """Ids of captions that have none of their own: `<image>#0`, `<image>#1`, ...

    Args:
        images: the image of every caption, in the captions' order.
    """
    counts: dict[str, int] = {}
    ids = []
    for image in images:
        number = counts.get(image, 0)
        counts[image] = number + 1
        ids.append(f"{image}#{number}")
    return ids
