"""Chinese-CLIP's form: `train_imgs.tsv` with images in base64, `train_texts.jsonl` with texts.

MUGE, Flickr30k-CN and COCO-CN are published in it, MUGE with other names of its keys. A text may be
of several images.
"""

import base64
import binascii
import io
import json
import re
from codecs import BOM_UTF8
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import pandas as pd

from pipeline.corpus.dataset.cells import first_of
from pipeline.corpus.dataset.folder import Folder
from pipeline.corpus.dataset.recognise import Found, check_files_left, head
from pipeline.corpus.dataset.shards import (
    Caption,
    ExtractedImages,
    Gathered,
    Shard,
    is_pointer,
    read_shards,
    require_content,
    require_splits,
)
from pipeline.corpus.dataset.source import Options, Source, find_in_raw, list_raw
from pipeline.corpus.dataset.splits import split_in_path
from pipeline.runtime.errors import WorkbenchError, counted, listing
from pipeline.runtime.first_bytes import first_bytes
from pipeline.runtime.text import Problems, is_text

TEXT_KEYS = ("text", "query_text")
TEXT_ID_KEYS = ("text_id", "query_id")
IMAGE_IDS_KEYS = ("image_ids", "item_ids")
LONGEST_TEXT = 1 << 20  # bytes of a line with a text and its ids
_BEGINNING = re.compile(rb"(?:\xef\xbb\xbf)?[^\t\r\n]{1,256}\t[A-Za-z0-9+/_-]{32}")
_STANDARD = bytes.maketrans(b"-_", b"+/")


class _Text(NamedTuple):
    """A text, its id, and the ids of the images that it is of."""

    text_id: str
    text: str
    image_ids: tuple[str, ...]


class _Part(NamedTuple):
    """The files of one split: tables of images, and texts."""

    images: list[str]
    texts: list[str]


_Parts = dict[tuple[str, str | None], _Part]  # by folder and split


def recognise(folder: Folder) -> list[Found]:
    """Tables of images in base64 with texts that name them in the same folder."""
    parts, _ = _parts(folder)
    files = [file for part in parts.values() for file in (*part.images, *part.texts)]
    return [Found(tuple(files), has_splits=any(split for _, split in parts))] if files else []


def read(raw: Path, out: Path, options: Options) -> Source:
    """Read images and texts below raw: image_id is `<split>/<id>`, caption_id `<split>/<text_id>`.

    The image of a text is the first of its images that has no text yet, else its first one; the
    others are its further positives. Texts without an image (the test texts of MUGE) and images
    without a text are left out.

    Args:
        raw: the user's folder.
        out: the folder of the corpus, for the images.
        options: corpus.annotations, a folder in `raw`; how splits are drawn.

    Returns:
        The source, with further positives where texts are of several images.

    Raises:
        WorkbenchError: no such files, lines that cannot be read, ids twice, or images of texts that
            are not there.
    """
    folder = _chosen(raw, options)
    parts, alone = _parts(folder)
    if not parts:
        raise WorkbenchError(
            f"{raw}: no table of images in base64 (train_imgs.tsv) with texts that name them "
            "(train_texts.jsonl) beside it",
            "set raw to the folder that holds them",
        )
    check_files_left(folder, [file for part in parts.values() for file in part.images])
    check_files_left(folder, [file for part in parts.values() for file in part.texts])
    shards = {
        Shard(raw / part.images[0], place, split): part for (place, split), part in parts.items()
    }
    require_splits(raw, list(shards))
    further: list[tuple[str, str]] = []
    text_ids: Counter[str] = Counter()

    def read_part(shard: Shard, gathered: Gathered) -> None:
        part = shards[shard]
        prefix = "" if shard.split is None else f"{shard.split}/"
        texts = _texts(raw, part.texts, gathered)
        owners = _owners(texts)
        seen = _read_images(raw, shard.split, part.images, owners, gathered)
        named = dict.fromkeys(name for text in texts for name in text.image_ids)
        missing = (ascii(name) for name in named if name not in seen)
        problems = Problems("its lines")
        problems.add("images of texts that are not there", missing)
        problems.raise_if_any()
        for text, owner in zip(texts, owners, strict=True):
            own_id = f"{prefix}{text.text_id}"
            text_ids[own_id] += 1
            gathered.captions.append(Caption(prefix + owner, text.text, own_id=own_id))
            further.extend((own_id, prefix + name) for name in text.image_ids if name != owner)
        problems = Problems(listing(part.texts))
        twice = (ascii(own_id) for own_id, number in text_ids.items() if number > 1)
        problems.add("text ids more than once", twice)
        problems.raise_if_any()

    source = read_shards(raw, out, options, shards=list(shards), kind="", read_shard=read_part)
    remarks = source.remarks
    if alone:
        remarks = (
            f"passed over, without texts or images of their split: {listing(alone)}",
            *remarks,
        )
    table = pd.DataFrame(further, columns=["caption_id", "image_id"]) if further else None
    files = tuple(file for part in parts.values() for file in (*part.images, *part.texts))
    return replace(source, positives=table, remarks=remarks, files=files)


def _chosen(raw: Path, options: Options) -> Folder:
    """The files of raw, or of the folder in it that corpus.annotations names."""
    folder = list_raw(raw, options)
    name = options.corpus.annotations
    if name is None:
        return folder
    find_in_raw(raw, name, "corpus.annotations")
    return folder.below(name)


def _parts(folder: Folder) -> tuple[_Parts, list[str]]:
    """The files that belong together, and those that lack images or texts."""
    parts: _Parts = defaultdict(lambda: _Part([], []))
    for file in folder.matching("*.tsv"):
        if _holds_images(folder.root / file):
            parts[file.rpartition("/")[0], split_in_path(file)].images.append(file)
    for file in folder.matching("*.jsonl") if parts else []:
        if _holds_texts(folder, file):
            parts[file.rpartition("/")[0], split_in_path(file)].texts.append(file)
    whole = {key: part for key, part in parts.items() if part.images and part.texts}
    others = [part for key, part in parts.items() if key not in whole]
    return whole, [file for part in others for file in (*part.images, *part.texts)]


def _holds_images(path: Path) -> bool:
    """Whether a file begins with an id, a tab and base64, or is a pointer of git-lfs."""
    try:
        return _BEGINNING.match(first_bytes(path)) is not None or is_pointer(path)
    except OSError:
        return False


def _holds_texts(folder: Folder, file: str) -> bool:
    """Whether a file's first record is a text with the ids of its images."""
    try:
        record = json.loads(head(folder, file).lstrip().split("\n")[0])
    except (OSError, ValueError, RecursionError):
        return False
    if not isinstance(record, dict):
        return False
    return isinstance(_value(record, IMAGE_IDS_KEYS), list) and is_text(_value(record, TEXT_KEYS))


def _value(record: Mapping[str, Any], keys: Sequence[str]) -> Any:
    """The value of the first of some keys that a record has; None without any."""
    return record.get(first_of(record, keys) or "")


def _texts(raw: Path, files: Iterable[str], gathered: Gathered) -> list[_Text]:
    """The texts of some files that have an image; WorkbenchError for lines that are none."""
    texts: list[_Text] = []
    for file in files:
        problems = Problems(file)
        faults: list[str] = []
        blind = 0
        with open(raw / file, "rb") as stream:
            for number, line in enumerate(_lines(stream, LONGEST_TEXT), 1):
                try:
                    text = _text(line, number)
                except (ValueError, RecursionError) as error:
                    faults.append(f"line {number:,} ({error})")
                    continue
                if text.image_ids:
                    texts.append(text)
                else:
                    blind += 1
        problems.add("lines without a text and its image_ids", faults)
        problems.raise_if_any()
        if blind:
            gathered.remarks.append(f"left out: {counted(blind, 'text')} of no image in {file}")
    return texts


def _text(line: bytes, number: int) -> _Text:
    """The text in a line of JSON; ValueError for what is none. Without an id it is its line's."""
    if len(line) > LONGEST_TEXT:
        raise ValueError(f"more than {LONGEST_TEXT:,} bytes")
    record = json.loads(line.decode("utf-8-sig"))
    if not isinstance(record, dict):
        raise ValueError("no record")
    text = _value(record, TEXT_KEYS)
    images = _value(record, IMAGE_IDS_KEYS)
    text_id = _value(record, TEXT_ID_KEYS)
    ids = images if isinstance(images, list) else []
    if not is_text(text) or images not in (None, ids):
        raise ValueError(f"text {text!a:.40}, image_ids {images!a:.40}")
    if not all(_is_id(one) for one in (*ids, 0 if text_id is None else text_id)):
        raise ValueError("an id that is neither a number nor a text")
    names = tuple(dict.fromkeys(map(str, ids)))
    return _Text(str(number if text_id is None else text_id), text, names)


def _is_id(value: object) -> bool:
    """Whether a value of JSON can be an id: a number or a text."""
    return is_text(value) or (isinstance(value, int) and not isinstance(value, bool))


def _owners(texts: Sequence[_Text]) -> list[str]:
    """The own image of every text: its first one without a text so far, else its first."""
    owners: list[str] = []
    described: set[str] = set()
    for text in texts:
        free = (name for name in text.image_ids if name not in described)
        owners.append(next(free, text.image_ids[0]))
        described.add(owners[-1])
    return owners


def _read_images(
    raw: Path,
    split: str | None,
    files: Sequence[str],
    owners: Iterable[str],
    gathered: Gathered,
) -> set[str]:
    """Write the images of a split that are a text's own.

    Args:
        raw: the user's folder.
        split: that of the files, None for none.
        files: the tables of images.
        owners: the ids, as the tables write them, of images that are a text's own.
        gathered: where images go and are noted.

    Returns:
        The ids of all images in the tables.

    Raises:
        WorkbenchError: lines without an id, or ids twice.
    """
    prefix = "" if split is None else f"{split}/"
    described = set(owners)
    seen: set[str] = set()
    twice: list[str] = []
    torn: list[str] = []
    for file in files:
        require_content(raw / file)
        with open(raw / file, "rb") as stream:
            lines = _lines(stream, gathered.folder.max_bytes * 4 // 3 + LONGEST_TEXT)
            for number, line in enumerate(lines, 1):
                name, tab, encoded = line.removeprefix(BOM_UTF8).partition(b"\t")
                own = name.decode("utf-8", "replace")
                image_id = prefix + own
                if not tab:
                    torn.append(f"{file}, line {number:,}")
                elif own in seen or image_id in gathered.images:
                    twice.append(own)
                elif own in described:
                    gathered.images[image_id] = split
                    gathered.faults[image_id] = _write(image_id, encoded, gathered.folder)
                seen.add(own)
    problems = Problems("its lines")
    problems.add("lines without an id and a tab", torn)
    problems.add("images more than once", map(ascii, twice))
    problems.raise_if_any()
    if len(seen) > len(described):
        left = counted(len(seen) - len(described), "image")
        gathered.remarks.append(f"left out: {left} without a text of its own in {listing(files)}")
    return seen


def _write(image_id: str, encoded: bytes, folder: ExtractedImages) -> str:
    """Write an image that is given in base64, with the letters of files or of addresses, with or
    without padding; returns what is wrong, "" for nothing."""
    text = encoded.strip().translate(_STANDARD).rstrip(b"=")
    try:
        data = base64.b64decode(text + b"=" * (-len(text) % 4), validate=True)
    except binascii.Error as error:
        return f"not base64: {error}"
    return folder.write(image_id, len(data), io.BytesIO(data))


def _lines(stream: BinaryIO, longest: int) -> Iterator[bytes]:
    """The lines of a file that are not blank. One of more than `longest` bytes is cut there, and
    its rest passed over: whatever it was, it is then too long or damaged."""
    while line := stream.readline(longest + 1):
        part = line
        while len(part) > longest and not part.endswith(b"\n"):
            part = stream.readline(longest + 1)
        if line.strip():
            yield line
