"""VSE++'s and SCAN's folders as a dataset without photographs: train_ims.npy, train_caps.txt.

Their downloads (data.tar, data.zip) have features and captions alone. The images of such a corpus
have no file: `image_features.source: file` or `regions.source: scan_npy` reads the same folder.
"""

from pathlib import Path

import pandas as pd

from pipeline.corpus.dataset.annotations import one_split_each
from pipeline.corpus.dataset.folder import Folder, joined
from pipeline.corpus.dataset.recognise import Found, annotation_files
from pipeline.corpus.dataset.source import Options, Source, features_from, list_raw
from pipeline.corpus.dataset.splits import settled_splits
from pipeline.features.matching.precomp_splits import (
    ARRAYS,
    CAPTIONS,
    FILES,
    IDS,
    PrecompSplit,
    described,
    read_split,
    whole_splits,
)
from pipeline.runtime.errors import WorkbenchError, counted, listing

PHOTOGRAPHS = False  # its images have no files
EXPECTED = f"a folder with train{ARRAYS} and train{CAPTIONS}, as those of VSE++ and SCAN"
KNOWN = tuple(name for names in FILES.values() for name in names)
TAGS = "_tags.txt"


def recognise(folder: Folder) -> list[Found]:
    """The folders that have an array and captions of the same name."""
    finds = []
    for place, files in folder.files.items():
        named = [file.removesuffix(ARRAYS) for file in sorted(files) if file.endswith(ARRAYS)]
        both = [name for name in named if name + CAPTIONS in files]
        both.sort(key=lambda name: KNOWN.index(name) if name in KNOWN else len(KNOWN))
        if both:
            own = [name + ending for name in both for ending in (ARRAYS, CAPTIONS, IDS)]
            finds.append(
                Found(
                    files=tuple(joined(place, file) for file in own if file in files),
                    has_splits="train" in both and len(both) > 1,
                    is_published=True,
                    needs_images=False,
                )
            )
    return finds


def read(raw: Path, out: Path, options: Options) -> Source:
    """Read a folder of features and captions: image_id is the id in the ids file, else the split
    and the number of the image in it (`train/0`); caption_id `<image_id>#<number>`.

    Args:
        raw: the user's folder.
        out: not used; there are no images.
        options: corpus.annotations, one of several such folders; how splits are drawn.

    Returns:
        The source, without files.

    Raises:
        WorkbenchError: no such folder, files of a split that lack the other, numbers of rows,
            captions and ids that do not fit together, or an image in two splits.
    """
    folder = list_raw(raw, options)
    found = annotation_files(folder, options, recognise=recognise, expected=EXPECTED)
    place = (raw / found.files[0]).parent
    prefixes = whole_splits(place)
    if not prefixes:
        raise WorkbenchError(f"{place}: no files of a split", f"expected is {EXPECTED}")
    remarks = _passed_over(folder, raw, place, prefixes)
    splits = [read_split(prefix, split) for split, prefix in prefixes.items()]
    remarks += [remark for own in splits for remark in own.remarks]
    named = one_split_each(place, ((name, own.split) for own in splits for name in own.images))
    settled, drawn = settled_splits(named, options)
    images = pd.DataFrame({"image_id": list(settled), "split": list(settled.values())})
    captions = [
        (f"{name}#{number}", name, text)
        for own in splits
        for name, texts in zip(own.images, own.captions, strict=True)
        if name in settled
        for number, text in enumerate(texts)
    ]
    return Source(
        root=place,
        images=images,
        captions=pd.DataFrame(captions, columns=["caption_id", "image_id", "text"]),
        remarks=(*remarks, *drawn, f"images without files, as {described(splits)}"),
        has_files=False,
        settings=_settings(place, splits),
        folder=folder,
        files=tuple(file for file in folder if (raw / file).parent == place),
    )


def _passed_over(folder: Folder, raw: Path, place: Path, prefixes: dict[str, Path]) -> list[str]:
    """Lines about files beside those that are read; WorkbenchError for one of a pair."""
    files = folder.files["" if place == raw else place.relative_to(raw).as_posix()]
    taken = {prefix.name for prefix in prefixes.values()}
    names = {
        ending: {file.removesuffix(ending) for file in files if file.endswith(ending)}
        for ending in (ARRAYS, CAPTIONS)
    }
    alone = {name for name in names[ARRAYS] ^ names[CAPTIONS] if name in KNOWN}
    if alone:
        name = min(alone)
        there, lacking = (ARRAYS, CAPTIONS) if name in names[ARRAYS] else (CAPTIONS, ARRAYS)
        raise WorkbenchError(
            f"{place}: {name}{there} without {name}{lacking}",
            f"copy {name}{lacking} there, or move {name}{there} away: a split that has no files is "
            "drawn from the others",
        )
    lines = []
    others = sorted((names[ARRAYS] & names[CAPTIONS]) - taken)
    if others:
        read = listing(sorted(taken))
        lines.append(f"passed over: files of {listing(others)}, beside those of {read}")
    tags = sorted(file for file in files if file.endswith(TAGS))
    if tags:
        lines.append(f"not read: {listing(tags)}")
    if folder.photographs:
        lines.append(
            f"not used: {counted(folder.photographs, 'photograph')} below {raw}; the images are "
            "the rows of the arrays, without files"
        )
    return lines


def _settings(place: Path, splits: list[PrecompSplit]) -> tuple[str, ...]:
    """The settings that read the arrays as features."""
    if all(len(own.shape) == 2 for own in splits):
        return features_from(place)
    return "regions.source=scan_npy", f"regions.path={place.absolute()}"
