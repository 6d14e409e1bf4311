"""Where the images of a dataset are: their files, found by the names that its annotations give.

Annotations name images as they lay on somebody's disk: `1.jpg` in a folder of any name,
`images/1.jpg`, `/home/me/flickr/images/1.jpg`, or with backslashes. So a folder of images is known
by the files that it holds, not by its own name, and an image by the last parts of its name.
Whatever is assumed is said.
"""

import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn
from urllib.parse import unquote

from pipeline.corpus.dataset.copies import (
    IMAGE_FOLDERS,
    check_copies,
    files_of,
    several_files,
)
from pipeline.corpus.dataset.folder import (
    IMAGE_ENDINGS,
    Folder,
    depth,
    joined,
    list_folder,
    shared_parts,
    stem_of,
    with_slashes,
    without_ending,
)
from pipeline.corpus.dataset.source import find_in_raw
from pipeline.corpus.dataset.splits import split_in_path
from pipeline.runtime.errors import WorkbenchError, counted, listing
from pipeline.runtime.section import VECTOR_FILES
from pipeline.runtime.text import Problems, is_inside

# MS-COCO's names of 2014, COCO_val2014_000000000042.jpg, whose images the downloads of 2017 have as
# 000000000042.jpg, divided in another way among the folders.
_COCO_2014 = re.compile(r"COCO_(?:train|val|test)20\d\d_(\d{12}\.jpg)")
# What names of images on somebody's disk, or of addresses, begin with.
_BEGINNING = re.compile(r"^(?:[A-Za-z][A-Za-z0-9+.-]*:)?/*")
# What Label Studio writes before the name of a file that was uploaded to it; no UUID.
_UPLOADED = re.compile(r"[0-9a-f]{8}-(?![0-9a-f]{4}-)")
# What Roboflow writes behind it.
_EXPORTED = re.compile(r"_(?:jpe?g|png|webp|bmp)\.rf\.[0-9A-Za-z]{16,}")
_WEB = re.compile(r"https?://", re.IGNORECASE)
# A name that counts files: `7`, `IMG_0007`. Longer numbers are ids, which no two images share.
_COUNTED = re.compile(r"(?:[^\W\d_]+[ _-]?)?\d{1,6}")
MOST_OF = 0.9  # of images that have files, for numbers of addresses to be no chance
HALF = 0.5  # likewise, where the files lie in a folder that is called as the address says
# Endings of files that may hold features of images.
VECTORS = tuple(ending for ending in VECTOR_FILES if ending != ".parquet")
ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".rar", ".7z")


@dataclass(frozen=True)
class Located:
    """Where images are.

    root: the folder that ids are paths in. moved: by the names of images whose file has another
    path in root, this path, with slashes; all other names are paths themselves, or of no file.
    remarks: lines for the user. vectors: files of features, where no image has a file.
    """

    root: Path
    moved: Mapping[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    vectors: tuple[str, ...] = ()

    def path(self, name: str) -> str:
        """The path inside the root of an image, by its name in the annotations."""
        return self.moved.get(name, name)


def locate_images(folder: Folder, chosen: str | None, names: Sequence[str]) -> Located:
    """Find the files of images.

    Args:
        folder: the files of the user's folder.
        chosen: corpus.images, the folder inside it that images are looked for in, and below it;
            None for any.
        names: the images as the annotations name them, each once.

    Returns:
        The root and a path inside it for every name. Where one folder holds most names as they are
        written, it is the root and they are the paths; otherwise the root is the user's or the
        chosen folder. A name without a file keeps its own text: the check of all files names it.

    Raises:
        WorkbenchError: none of the names is a file, several folders hold all of them, or two names
            lead to one file.
    """
    raw = folder.root
    if chosen is not None:
        folder = list_folder(find_in_raw(raw, chosen, "corpus.images", is_folder=True))
    base = folder.root
    usual = () if chosen is not None else IMAGE_FOLDERS
    wanted: dict[str, set[str]] = defaultdict(set)  # names that are plain paths, by their folder
    for name in filter(is_inside, names):
        above, _, file = name.rpartition("/")
        wanted[above].add(file)
    if sum(map(len, wanted.values())) == len(names):
        whole = [place for place in (*usual, "") if _has_all(base / place, wanted)]
        if whole:
            return Located(base / _only(base, whole))
    roots = _roots(folder, wanted)
    most = max(roots.values(), default=0)
    found = _by_last_parts(folder, names) if most < len(names) else {}
    if most >= max(1, len(found)):
        root = _best_root(base, roots, most)
        if root in (*usual, ""):
            return Located(base / root)
        check_copies(folder, raw, {name: joined(root, name) for name in names})
        remark = f"images: {most:,} of {len(names):,} are in {base / root}"
        return Located(base / root, remarks=(remark,))
    if not found and chosen is None and not folder.photographs:
        vectors = folder.matching(*(f"*{ending}" for ending in VECTORS), deepest=1)
        if vectors and _folder_beside(raw, names) is None:
            return _without_files(folder, names, vectors)
    if not found:
        _raise_none_found(folder, raw, base, names)
    _check_no_chance(base, names, found)
    _check_whole_names(folder, [name for name in names if name not in found])
    _check_one_to_one(base, found)
    check_copies(folder, raw, found)
    absent = {name: _below(name) for name in names if name not in found}
    moved = found | {name: path for name, path in absent.items() if path != name}
    return Located(base, moved, (_where_found(names, found),))


def is_among(name: str, stems: Set[str]) -> bool:
    """Whether an image of the annotations may be there, by the last part of its name.

    Args:
        name: the image as the annotations name it.
        stems: the files' names without endings, in lower case (`Folder.stems`).

    Returns:
        True where a file has the image's name, or the name that MS-COCO's other year gave it.
    """
    return has_its_name(name, stems) or without_ending(_name_of_2017(name)) in stems


def has_its_name(name: str, stems: Set[str]) -> bool:
    """Whether a file has an image's last part of the name: not the name that MS-COCO gave the same
    image in another year, which `is_among` knows, too.

    Args:
        name: the image as the annotations name it.
        stems: the files' names without endings, in lower case (`Folder.stems`).

    Returns:
        True where a file has it, whatever folder and ending either has.
    """
    return stem_of(name) in stems


def told_apart(
    folder: Folder, named: Iterable[tuple[str, str | None]]
) -> dict[tuple[str, str], str]:
    """The images of names that annotations have in several splits: those in the folders of each.

    Args:
        folder: the files of the user's folder.
        named: names of images with their splits, None for none.

    Returns:
        By name and split the path inside the user's folder, where some name has several splits, and
        folders that are called so (`train/images`) hold all names of each; else empty.
    """
    names: dict[str | None, dict[str, None]] = defaultdict(dict)
    for name, split in named:
        names[split][name] = None
    counts = Counter(name for own in names.values() for name in own)
    if None in names or max(counts.values(), default=0) < 2:
        return {}
    found: dict[tuple[str, str], str] = {}
    for split, own in names.items():
        places = {
            place: files for place, files in folder.files.items() if split_in_path(place) == split
        }
        paths = _by_last_parts(Folder(folder.root, places), list(own))
        if len(paths) < len(own):
            return {}
        found |= {(name, split or ""): path for name, path in paths.items()}
    return found


def _has_all(root: Path, wanted: Mapping[str, Set[str]]) -> bool:
    """Whether a folder holds all names as they are written, hidden ones, too.

    Args:
        root: the folder.
        wanted: the names of files by their folder inside the root.
    """
    for above, files in wanted.items():
        place = root / above
        if not place.is_dir() or not files <= set(os.listdir(place)):
            return False
    return bool(wanted)


def _only(base: Path, places: Sequence[str]) -> str:
    """The one folder of several that hold all images; links to the same folder count as one."""
    different = {(base / place).resolve(): place for place in reversed(places)}
    if len(different) > 1:
        shown = listing(place or "the folder itself" for place in sorted(different.values()))
        raise WorkbenchError(
            f"{base}: several folders hold the images: {shown}",
            "choose one with corpus.images in params.yaml",
        )
    return places[0]


def _roots(folder: Folder, wanted: Mapping[str, Set[str]]) -> dict[str, int]:
    """Folders in which names are files, as they are written, and how many of them."""
    roots: dict[str, int] = defaultdict(int)
    for above, files in wanted.items():
        for path in folder.files:
            if above == "" or path == above or path.endswith("/" + above):
                number = len(files & folder.files[path])
                if number:
                    roots[path.removesuffix(above).rstrip("/")] += number
    return dict(roots)


def _best_root(base: Path, roots: Mapping[str, int], most: int) -> str:
    """The folder with the most names; of equals a usual one, then the root itself."""
    best = [root for root, number in roots.items() if number == most]
    usual = [root for root in (*IMAGE_FOLDERS, "") if root in best]
    if usual:
        return usual[0]
    return _only(base, sorted(best, key=lambda root: (depth(root), root)))


def _by_last_parts(folder: Folder, names: Sequence[str]) -> dict[str, str]:
    """The files of names whose last parts are those of a file: names that one folder of the
    annotations holds are looked for in one folder here."""
    groups: dict[str, dict[str, str]] = defaultdict(dict)  # by folder: file's name to written name
    for name in names:
        above, _, file = with_slashes(name).rpartition("/")
        if ".." not in above.split("/"):  # refused by the check of all names
            groups[above][file] = name
    found: dict[str, str] = {}
    missing: set[str] = set()
    for above, files in groups.items():
        own = {name: file for file, name in files.items()}
        for key in _KEYS:
            matches = _in_best_place(
                folder, above, files=files, key=key, alone=len(groups) == 1
            ) or (_unique(folder.files, own, key) if above == "" else {})
            if matches:
                found |= matches
                if _is_their_folder(above, files, matches):
                    missing |= own.keys() - matches.keys()
                break
    for key in _KEYS:
        undecided = _undecided(names, found.keys() | missing)
        if not undecided:
            break
        found |= _unique(_other_places(folder, found), undecided, key)
    of_2017 = {name: _name_of_2017(name) for name in names if name not in found}
    return found | _unique(folder.files, {name: file for name, file in of_2017.items() if file})


def _is_their_folder(above: str, files: Mapping[str, str], matches: Mapping[str, str]) -> bool:
    """Whether a folder of the annotations is here, so that what is not in it is not there: a file
    of the same name in another folder is another image.

    Args:
        above: the folder in the annotations, "" for none.
        files: its files' names, to the names as they are written.
        matches: those that were found in one folder here, to their paths.
    """
    place = next(iter(matches.values())).rpartition("/")[0]
    return shared_parts(above, place) > 0 and 2 * len(matches) > len(files)


def _below(name: str) -> str:
    """The name of an image that is not there as a path below the root, which it can be reported
    as; unchanged where it leads upwards, since that is refused."""
    plain = with_slashes(name)
    if is_inside(name) or ".." in plain.split("/"):
        return name
    return _BEGINNING.sub("", plain)


def _where_found(names: Sequence[str], found: Mapping[str, str]) -> str:
    """The remark on images that were found by the last part of their names. Where one folder holds
    most of them, the others may be strays, so these are shown."""
    folders = Counter(path.rpartition("/")[0] for path in found.values())
    most, number = folders.most_common(1)[0]
    others = [place for place in folders if place != most]
    shown = [name for name in names if name in found]
    divided = ""
    if others and 2 * number > len(found):
        places = listing((place or "the folder itself" for place in others), 3)
        divided = f", {number:,} in {most or 'the folder itself'}, the others in {places}"
        shown = [name for name in shown if found[name].rpartition("/")[0] != most]
    return (
        f"images: {len(found):,} of {len(names):,} are found by the last part of their names"
        f"{divided}: {shown[0]!r} is {found[shown[0]]}"
    )


def _of_address(file: str) -> str:
    """The name of a file without its ending, from an address: `my%20photo.jpg`."""
    return without_ending(unquote(file))


def _number(file: str) -> str:
    """The name of a file without its ending and, where it is a number, without zeros in front: a
    spreadsheet makes 42 of `000042`."""
    stem = without_ending(file)
    return stem.lstrip("0") or "0" if stem.isdecimal() and stem.isascii() else stem


def _before_upload(file: str) -> str:
    """The name of a file without its ending as it was before a program for labels had it."""
    stem = without_ending(file)
    match = _UPLOADED.match(stem)
    own = stem[match.end() :] if match is not None else stem
    return _EXPORTED.sub("", own)


# What of two names of files must be equal, the strictest first.
_KEYS: tuple[Callable[[str], str], ...] = (
    *(str, str.lower, without_ending, _of_address, _number, _before_upload),
)


def _name_of_2017(name: str) -> str:
    """What MS-COCO calls an image of 2014 since 2017; empty for any other name."""
    match = _COCO_2014.search(name)
    return "" if match is None else match[1]


def _in_best_place(
    folder: Folder, above: str, files: Mapping[str, str], key: Callable[[str], str], alone: bool
) -> dict[str, str]:
    """The files of one folder of the annotations in the folder here that fits best.

    Args:
        folder: the files here.
        above: the folder's path in the annotations, "" for none.
        files: its files' names, to the names as they are written.
        key: what of two names of files must be equal.
        alone: whether the annotations have this folder alone: it may then have any name here.

    Returns:
        Written names to paths inside the root; empty where two folders fit equally well.
    """
    keys = {file: key(file) for file in files}
    counts = Counter(keys.values())  # of names with one key nobody knows whose a file is
    wanted = {keys[file]: name for file, name in files.items() if counts[keys[file]] == 1}
    places: dict[tuple[int, int], list[str]] = defaultdict(list)
    for place, there in folder.files.items():
        shared = shared_parts(above, place)
        number = len(wanted.keys() & set(map(key, there))) if shared or alone or not above else 0
        if number:
            places[shared, number].append(place)
    if not places:
        return {}
    best = places[max(places)]
    if len(best) > 1:
        best = [place for place in best if place in ("", *IMAGE_FOLDERS)]
    if len(best) != 1:
        return {}
    here: dict[str, list[str]] = defaultdict(list)
    for file in folder.files[best[0]]:
        here[key(file)].append(file)
    unique = {kept: files[0] for kept, files in here.items() if len(files) == 1}
    return {name: joined(best[0], unique[kept]) for kept, name in wanted.items() if kept in unique}


def _other_places(folder: Folder, found: Mapping[str, str]) -> dict[str, frozenset[str]]:
    """The files of folders that hold none of those found, as `val/` does beside `train/`."""
    taken = {path.rpartition("/")[2] for path in found.values()}
    return {place: files for place, files in folder.files.items() if taken.isdisjoint(files)}


def _undecided(names: Sequence[str], decided: Set[str]) -> dict[str, str]:
    """The names that may be anywhere, to the last part of each that no other name has."""
    files = {name: with_slashes(name).rpartition("/")[2] for name in names}
    counts = Counter(files.values())
    return {
        name: file
        for name, file in files.items()
        if name not in decided and counts[file] == 1 and ".." not in with_slashes(name).split("/")
    }


def _unique(
    places: Mapping[str, Set[str]], wanted: Mapping[str, str], key: Callable[[str], str] = str
) -> dict[str, str]:
    """The paths of files that only one of some folders holds.

    Args:
        places: the names of files by folder.
        wanted: names in the annotations, to the names of their files.
        key: what of two names of files must be equal.

    Returns:
        Names in the annotations to paths; none of what two files, or two names, could be.
    """
    keys = {name: key(file) for name, file in wanted.items()}
    counts = Counter(keys.values())
    here: dict[str, list[str]] = defaultdict(list)
    for place, files in places.items() if keys else ():
        for file in files:
            if key(file) in counts:
                here[key(file)].append(joined(place, file))
    return {
        name: here[kept][0]
        for name, kept in keys.items()
        if counts[kept] == 1 and len(here[kept]) == 1
    }


def _check_no_chance(base: Path, names: Sequence[str], found: Mapping[str, str]) -> None:
    """Refuse addresses of which a part are files here by numbers: files that count the rows of a
    table, as downloads do, have such names, too, and are other images.

    Args:
        base: the folder that images are looked for in.
        names: the images as the annotations name them.
        found: those that were found by their last parts, to paths.
    """
    if not all(_WEB.match(name) for name in names):
        return
    are_shared = all(_shares_folder(name, path) for name, path in found.items())
    if len(found) > len(names) * (HALF if are_shared else MOST_OF):
        return
    if 2 * sum(_COUNTED.fullmatch(stem_of(name)) is not None for name in found) < len(found):
        return
    name, path = next(iter(found.items()))
    raise WorkbenchError(
        f"{base}: of {len(names):,} images named by addresses {len(found):,} have a file of the "
        f"same number, which may be chance: {name!r} may be {path}, or the files count the rows",
        "add a column with the file of each row to the annotations, and name it by "
        "corpus.image_field in params.yaml",
    )


def _shares_folder(name: str, path: str) -> bool:
    """Whether the last folder of an image's name and that of its file have one name."""
    return shared_parts(with_slashes(name).rpartition("/")[0], path.rpartition("/")[0]) > 0


def _check_whole_names(folder: Folder, names: Sequence[str]) -> None:
    """Refuse names without folders that are those of several files: the images are there, and which
    is meant is not said.

    Args:
        folder: the files below the folder that images are looked for in.
        names: those of no file that was found.
    """
    bare = [name for name in names if with_slashes(name) == name and "/" not in name]
    if not bare:
        return  # of a large folder the images are not gathered for nothing
    images = Folder(folder.root, _images_in(folder))
    several: dict[str, list[str]] = {}
    for key in (str, without_ending):
        own = [name for name in bare if key is str or not name.lower().endswith(IMAGE_ENDINGS)]
        several |= files_of(images, own, key)
    if several:
        name, paths = next(iter(several.items()))
        raise WorkbenchError(
            f"{folder.root}: {counted(len(several), 'image')} of the annotations may be several "
            f"files: {name!r} may be {listing(paths, 3)}",
            "write them with their folders and endings in the annotations, or move the other files "
            "away",
        )


def _images_in(folder: Folder) -> dict[str, frozenset[str]]:
    """The files of each folder whose names end as those of images."""
    return {
        place: frozenset(name for name in files if name.lower().endswith(IMAGE_ENDINGS))
        for place, files in folder.files.items()
    }


def _check_one_to_one(base: Path, found: Mapping[str, str]) -> None:
    """Raise WorkbenchError where names lead to one file: they may mean different images."""
    names: dict[str, list[str]] = defaultdict(list)
    for name, path in found.items():
        names[path].append(name)
    problems = Problems(str(base))
    several = (f"{path} ({listing(map(ascii, own))})" for path, own in names.items() if own[1:])
    problems.add("files that several images of the annotations could be", several)
    problems.raise_if_any("name the folder of the images with corpus.images in params.yaml")


def _without_files(folder: Folder, names: Sequence[str], vectors: Sequence[str]) -> Located:
    """Images of which there are features and no photographs: their names are their ids."""
    plain = {name: with_slashes(name) for name in names}
    folders = (file.rpartition("/")[0] for file in vectors if file.endswith("_ims.npy"))  # VSE++'s
    vectors = [*dict.fromkeys(f"{place}/" for place in folders), *vectors]
    remark = (
        f"images without files: no photographs below {folder.root}, but features: "
        f"{listing(vectors, 3)}"
    )
    return Located(
        folder.root,
        {name: own for name, own in plain.items() if own != name},
        remarks=(remark,),
        vectors=tuple(vectors),
    )


def _folder_beside(raw: Path, names: Sequence[str]) -> Path | None:
    """A folder beside the user's that holds one of the first images; None where none does."""
    with suppress(OSError):  # a folder that nobody named may be closed to this user
        for place in sorted(raw.resolve().parent.iterdir()):
            files = (place / with_slashes(name) for name in names[:100])
            if place.is_dir() and any(file.is_file() for file in files):
                return place
    return None


def _raise_none_found(folder: Folder, raw: Path, base: Path, names: Sequence[str]) -> NoReturn:
    """Say that no image is there, and where they lie if that is beside the folder; or that each may
    be several files."""
    for key in _KEYS:
        several = files_of(folder, names, key)
        if several:
            raise several_files(folder, raw, several)
    hint = (
        "put the images there, or set raw to a folder that holds both annotations and images; for "
        "images without photographs put a file of their features there, such as .npz or .h5"
    )
    place = _folder_beside(raw, names)
    archives = folder.matching(*(f"*{ending}" for ending in ARCHIVES))
    if archives:
        hint = f"if they are in {raw / archives[0]}, unpack it there"
    elif place is not None:
        hint = f"they are in {place}: set raw: {place.parent} in params.yaml"
    raise WorkbenchError(
        f"{base}: none of the {len(names):,} images of the annotations is there or in a folder "
        f"below it; the first is {names[0]!r}",
        hint,
    )
