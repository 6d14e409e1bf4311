"""Kaggle's downloads of Flickr8k (captions.txt) and Flickr30k (results.csv)."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from pipeline.dataset.source import (
    Options,
    Source,
    find_annotations,
    find_image_folder,
    find_in_raw,
)
from pipeline.dataset.splits import listed_splits, seeded_splits
from pipeline.runtime.errors import WorkbenchError, counted
from pipeline.runtime.text import Problems, read_text

SIGNS = ("captions.txt", "results.csv")
_COMMA_HEADER = re.compile(r"image(_name)?\s*,\s*caption")
_BAR_HEADER = re.compile(r"image_name\s*\|\s*comment_number\s*\|\s*comment")
_COMMA_LINE = re.compile(r'(?P<image>"(?:[^"]|"")+"|[^,"]+),(?P<caption>.*)')
# One line of the published results.csv lacks its second bar ("2199200615.jpg| 4   A dog runs ...").
_BAR_LINE = re.compile(r"(?P<image>[^|]+)\|\s*(?P<number>\d{1,9})(?:\s*\||\s)(?P<caption>.*)")
_QUOTED = re.compile(r'"((?:[^"]|"")*)"')


def read(raw: Path, out: Path, options: Options) -> Source:
    """Read captions.txt or results.csv: image_id is the file's name, caption_id `<image>#<number>`.
    The splits come from the lists in corpus.split_files, else from the seed."""
    path = find_annotations(raw, options.corpus.annotations, SIGNS)
    captions = pd.DataFrame(read_captions(path), columns=["caption_id", "image_id", "text"])
    names = list(dict.fromkeys(captions["image_id"]))
    if options.corpus.split_files is None:
        splits = seeded_splits(names, options)
    else:
        folder = find_in_raw(raw, options.corpus.split_files, "corpus.split_files")
        splits = listed_splits(folder, names)
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
