"""Flickr30k Entities (Plummer et al. 2015): Sentences/*.txt, Annotations/*.xml and lists of splits.

A line of a sentence file is a caption with marks, `[/EN#283585/people A young girl]`; the number is
that of a chain, 0 for what cannot be seen. An annotation file has boxes, which count pixels from 1
and hold their last one, each with the chains that it belongs to.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd

from pipeline.corpus.dataset.source import find_in_raw
from pipeline.corpus.dataset.split_lists import listed_splits, named_split_lists
from pipeline.corpus.tables import SPLITS
from pipeline.corpus.tokens import tokenise
from pipeline.phrases.tables import PHRASES, SIDES, PhraseTables
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.process import Progress, say
from pipeline.runtime.text import read_text

NOT_VISUAL = "0"

_MARK = re.compile(r"\[/EN#(\d+)((?:/\w+)+) ([^\[\]]+)\]")


@dataclass
class GatheredRows:
    """Rows of both tables so far, and how many of what were left out."""

    phrases: list[tuple[object, ...]] = field(default_factory=list)
    boxes: list[tuple[object, ...]] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)


def read_entities(
    raw: Path, folder: str | None, by_lists: bool, images: pd.DataFrame, captions: pd.DataFrame
) -> PhraseTables:
    """The phrases of the corpus's images.

    Args:
        raw: folder of the corpus.
        folder: inside raw, with Sentences and Annotations; None for raw itself.
        by_lists: whether splits come from train.txt, val.txt and test.txt beside them, or from
            `images`.
        images: the corpus's table, named `<number>.jpg` as in Flickr30k.
        captions: the corpus's table.

    Returns:
        The phrases in the order of `images`, each in the split of its image, and the boxes of their
        chains.

    Raises:
        WorkbenchError: files that are missing or damaged, boxes outside their image, lists that
            contradict the corpus.
    """
    root = raw if folder is None else find_in_raw(raw, folder, "phrases.path")
    for name in ("Sentences", "Annotations"):
        if not (root / name).is_dir():
            raise WorkbenchError(
                f"{root}: no folder {name}", "set phrases.path to the folder of Flickr30k Entities"
            )
    if by_lists:
        names = images["image_id"].tolist()
        lists = named_split_lists(root, names, required=SPLITS)
        images = with_splits(images, listed_splits(lists, names))
    texts: dict[str, dict[str, list[str]]] = {}
    for caption in captions[["image_id", "caption_id", "tokens"]].to_dict("records"):
        texts.setdefault(caption["image_id"], {})[caption["caption_id"]] = caption["tokens"]
    gathered = GatheredRows()
    with Progress("phrases", len(images), "images") as progress:
        for image in images[["image_id", "width", "height", "split"]].to_dict("records"):
            name = image["image_id"]
            size = (image["width"], image["height"])
            read_image(
                root,
                name,
                size=size,
                split=image["split"],
                captions=texts.get(name, {}),
                gathered=gathered,
            )
            progress.update()
    say(f"phrases: {len(gathered.phrases):,}, with {len(gathered.boxes):,} boxes")
    for what, number in gathered.left_out.items():
        say(f"left out: {number:,} {what}")
    annotated = {path.stem for path in (root / "Annotations").glob("*.xml")}
    strangers = annotated - {Path(name).stem for name in images["image_id"]}
    if strangers:
        say(f"left out: {len(strangers):,} annotation files of images that are not read")
    boxes = pd.DataFrame(gathered.boxes, columns=["image_id", "chain", *SIDES])
    return PhraseTables(pd.DataFrame(gathered.phrases, columns=PHRASES.names), boxes)


def read_image(
    root: Path,
    name: str,
    size: tuple[int, int],
    split: str,
    captions: Mapping[str, Sequence[str]],
    gathered: GatheredRows,
) -> None:
    """Add the phrases and boxes of one image.

    Args:
        root: folder with Sentences and Annotations.
        name: id of the image, its file's name.
        size: width and height of the image, pixels.
        split: of the image.
        captions: words of the image's captions by their ids.
        gathered: what is added to.

    Raises:
        WorkbenchError: a file of the image is missing or damaged.
    """
    stem = Path(name).stem
    chains = read_boxes(_inside(root / "Annotations", f"{stem}.xml"), size)
    path = _inside(root / "Sentences", f"{stem}.txt")
    used: set[str] = set()
    for line, text in enumerate(read_text(path).splitlines()):
        phrases = list(read_sentence(f"{path}, line {line + 1}", text))
        caption = own_caption(tokenise(_MARK.sub(r"\3", text)), captions, f"{name}#{line}")
        if caption is None:
            gathered.left_out["sentences that are no caption of the corpus"] += 1
            continue
        for number, (chain, kind, words) in enumerate(phrases):
            if chain == NOT_VISUAL:
                gathered.left_out["phrases of what cannot be seen (chain 0)"] += 1
            elif chain not in chains:
                gathered.left_out["phrases of chains without a box"] += 1
            elif not words:
                gathered.left_out["phrases without words"] += 1
            else:
                used.add(chain)
                row = f"{name}#{line}/{number}", caption, name, split, words, chain, kind
                gathered.phrases.append(row)
    for chain, boxes in chains.items():
        if chain in used:
            gathered.boxes += [(name, chain, *box) for box in boxes]


def read_sentence(place: str, text: str) -> Iterator[tuple[str, str, list[str]]]:
    """Chain, type and words of each marked phrase of a line.

    Args:
        place: file and line, for messages.
        text: the line.

    Yields:
        The id of the chain, the type as the file has it (several are joined by slashes), and the
        phrase's words, small letters.

    Raises:
        WorkbenchError: brackets that are no marks.
    """
    if re.search(r"[\[\]]", _MARK.sub("", text)):
        raise WorkbenchError(
            f"{place}: brackets that are no mark of a phrase: {text.strip()[:80]!r}",
            "marks are of the form [/EN#id/type words]",
        )
    for mark in _MARK.finditer(text):
        yield mark[1], mark[2].strip("/"), tokenise(mark[3])


def own_caption(
    words: Sequence[str], captions: Mapping[str, Sequence[str]], likely: str
) -> str | None:
    """The id of the caption that a sentence is, None when it is none of its image's. Letters are
    compared: releases cut words differently.

    Args:
        words: of the sentence.
        captions: words of its image's captions by their ids.
        likely: the id to try first.

    Returns:
        The key of `captions` whose words have the sentence's letters; None for no such caption.
    """
    letters = "".join(words)
    ids = [likely, *captions] if likely in captions else list(captions)
    return next((name for name in ids if "".join(captions[name]) == letters), None)


def read_boxes(path: Path, size: tuple[int, int]) -> dict[str, list[tuple[float, ...]]]:
    """The boxes of each chain, x1, y1, x2, y2 in pixels from 0; chains without one are left out.

    Args:
        path: of the annotation file.
        size: width and height of the image, pixels.

    Returns:
        From the chain's id to its boxes, one at least; x2 and y2 are edges, so that a box of one
        pixel has width 1.

    Raises:
        WorkbenchError: not such a file, of an image of another size, or boxes outside it.
    """
    try:
        root = ElementTree.fromstring(read_text(path))
    except ElementTree.ParseError as error:
        raise WorkbenchError(f"{path}: not valid XML: {error}") from None
    stated = root.findtext("size/width"), root.findtext("size/height")
    if stated != tuple(map(str, size)):
        raise WorkbenchError(
            f"{path}: of an image of {stated[0]} x {stated[1]} pixels; the corpus's has "
            f"{size[0]} x {size[1]}",
            "give the images of Flickr30k in their own size",
        )
    chains: dict[str, list[tuple[float, ...]]] = {}
    for thing in root.iter("object"):
        box = thing.find("bndbox")
        if box is None:  # a scene, or what has no box
            continue
        try:
            sides = [int(box.findtext(side, "")) for side in ("xmin", "ymin", "xmax", "ymax")]
        except ValueError:
            raise WorkbenchError(f"{path}: a box without whole numbers for its sides") from None
        left, top, right, bottom = sides
        if not (1 <= left <= right <= size[0] and 1 <= top <= bottom <= size[1]):
            raise WorkbenchError(
                f"{path}: box {left} {top} {right} {bottom} is not inside the image of "
                f"{size[0]} x {size[1]} pixels (they count from 1)"
            )
        for name in thing.findall("name"):
            boxes = chains.setdefault((name.text or "").strip(), [])
            boxes.append((left - 1, top - 1, right, bottom))
    return chains


def with_splits(images: pd.DataFrame, splits: Mapping[str, str]) -> pd.DataFrame:
    """The corpus's images that the lists name.

    The vocabulary and the encoder of phrases have seen the corpus's training captions, so the lists
    must give images the corpus's own splits.

    Args:
        images: the corpus's table.
        splits: of each listed image, by its id.

    Returns:
        The rows of `images` that are listed, one at least.

    Raises:
        WorkbenchError: images in another split than in the corpus, or none of them listed.
    """
    listed = images[images["image_id"].isin(splits.keys())]
    moved = listed["image_id"][listed["split"] != listed["image_id"].map(splits)]
    if len(moved) or listed.empty:
        raise WorkbenchError(
            f"{len(moved):,} images in another split of the corpus: {listing(moved, 3)}"
            if len(moved)
            else "the lists name no image of the corpus",
            "read the corpus by the same lists (dataset: captions_csv, corpus.split_files), or set "
            "phrases.splits: corpus",
        )
    if len(listed) < len(images):
        say(f"left out: {len(images) - len(listed):,} images of the corpus in no list")
    return listed


def _inside(folder: Path, name: str) -> Path:
    path = folder / name
    if not path.is_file():
        raise WorkbenchError(
            f"{path}: no such file", "every image of the corpus needs a file of each kind"
        )
    return path
