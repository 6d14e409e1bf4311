"""Images that may be several files: smaller copies and masks have the names of the photographs.

A folder that holds a file for every name may hold the thumbnails of photographs that lie in several
folders. Nothing in the names says so, so the user is asked.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pipeline.corpus.dataset.folder import (
    Folder,
    joined,
    shared_parts,
    with_slashes,
    without_ending,
)
from pipeline.corpus.dataset.splits import split_in_path
from pipeline.runtime.errors import WorkbenchError, listing

# Names that published datasets give the folder of their images; they only break ties.
IMAGE_FOLDERS = (
    "Images",
    "images",
    "flickr30k_images",
    "flickr30k-images",
    "Flicker8k_Dataset",
    "Flickr8k_Dataset",
    "imgs",
)


def check_copies(folder: Folder, raw: Path, found: Mapping[str, str]) -> None:
    """Refuse images of which most have other files of their names, in folders that fit as well.

    Args:
        folder: the files below the folder that images are looked for in.
        raw: the user's folder, which is that one or lies above it.
        found: names in the annotations to paths inside the first.

    Raises:
        WorkbenchError: such images, or any of which the other lies in the folder of another split;
            the message says which folders could be meant.
    """
    found = {name: path for name, path in found.items() if _is_there(folder, path)}
    keys = {name: _key_of(name, path) for name, path in found.items()}
    wanted = set(keys.values())
    files: dict[tuple[bool, str], list[str]] = defaultdict(list)
    for place, own in folder.files.items():
        for file in own:
            for key in wanted.intersection(((True, file), (False, without_ending(file)))):
                files[key].append(joined(place, file))
    taken = set(found.values())
    several = {}
    of_splits = {}
    for name, path in found.items():
        others = [other for other in files[keys[name]] if other not in taken]
        fitting = [other for other in others if _fits_as_well(name, path, other)]
        if fitting:
            several[name] = [path, *others]
        if any(_are_of_two_splits(path, other) for other in fitting):
            of_splits[name] = [path, *others]
    if of_splits:
        raise WorkbenchError(
            _said(folder, of_splits),
            "name images with their folders in the annotations, as train/1.jpg",
        )
    if 2 * len(several) > len(found):
        raise several_files(folder, raw, several)


def _is_there(folder: Folder, path: str) -> bool:
    place, _, file = path.rpartition("/")
    return file in folder.files.get(place, ())


def _are_of_two_splits(first: str, second: str) -> bool:
    """Whether two files lie in folders of different splits, whose images may be numbered anew."""
    splits = {split_in_path(path.rpartition("/")[0]) for path in (first, second)}
    return len(splits) == 2 and None not in splits


def _key_of(name: str, path: str) -> tuple[bool, str]:
    """What files of an image are called: whether exactly so, and the name; without its ending
    where the annotations have none, or another."""
    file = path.rpartition("/")[2]
    is_exact = file == with_slashes(name).rpartition("/")[2]
    return (True, file) if is_exact else (False, without_ending(file))


def _fits_as_well(name: str, path: str, other: str) -> bool:
    """Whether another file fits an image's name as well as its own, by the folders of each."""
    place = path.rpartition("/")[0]
    if place in ("", *IMAGE_FOLDERS):
        return False
    above = with_slashes(name).rpartition("/")[0]
    return shared_parts(above, other.rpartition("/")[0]) >= shared_parts(above, place)


def files_of(
    folder: Folder, names: Sequence[str], key: Callable[[str], str]
) -> dict[str, list[str]]:
    """The files that each of some images could be.

    Args:
        folder: the files below the folder that images are looked for in.
        names: as the annotations have them.
        key: what of the last parts of a name and of a path must be equal.

    Returns:
        The paths of those names that are the names of several files.
    """
    wanted = {name: key(with_slashes(name).rpartition("/")[2]) for name in names}
    files: dict[str, list[str]] = {file: [] for file in wanted.values()}
    for path in folder:
        file = key(path.rpartition("/")[2])
        if file in files:
            files[file].append(path)
    return {name: files[file] for name, file in wanted.items() if len(files[file]) > 1}


def several_files(
    folder: Folder, raw: Path, several: Mapping[str, Sequence[str]]
) -> WorkbenchError:
    """The error for images that may be several files each.

    Args:
        folder: the files below the folder that images are looked for in.
        raw: the user's folder, which is that one or lies above it.
        several: by their names in the annotations paths inside the first.

    Returns:
        The error; its hint has the folders that hold one file of every name, which corpus.images
        can name.
    """
    whole = set.intersection(*(_folders_of_one(own) for own in several.values()))
    above = folder.root.relative_to(raw).as_posix()
    places = sorted(
        place if above == "." else f"{above}/{place}"
        for place in whole
        if place.rpartition("/")[0] not in whole
    )
    hint = "move the other files away"
    if len(places) == 1:
        hint = f"if those in {places[0]} are meant, set corpus.images: {places[0]} in params.yaml, "
        hint += f"else move {places[0]} away"
    elif places:
        hint = f"choose with corpus.images in params.yaml: {listing(places)}"
    return WorkbenchError(_said(folder, several), hint)


def _said(folder: Folder, several: Mapping[str, Sequence[str]]) -> str:
    """What the error says of images that may be several files each."""
    name, paths = next(iter(several.items()))
    return (
        f"{folder.root}: {len(several):,} images of the annotations have several files: {name!r} "
        f"may be {listing(paths, 3)}"
    )


def _folders_of_one(paths: Sequence[str]) -> set[str]:
    """The folders that one of some files lies in, or below, but for the root."""
    folders = Counter(path[:end] for path in paths for end, sign in enumerate(path) if sign == "/")
    return {place for place, number in folders.items() if number == 1}
