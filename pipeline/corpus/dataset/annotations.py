"""Files of annotations: their values checked, and what they name brought together as a Source.

A reader of annotations reads values (`read_annotations`), cuts them into images with a split and
captions, and ends with `described_source`, which finds the images and settles their splits.
"""

import json
import os
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from itertools import count
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from pipeline.corpus.dataset.cells import NOTHING
from pipeline.corpus.dataset.folder import IMAGE_ENDINGS, Folder, joined
from pipeline.corpus.dataset.locate import Located, is_among, locate_images
from pipeline.corpus.dataset.rejected import rejected_folders
from pipeline.corpus.dataset.source import Options, Source, features_from
from pipeline.corpus.dataset.split_lists import (
    said_otherwise_by_folders,
    told_otherwise_by_folders,
    with_folder_splits,
    with_split_lists,
    with_splits_in_names,
)
from pipeline.corpus.dataset.splits import (
    equal_photographs,
    in_one_split,
    joined_groups,
    settled_splits,
    split_in_path,
    without_split,
)
from pipeline.corpus.tables import SPLITS
from pipeline.runtime.errors import WorkbenchError, counted, listing
from pipeline.runtime.text import Problems, read_text

BETWEEN_IMAGES = (",", ";", "|", " ")
SHOWN = 10  # faults of a file that are spelt out
WHOLE = ("missing", "value_error", "json_invalid", "too_short")  # errors that are not of one value


def read_annotations(path: Path, kind: Any, hint: str) -> Any:
    """The JSON value of a file, checked against a type.

    Args:
        path: the file.
        kind: a type that pydantic knows. Values are not converted; keys that it lacks are passed
            over.
        hint: what is expected, for the message.

    Returns:
        The value, of type `kind`.

    Raises:
        WorkbenchError: the value is none of `kind`; the first SHOWN faults are named by their
            places, as `images[0].split = 'dev'`.
    """
    adapter = TypeAdapter(kind)
    text = read_text(path)
    try:
        return adapter.validate_json(text, strict=True)
    except ValidationError as error:
        raise refusal(path, error, hint) from None


def checked(path: Path, value: object, kind: Any, hint: str) -> Any:
    """A value of a file that is decoded, checked against a type.

    Args:
        path: the file, for the message.
        value: of JSON.
        kind: as in `read_annotations`.
        hint: what is expected, for the message.

    Returns:
        The value, of type `kind`.

    Raises:
        WorkbenchError: as `read_annotations`.
    """
    try:
        return TypeAdapter(kind).validate_python(value, strict=True)
    except ValidationError as error:
        raise refusal(path, error, hint) from None


def check_keys(path: Path) -> None:
    """Raise WorkbenchError for keys of a mapping that are there twice: of their values only the
    last would be read.

    Args:
        path: a file of JSON that is a mapping.

    Raises:
        WorkbenchError: names the keys.
    """
    pairs: list[tuple[str, object]] = json.loads(read_text(path), object_pairs_hook=list)
    counts = Counter(key for key, _ in pairs)
    problems = Problems(str(path))
    problems.add("keys more than once", (key for key, number in counts.items() if number > 1))
    problems.raise_if_any('give each key all of its captions as a list: {"1.jpg": ["...", "..."]}')


def read_json_lines(path: Path, kind: Any, hint: str) -> list[Any]:
    """The values of a file that has a JSON value on each line.

    Args:
        path: the file; empty lines are passed over.
        kind: the type of a value, as pydantic knows it. Values are not converted.
        hint: what is expected, for the message.

    Returns:
        The values in their order.

    Raises:
        WorkbenchError: the faults of the first lines that have some.
    """
    adapter = TypeAdapter(kind)
    values: list[Any] = []
    faults: list[str] = []
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if not line.strip():
            continue
        try:
            values.append(adapter.validate_json(line, strict=True))
        except ValidationError as error:
            faults += (f"line {number}, {_fault(one)}" for one in error.errors(include_url=False))
        if len(faults) >= SHOWN:
            break
    if faults:
        raise WorkbenchError(f"{path}: " + "\n  ".join(faults[:SHOWN]), hint)
    return values


def refusal(path: Path, error: ValidationError, hint: str) -> WorkbenchError:
    """The error for a file whose value is not of its type.

    Args:
        path: the file.
        error: what pydantic found; its first SHOWN faults are named.
        hint: what is expected.

    Returns:
        The error, not raised: a line per fault below the path, and how many more there are.
    """
    faults = [_fault(detail) for detail in error.errors(include_url=False)]
    more = [f"and {len(faults) - SHOWN:,} more"] if len(faults) > SHOWN else []
    return WorkbenchError(f"{path}: " + "\n  ".join([*faults[:SHOWN], *more]), hint)


def _fault(detail: ErrorDetails) -> str:
    """`images[0].split = 'dev': must be 'train' or 'val'`, the value cut short."""
    field = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in detail["loc"])
    value = detail["input"]
    text = detail["msg"].removeprefix("Value error, ")
    if detail["type"] not in WHOLE and isinstance(value, str | int | float | None):
        field += f" = {value!r:.40}"
    return f"{field}: {text}".lstrip(".: ").replace("Input should", "must")


def described_source(
    folder: Folder,
    options: Options,
    splits: Mapping[str, str | None],
    captions: pd.DataFrame,
    groups: Mapping[str, str] | None = None,
    remarks: Sequence[str] = (),
    files: Sequence[str] = (),
    read: Sequence[str] = (),
) -> Source:
    """Find the images that annotations name, and settle their splits.

    Args:
        folder: the files of the user's folder.
        options: corpus.images, corpus.split_files, and how splits are drawn.
        splits: for every image, as the annotations name it and in their order, train, val or test;
            None where they give none (`settled_splits` says what happens then). Lists of images
            that lie beside them divide what they do not (`with_split_lists`), else the folders of
            the images (`with_folder_splits`).
        captions: columns caption_id, image_id (the name in the annotations), text and, where the
            annotations have them, tokens.
        groups: the group of every image; None: each image is its own.
        remarks: lines for the user about what the reader assumed or left out.
        files: the annotations, as paths inside the user's folder; lists may divide the images in
            the folder of the first one.
        read: further files that were read, so that none of them is called unread.

    Returns:
        The source, its ids paths inside its root, its groups with equal photographs together. Where
        the folder has features and no photographs, its ids are the names, and no image has a file.

    Raises:
        WorkbenchError: images that cannot be found, or splits that cannot be drawn.
    """
    _check_one_image_each(folder, splits)
    splits, lists, list_files = with_split_lists(folder, files, splits, options)
    is_chosen = options.corpus.split_files is not None
    located = locate_images(folder, options.corpus.images, list(splits))
    named = {located.path(name): split for name, split in splits.items()}
    if set(named.values()) == {None} and not is_chosen:
        named, folders = with_folder_splits(folder, located.root, named)
        lists += folders
    elif list_files and not is_chosen:
        lists += said_otherwise_by_folders(folder, located.root, named)
    elif not is_chosen:
        lists += told_otherwise_by_folders(named)
    if set(named.values()) == {None} and not is_chosen:
        named, names = with_splits_in_names(named)
        lists += names
    _check_training(folder, files, named)
    own = {image: image for image in named}
    if groups is not None:
        own |= {located.path(name): group for name, group in groups.items() if name in splits}
    copies = [] if located.vectors else equal_photographs(located.root, list(named))
    together, equal = joined_groups(own, in_one_split(copies, named))
    missing = _without_files(located, named)
    _check_whole_splits(folder, files, named, missing)
    unusable = _unusable(located, named, captions, missing)
    settled, drawn = settled_splits(named, options, together, unusable)
    images = pd.DataFrame(
        {
            "image_id": list(settled),
            "split": list(settled.values()),
            "group": [together[image] for image in settled],
        }
    )
    if located.moved:
        moved = [located.path(name) for name in captions["image_id"].tolist()]
        captions = captions.assign(image_id=moved)
    left_out = named.keys() - settled.keys()
    if left_out:
        # a name that no image has stays: the check of all ids refuses it
        captions = captions[~captions["image_id"].isin(left_out)].reset_index(drop=True)
    without = () if located.vectors else _without_captions(folder, options, located.root, named)
    return Source(
        root=located.root,
        images=images,
        captions=captions,
        remarks=(
            *(*remarks, *lists, *located.remarks, *without),
            *(*rejected_folders(settled), *equal, *drawn),
        ),
        has_files=not located.vectors,
        settings=features_from(folder.root / located.vectors[0]) if located.vectors else (),
        folder=folder,
        files=(*files, *read, *list_files, *located.vectors),
    )


def _check_one_image_each(folder: Folder, names: Iterable[str]) -> None:
    """Refuse names that are several images, as `1.jpg, 2.jpg` and `1.jpg|2.jpg`, of which two are
    there: one alone would be read."""
    problems = Problems(str(folder.root))
    several = (ascii(name) for name in names if len(_images_in(folder, name)) > 1)
    problems.add("cells with several images", several)
    problems.raise_if_any(
        "give each image a row of its own, with the caption; JSON may have a list of images: "
        '{"image": ["1.jpg", "2.jpg"], "caption": "..."}'
    )


def _images_in(folder: Folder, name: str) -> list[str]:
    """The images that are there, of the parts of a name that all end as images do; empty for a
    name of one image."""
    for sign in BETWEEN_IMAGES:
        parts = [part.strip() for part in name.split(sign)] if sign in name else []
        parts = [part for part in parts if part]
        if len(parts) > 1 and all(part.lower().endswith(IMAGE_ENDINGS) for part in parts):
            found = [part for part in parts if is_among(part, folder.stems)]
            return [] if name in folder.images else found
    return []


def _without_files(located: Located, named: Collection[str]) -> set[str]:
    """The images that are not there; none where features stand for them."""
    root = f"{located.root}{os.sep}"
    if located.vectors:
        return set()
    return {image for image in named if not os.path.exists(root + image)}


def _check_whole_splits(
    folder: Folder, files: Sequence[str], named: Mapping[str, str | None], missing: Set[str]
) -> None:
    """Raise WorkbenchError where no image of a split is there, but some of others are: of a large
    dataset often one split is downloaded."""
    there = {named[image] for image in named if image not in missing}
    absent = [split for split in SPLITS if split in {*named.values()} - there]
    if not absent or not there:
        return
    number = sum(split in absent for split in named.values())
    own = [file for file in files if split_in_path(file) in absent]
    others = [file for file in files if file not in own]
    way_out = "put them there"
    if own and len(others) == 1:
        way_out += f", or set corpus.annotations: {others[0]} in params.yaml, to draw splits of it"
    elif own and "train" not in absent:
        way_out += f", or move {listing(own)} away"
    example = next(image for image in named if named[image] in absent)
    raise WorkbenchError(
        f"{folder.root}: none of the {counted(number, 'image')} of split {' and '.join(absent)} is "
        f"there, such as {example}",
        way_out,
    )


def _unusable(
    located: Located, named: Collection[str], captions: pd.DataFrame, missing: Set[str]
) -> frozenset[str]:
    """The images that the check of all leaves out or refuses: those without a file, or without a
    caption. No split is drawn from them."""
    have_words = ~captions["text"].astype(str).str.strip().isin({"", *NOTHING})
    moved = {located.path(name) for name in captions["image_id"][have_words]}
    without = {image for image in named if image not in moved} | missing
    return frozenset(without) if len(without) < len(named) else frozenset()


def _check_training(folder: Folder, files: Sequence[str], named: Mapping[str, str | None]) -> None:
    """Raise WorkbenchError for splits without one to train on where a file that is called so lies
    there, and is not read."""
    splits = {split for split in named.values() if split is not None}
    if "train" in splits or len(splits) < 2:
        return
    endings = tuple({Path(file).suffix for file in files})
    left = [
        file
        for file in folder.others
        if file not in files and file.endswith(endings) and split_in_path(file) == "train"
    ]
    alike = [file for file in left if without_split(file) in set(map(without_split, files))]
    left = alike or left
    if left:
        raise WorkbenchError(
            f"{folder.root}: {listing(files, 3)} have the splits {' and '.join(sorted(splits))}, "
            f"and {listing(left, 3)} is not read: its name, or what is in it, differs",
            "give the files of all splits one form, and names that differ in the word for the "
            "split alone, as train.json and test.json",
        )


def _without_captions(
    folder: Folder, options: Options, root: Path, named: Collection[str]
) -> tuple[str, ...]:
    """A remark on the images of a folder that the annotations do not name, none without any.

    Args:
        folder: the files of the user's folder.
        options: corpus.images, the folder inside it that images are looked for in.
        root: of the images that were found.
        named: their paths inside it.
    """
    above = root.relative_to(folder.root).as_posix()
    described = {joined(above, name) for name in named} if above != "." else set(named)
    chosen = options.corpus.images
    places = folder.images if chosen is None else folder.below(chosen.rstrip("/")).images
    left = sorted(places - described)
    if not left:
        return ()
    return (f"left out: {counted(len(left), 'image')} without captions: {listing(left, 3)}",)


def check_once(path: Path, names: Iterable[str]) -> None:
    """Refuse images that a file describes in more than one record.

    Args:
        path: the file, for the message.
        names: the image of every record.

    Raises:
        WorkbenchError: such images, all of them named.
    """
    problems = Problems(str(path))
    repeated = (ascii(name) for name, number in Counter(names).items() if number > 1)
    problems.add("images more than once", repeated)
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
    for name, split in dict.fromkeys(named):
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
    numbers: dict[str, Iterator[int]] = defaultdict(count)
    return [f"{image}#{next(numbers[image])}" for image in images]


def caption_ids(
    files: Sequence[Sequence[str | None]], images: Sequence[str]
) -> tuple[list[str], tuple[str, ...]]:
    """Ids of the captions of one or several files.

    Args:
        files: of each file the ids that it gives its captions, None for a caption without one.
        images: the image of every caption of all files.

    Returns:
        The files' own ids and, for captions without one, `<image>#<number>`; where two files have
        an id in common, such ids for all captions. And a line that says this, else none.
    """
    ids = [own for file in files for own in file]
    own_ids = [set(file) - {None} for file in files]
    are_shared = len(set().union(*own_ids)) < sum(map(len, own_ids))
    if are_shared:
        remark = "ids of captions are in several files: captions are numbered image by image"
        return numbered(images), (remark,)
    numbers = numbered(images) if None in ids else [""] * len(ids)  # which cost time
    return [number if own is None else own for own, number in zip(ids, numbers, strict=True)], ()
