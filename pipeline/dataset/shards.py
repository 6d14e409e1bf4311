"""What readers of shards share: which files there are, which split each is of, and the tables."""

import shlex
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from pipeline.dataset.equal import in_one_split, joined_groups
from pipeline.dataset.extracted import ExtractedImages
from pipeline.dataset.folder import Folder, joined, list_folder
from pipeline.dataset.locate import is_among, locate_images, stems_of
from pipeline.dataset.params import CorpusConfig
from pipeline.dataset.source import Options, Source, find_in_raw, require_folder
from pipeline.dataset.splits import settled_splits, split_in_path
from pipeline.runtime.errors import WorkbenchError, counted, listing
from pipeline.runtime.first_bytes import STAND_INS, kind_of, way_out
from pipeline.runtime.process import Progress
from pipeline.runtime.text import Problems, is_plain

DAMAGED = "mend these shards, or download them again"
NO_IMAGE = "no image in the shard"


class Shard(NamedTuple):
    """A file of samples. name: its path inside raw without the ending; split: the one that this
    path names, None for none."""

    path: Path
    name: str
    split: str | None


class Caption(NamedTuple):
    """A caption of an image; its words and its id where the shard gives them."""

    image_id: str
    text: str
    tokens: tuple[str, ...] = ()
    own_id: str = ""


@dataclass
class Gathered:
    """What has been read of the shards so far, in their order; the images' bytes are on disk.

    images: the split of every image. faults: why an image cannot be used. captions: in their
    order. paths: of images without bytes, the files that the shards name. renamed: images that
    get another id because others have their name. others: members that were not read, by ending.
    remarks: lines for the user.
    """

    images: dict[str, str | None] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)
    captions: list[Caption] = field(default_factory=list)
    paths: dict[str, str] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    others: Counter[str] = field(default_factory=Counter)
    remarks: list[str] = field(default_factory=list)


ReadShard = Callable[[Shard, ExtractedImages, Gathered, CorpusConfig], None]


def read_shards(
    raw: Path,
    out: Path,
    options: Options,
    shards: Sequence[Shard],
    kind: str,
    read_shard: ReadShard,
) -> Source:
    """Read shards one after the other; their images go to out/images.

    Args:
        raw: the user's folder.
        out: the folder of the corpus.
        options: of all readers; with `look` no image is written.
        shards: those of `find_shards`.
        kind: of their files, a key of `first_bytes`; empty for text.
        read_shard: adds a shard to what was gathered, and raises WorkbenchError where it cannot.

    Returns:
        The source, with equal photographs of one split in one group.

    Raises:
        WorkbenchError: shards that cannot be read, all of them named; no image or no caption in
            any of them; splits that cannot be drawn.
    """
    folder = ExtractedImages(out, options.corpus.max_megapixels, keep=not options.look)
    gathered = Gathered()
    _read_all(raw, options, shards, kind, read_shard, folder, gathered)
    kinds = listing(f"{number:,} {kind}" for kind, number in sorted(gathered.others.items()))
    if not gathered.images:
        raise WorkbenchError(
            f"{raw}: no images in {len(shards):,} shards"
            + (f"; other members: {kinds}" if kinds else ""),
            "name the ending or column of the images with corpus.image_field" if kinds else "",
        )
    if not gathered.captions:
        raise WorkbenchError(
            f"{raw}: no captions in {len(shards):,} shards with "
            f"{counted(len(gathered.images), 'image')}"
            + (f"; other members: {kinds}" if kinds else ""),
            "name the ending, key or column of the captions with corpus.caption_field",
        )
    _rename(folder, gathered)
    remarks = [*gathered.remarks, *_bring_files(raw, options, folder, gathered)]
    if kinds:
        remarks.append(f"left out, members of other kinds: {kinds}")
    copies = in_one_split(folder.copies(), gathered.images)
    groups, equal = joined_groups({image: image for image in gathered.images}, copies)
    splits, drawn = settled_splits(gathered.images, options, groups)
    folder.remove(image for image in gathered.images if image not in splits)
    rows = [
        (image, split, groups[image], gathered.faults.get(image, ""))
        for image, split in splits.items()
    ]
    return Source(
        root=folder.root,
        images=pd.DataFrame(rows, columns=["image_id", "split", "group", "fault"]),
        captions=caption_table([one for one in gathered.captions if one.image_id in splits]),
        remarks=(*remarks, *equal, *drawn),
    )


def _read_all(
    raw: Path,
    options: Options,
    shards: Sequence[Shard],
    kind: str,
    read_shard: ReadShard,
    folder: ExtractedImages,
    gathered: Gathered,
) -> None:
    """Read all shards; WorkbenchError with those that cannot be read."""
    damaged: dict[str, list[str]] = {}  # by what is wrong
    hints: dict[str, None] = {}
    with Progress("reading shards", len(shards), "shards") as progress:
        for shard in shards:
            try:
                require_content(shard.path)
                read_shard(shard, folder, gathered, options.corpus)
            except WorkbenchError as fault:
                is_there = shard.path.exists()
                error = (_misplaced(shard.path, kind) if is_there else None) or fault
                name = shard.path.relative_to(raw).as_posix()
                damaged.setdefault(error.message, []).append(name)
                hints[error.hint or DAMAGED] = None
            progress.update()
    problems = Problems(str(raw))
    if len(damaged) == 1 and len(next(iter(damaged.values()))) > 1:
        message, names = damaged.popitem()
        problems.add(f"shards that cannot be read, {message}", names)
    cases = (f"{name} ({message})" for message, names in damaged.items() for name in names)
    problems.add("shards that cannot be read", cases)
    problems.raise_if_any("; or ".join(hints))


def caption_table(captions: Sequence[Caption]) -> pd.DataFrame:
    """The table of captions: by their own ids where each has another one, else numbered by image.

    Args:
        captions: in their order; one that repeats another's own id, image and text is left out.

    Returns:
        Columns caption_id, image_id, text and, where a caption has any, tokens.
    """
    if all(caption.own_id and is_plain(caption.own_id) for caption in captions):
        unique = list(dict.fromkeys(captions))
        ids = [caption.own_id for caption in unique]
        if len(set(ids)) == len(ids):
            return _table(unique, ids)
    numbers: Counter[str] = Counter()
    ids = []
    for caption in captions:
        ids.append(f"{caption.image_id}#{numbers[caption.image_id]}")
        numbers[caption.image_id] += 1
    return _table(captions, ids)


def _table(captions: Sequence[Caption], ids: Sequence[str]) -> pd.DataFrame:
    table = pd.DataFrame(
        {
            "caption_id": ids,
            "image_id": [caption.image_id for caption in captions],
            "text": [caption.text for caption in captions],
        }
    )
    if any(caption.tokens for caption in captions):
        table["tokens"] = [list(caption.tokens) for caption in captions]
    return table


def _rename(folder: ExtractedImages, gathered: Gathered) -> None:
    """Give images whose names repeat their other ids, everywhere."""
    renamed = gathered.renamed
    if not renamed:
        return
    for image, new in renamed.items():
        folder.rename(image, new)
    gathered.images = {renamed.get(image, image): own for image, own in gathered.images.items()}
    gathered.faults = {renamed.get(image, image): own for image, own in gathered.faults.items()}
    gathered.paths = {renamed.get(image, image): own for image, own in gathered.paths.items()}
    gathered.captions = [
        caption._replace(image_id=renamed.get(caption.image_id, caption.image_id))
        for caption in gathered.captions
    ]
    shown = listing((f"{old} is {new}" for old, new in renamed.items()), 2)
    gathered.remarks.append(
        f"different images with one name: {counted(len(renamed), 'name')}; a part of the digest "
        f"tells their images apart: {shown}"
    )


def _bring_files(
    raw: Path, options: Options, folder: ExtractedImages, gathered: Gathered
) -> list[str]:
    """Copy the images that shards name by a path alone, where they lie below raw.

    Returns:
        Lines for the user about how they were found.
    """
    if not gathered.paths:
        return []
    stems = stems_of(list_folder(raw))
    wanted = {image: path for image, path in gathered.paths.items() if is_among(path, stems)}
    for image, path in gathered.paths.items():
        gathered.faults[image] = f"{NO_IMAGE}, and no file of its name below raw: {path!a}"
    if not wanted:
        return []
    located = locate_images(raw, options.corpus.images, list(dict.fromkeys(wanted.values())))
    for image, path in wanted.items():
        file = located.root / located.ids[path]
        if file.is_file():
            with open(file, "rb") as stream:
                gathered.faults[image] = folder.write(image, file.stat().st_size, stream)
    return list(located.remarks)


def require_content(path: Path) -> None:
    """Raise WorkbenchError for a file that lies in the place of another one, or leads nowhere."""
    if not path.exists():
        raise WorkbenchError(
            "a link to a file that is not there", "download the files that are missing"
        )
    kind = kind_of(path)
    if kind is not None and kind.key in STAND_INS:
        raise WorkbenchError(kind.title, way_out(kind, path))


def is_stand_in(path: Path) -> bool:
    """Whether a file lies in the place of another one, such as a pointer of git-lfs."""
    kind = kind_of(path)
    return kind is not None and kind.key in STAND_INS


def _misplaced(path: Path, expected: str) -> WorkbenchError | None:
    """The error for a file that is of another kind than its name says; None for all others."""
    kind = kind_of(path)
    if kind is None or kind.key == expected:
        return None
    if kind.key == "gzip":
        name = shlex.quote(str(path))
        return WorkbenchError(kind.title, f"unpack it: mv {name} {name}.gz && gunzip {name}.gz")
    return WorkbenchError(kind.title, way_out(kind, path))


def find_shards(raw: Path, name: str | None, ending: str) -> list[Shard]:
    """The shards of a folder, at any depth, hidden ones passed over.

    Args:
        raw: the user's folder.
        name: corpus.annotations, a shard or a folder inside `raw`; None for all of it.
        ending: of the files' names, such as `.tar`.

    Returns:
        The shards in the order of their names.

    Raises:
        WorkbenchError: there are none.
    """
    require_folder(raw)
    source = raw if name is None else find_in_raw(raw, name, "corpus.annotations")
    if source.is_file():
        files = [source.relative_to(raw).as_posix()]
    else:
        inside = source.relative_to(raw).as_posix()
        above = "" if inside == "." else f"{inside}/"
        files = [above + file for file in list_folder(source).matching(f"*{ending}")]
    if not files:
        raise WorkbenchError(
            f"{source}: no file {ending} in it", "set raw to the folder that holds the shards"
        )
    names = {file[: -len(ending)] if file.endswith(ending) else file: file for file in files}
    return [Shard(raw / names[own], own, split_in_path(own)) for own in sorted(names)]


def require_splits(raw: Path, shards: Sequence[Shard]) -> None:
    """Raise WorkbenchError where only some shards name a split."""
    nameless = [shard.name for shard in shards if shard.split is None]
    if len(nameless) not in (0, len(shards)):
        problems = Problems(str(raw))
        problems.add("shards that name no split beside others that do", nameless)
        problems.raise_if_any("begin their names with train-, val- or test-")


def first_of_folders(folder: Folder, ending: str, number: int) -> dict[str, list[str]]:
    """The first files of an ending in every folder, for a look at what they are.

    Args:
        folder: the user's.
        ending: of the files' names, in lower case.
        number: how many of each folder.

    Returns:
        Paths inside the folder, by the path of the folder that they lie in.
    """
    first: dict[str, list[str]] = {}
    for file in folder.matching(f"*{ending}"):
        own = first.setdefault(file.rpartition("/")[0], [])
        if len(own) < number:
            own.append(file)
    return first


def files_with(folder: Folder, place: str, ending: str) -> list[str]:
    """The files of an ending in one folder.

    Args:
        folder: the user's.
        place: the path of a folder in it, "" for itself.
        ending: of the files' names, in lower case.

    Returns:
        Paths inside `folder`, in order.
    """
    names = sorted(folder.files[place])
    return [joined(place, name) for name in names if name.lower().endswith(ending)]
