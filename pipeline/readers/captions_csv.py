"""Kaggle's downloads of Flickr8k (captions.txt) and Flickr30k (results.csv)."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from pipeline.corpus.tables import SPLITS
from pipeline.dataset.source import Options, Source, find_annotations, find_image_folder
from pipeline.dataset.splits import seeded_splits
from pipeline.runtime.errors import WorkbenchError, counted
from pipeline.runtime.text import Problems, is_inside, read_text

SIGNS = ("captions.txt", "results.csv")
_COMMA_HEADER = re.compile(r"image(_name)?\s*,\s*caption")
_BAR_HEADER = re.compile(r"image_name\s*\|\s*comment_number\s*\|\s*comment")
_COMMA_LINE = re.compile(r'(?P<image>"(?:[^"]|"")+"|[^,"]+),(?P<caption>.*)')
# One line of the published results.csv lacks its second bar ("2199200615.jpg| 4   A dog runs ...").
_BAR_LINE = re.compile(r"(?P<image>[^|]+)\|\s*(?P<number>\d{1,9})(?:\s*\||\s)(?P<caption>.*)")
_QUOTED = re.compile(r'"((?:[^"]|"")*)"')
_LISTS = {
    split: re.compile(rf"(.*[._-])?({names})(images)?\.(txt|lst)", re.IGNORECASE)
    for split, names in zip(SPLITS, ("train", "val|dev|valid", "test"), strict=True)
}


def read(raw: Path, out: Path, options: Options) -> Source:
    """Read captions.txt or results.csv: image_id is the file's name, caption_id `<image>#<number>`.
    The splits come from the lists in corpus.split_files, else from the seed."""
    path = find_annotations(raw, options.corpus.annotations, SIGNS)
    captions = pd.DataFrame(read_captions(path), columns=["caption_id", "image_id", "text"])
    names = list(dict.fromkeys(captions["image_id"]))
    if options.corpus.split_files is None:
        splits = seeded_splits(names, options)
    else:
        splits = _listed_splits(raw, options.corpus.split_files, names)
    kept = [(name, splits[name]) for name in names if name in splits]
    known = set(names)
    extra = [(name, split) for name, split in splits.items() if name not in known]
    images = pd.DataFrame([*kept, *extra], columns=["image_id", "split"])
    unlisted = len(names) - len(kept)
    return Source(
        root=find_image_folder(raw, options.corpus.images, names),
        images=images,
        captions=captions[captions["image_id"].isin(splits)].reset_index(drop=True),
        remarks=(f"left out: {counted(unlisted, 'image')} in no split list",) if unlisted else (),
    )


def read_captions(path: Path) -> Iterator[tuple[str, str, str]]:
    """caption_id, image_id and text of each line."""
    lines = read_text(path).split("\n")
    header = lines[0].strip().lower()
    if _COMMA_HEADER.fullmatch(header):
        pattern = _COMMA_LINE
    elif _BAR_HEADER.fullmatch(header):
        pattern = _BAR_LINE
    else:
        raise WorkbenchError(
            f"{path}, line 1: header {header[:60]!r}; allowed are 'image,caption' and "
            "'image_name| comment_number| comment'",
            "add the header line, or choose another file with corpus.annotations",
        )
    problems = Problems(str(path))
    numbered = [(number, line.strip()) for number, line in enumerate(lines[1:], 2) if line.strip()]
    matches = [(number, pattern.fullmatch(line)) for number, line in numbered]
    faulty = (number for number, match in matches if match is None)
    problems.add(f"lines not of the form {header!r}, numbers", faulty)
    problems.raise_if_any("mend these lines; a caption stands on one line")
    counts: Counter[str] = Counter()
    for fields in (match.groupdict() for _, match in matches if match is not None):
        image = _unquote(fields["image"].strip())
        number = int(fields.get("number") or counts[image])
        counts[image] += 1
        yield f"{image}#{number}", image, _unquote(fields["caption"].strip())


def _unquote(text: str) -> str:
    """Text without CSV quotes; a caption that only begins with a quotation keeps it."""
    match = _QUOTED.fullmatch(text)
    return match[1].replace('""', '"') if match else text


def _listed_splits(raw: Path, name: str, names: list[str]) -> dict[str, str]:
    """The split of each listed image; lists may leave the file name's ending out."""
    folder = raw / name
    if not is_inside(name.rstrip("/")) or not folder.is_dir():
        raise WorkbenchError(f"corpus.split_files = {name!r}: no such folder in {str(raw)!r}")
    known = set(names)
    counts = Counter(name.rpartition(".")[0] for name in names)
    stems = {stem: name for name in names if counts[stem := name.rpartition(".")[0]] == 1}
    splits: dict[str, str] = {}
    twice: list[str] = []
    for split in SPLITS:
        for entry in dict.fromkeys(read_text(_split_list(folder, split)).split("\n")):
            listed = entry.strip()
            image = listed if listed in known else stems.get(listed, listed)
            if image in splits and splits[image] != split:
                twice.append(image)
            if image:
                splits[image] = split
    problems = Problems(str(folder))
    problems.add("images in more than one list", dict.fromkeys(twice))
    problems.raise_if_any("an image that is trained on must not be tested on: mend the lists")
    return splits


def _split_list(folder: Path, split: str) -> Path:
    found = sorted(p for p in folder.iterdir() if _LISTS[split].fullmatch(p.name) and p.is_file())
    if len(found) == 1:
        return found[0]
    names = ", ".join(path.name for path in found) or "none"
    raise WorkbenchError(
        f"{folder}: expected one list of {split} images, such as {split}.txt or "
        f"Flickr_8k.{'dev' if split == 'val' else split}Images.txt; found {names}",
        "corpus.split_files names a folder with one list for each of train, val and test",
    )
