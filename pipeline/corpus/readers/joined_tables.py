"""Two tables, as databases write them: one of images with ids and files, and one of captions that
name their images by these ids.

    images.csv    id,file_name,split      captions.csv    id,image_id,caption
                  7,dog.jpg,train                         1,7,A dog runs.

Each is one file, or one for each split. Once they are joined, all is as in captions_csv.py.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from pipeline.corpus.dataset.cells import (
    CAPTION_COLUMNS,
    IMAGE_COLUMNS,
    SPLIT_COLUMNS,
    passed_over,
)
from pipeline.corpus.dataset.folder import Folder, stem_of
from pipeline.corpus.dataset.locate import is_among
from pipeline.corpus.dataset.recognise import (
    Found,
    annotation_files,
    few_files,
    files_by_split,
    head,
)
from pipeline.corpus.dataset.source import Options, Source, list_raw
from pipeline.corpus.dataset.splits import split_in_path, split_named
from pipeline.corpus.dataset.table import (
    captions_in,
    counted_cells,
    pairs_in,
    read_captions,
    read_cells,
)
from pipeline.corpus.dataset.table_form import NUMBER, Columns, columns_passed_over, find_form
from pipeline.corpus.readers.captions_csv import source_of
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.text import Problems

PATTERNS = ("*.csv", "*.tsv", "*.txt")
OF_IMAGES = ("image_id", "imageid", "img_id", "photo_id", "picture_id")
IDS = (*OF_IMAGES, "id", "key", "uid")  # the best first: beside an `image_id`, `id` counts rows
FILES = tuple(name for name in IMAGE_COLUMNS if name not in OF_IMAGES)
# what a table of captions may call the id of an image
REFERENCES = (*OF_IMAGES, "image", "img", "photo", "picture", "id")
# A table of images is read as one of captions, in which a file's text is its id.
IMAGES = Columns(images=FILES, captions=IDS)
CAPTIONS = Columns(images=REFERENCES, captions=CAPTION_COLUMNS)
DIVIDED = Columns(images=REFERENCES, captions=SPLIT_COLUMNS)
HAS_ROWS = True  # of which corpus.rows keeps some
EXPECTED = (
    "a table of images with columns of ids and files, such as id,file_name, and one of captions "
    "with columns such as image_id,caption"
)


def recognise(folder: Folder) -> list[Found]:
    """Tables of captions whose images are the ids of another table, whose files are there. Where
    every id is the name of its own file, the captions need no second table."""
    tables = few_files(folder, *PATTERNS)
    of_images = [file for file in tables if _is_of_images(folder, file)]
    of_captions = [
        file for file in tables if file not in of_images and _names(folder, file, CAPTIONS)
    ]
    found = []
    for images in files_by_split(of_images) if of_captions else ():
        own = [pair for file in images for pair in pairs_in(head(folder, file), IMAGES)]
        if all(stem_of(one) == stem_of(name) for name, one in own):
            continue
        names = {one: name for name, one in own}
        for captions in files_by_split(of_captions):
            ids = [one for file in captions for one, _ in pairs_in(head(folder, file), CAPTIONS)]
            described = tuple(names[one] for one in dict.fromkeys(ids) if one in names)
            if any(is_among(name, folder.stems) for name in described):
                has_splits = any(
                    _has_splits(folder, files, columns)
                    for files, columns in ((images, IMAGES), (captions, CAPTIONS))
                )
                both = (*captions, *images)
                found.append(Found(files=both, names=described, has_splits=has_splits))
    return found


def _is_of_images(folder: Folder, file: str) -> bool:
    """Whether a file is a table of ids and files of images; one of captions may call the id of its
    image `image`."""
    return any(not NUMBER.fullmatch(image) for image, _ in pairs_in(head(folder, file), IMAGES))


def _names(folder: Folder, file: str, columns: Columns) -> bool:
    """Whether the first line of a file names both columns."""
    form = find_form(head(folder, file), columns)
    return form is not None and form.has_header


def _has_splits(folder: Folder, files: Sequence[str], columns: Columns) -> bool:
    """Whether tables of one kind say the splits: in a column, or by the names of several files."""
    form = find_form(head(folder, files[0]), columns)
    return len(files) > 1 or (form is not None and form.split is not None)


def read(raw: Path, out: Path, options: Options) -> Source:
    """Read tables of images and of captions: image_id is the file's path, caption_id
    `<image>#<number>`.

    Args:
        raw: the user's folder.
        out: not used; images stay where they are.
        options: corpus.annotations, the table of captions, or a folder of both; corpus.image_field
            and corpus.caption_field, columns of it that have other names than the usual;
            corpus.rows, which of its rows count.

    Returns:
        The source. Its splits come from a column or the names of the tables of images, else from
        those of the tables of captions, else from lists beside them, else from the seed.

    Raises:
        WorkbenchError: no tables, lines that cannot be read, an id of two images or of none, an
            image in two splits.
    """
    folder = list_raw(raw, options)
    chosen = Columns.chosen(options.corpus.image_field, options.corpus.caption_field)
    columns = Columns(
        images=REFERENCES if options.corpus.image_field is None else chosen.images,
        captions=chosen.captions,
    )
    found = annotation_files(folder, options, recognise=recognise, expected=EXPECTED)
    of_images = [file for file in found.files if _is_of_images(folder, file)]
    of_captions = [file for file in found.files if file not in of_images]
    if not of_images:  # one table was named
        tables = few_files(folder, *PATTERNS)
        of_images = [file for file in tables if _is_of_images(folder, file)]
    if not of_images or not of_captions:
        raise WorkbenchError(
            f"{raw}: {listing(found.files, 3)} alone; looked for {EXPECTED}",
            "put both into the folder, and let corpus.annotations name the one of captions",
        )
    images = _divided(folder, _read_images(raw, of_images), found.files)
    unread = {
        file: columns_passed_over(head(folder, file), IMAGES if file in of_images else columns)
        for file in found.files
    }
    read_ones = {file: read_cells(raw / file, columns) for file in of_captions}
    counted_ones, counting = counted_cells(
        str(raw / of_captions[0]), read_ones, unread=unread, config=options.corpus
    )
    captions = {file: captions_in(cells, form) for file, (cells, form) in counted_ones.items()}
    left_out = [line for _, form in read_ones.values() for line in form.remarks]
    joined = {file: _joined(raw / file, rows, images) for file, rows in captions.items()}
    remark = f"the ids of {listing(of_captions, 3)} are those of {listing(of_images, 3)}"
    passed = passed_over([name for names in unread.values() for name in names])
    source = source_of(folder, options, joined, (remark, *passed, *left_out, *counting))
    divided = [file for file in few_files(folder, *PATTERNS) if _names(folder, file, DIVIDED)]
    return replace(source, files=(*source.files, *of_images, *divided))


def _read_images(raw: Path, files: Sequence[str]) -> pd.DataFrame:
    """The images of tables: columns image and split, by their ids."""
    tables = []
    for file in files:
        rows = read_captions(raw / file, IMAGES)
        split = split_in_path(file) or ""
        tables.append(rows.assign(split=rows["split"].where(rows["split"] != "", split)))
    rows = pd.concat(tables, ignore_index=True).drop_duplicates(["text", "image", "split"])
    twice = rows["text"][rows["text"].duplicated()].unique()
    problems = Problems(listing([raw / file for file in files], 3))
    problems.add("ids of more than one image, or of one in two splits", twice)
    problems.raise_if_any("give every image an id of its own")
    return rows.set_index("text")[["image", "split"]]


def _divided(folder: Folder, images: pd.DataFrame, read_already: Sequence[str]) -> pd.DataFrame:
    """Images with the splits that a third table gives to their ids, where their own gives none."""
    if (images["split"] != "").any():
        return images
    words: dict[str, str] = {}
    for file in few_files(folder, *PATTERNS):
        if file not in read_already and _names(folder, file, DIVIDED):
            rows = read_captions(folder.root / file, DIVIDED)
            words |= dict(zip(rows["image"], rows["text"], strict=True))
    return images.assign(split=[words.get(one, "") for one in images.index])


def _joined(path: Path, captions: pd.DataFrame, images: pd.DataFrame) -> pd.DataFrame:
    """A table of captions with the images' names for their ids, and the images' splits."""
    ids = captions["image"]
    problems = Problems(str(path))
    problems.add("captions of images that have no row, ids", ids[~ids.isin(images.index)].unique())
    problems.raise_if_any("add them to the table of images, or take their captions out")
    found = images.loc[ids].reset_index(drop=True)
    own = captions["split"]
    theirs = found["split"]
    differ = (own != "") & (theirs != "") & (own.map(_split) != theirs.map(_split))
    problems.add("captions in another split than their image, ids", ids[differ].unique())
    problems.raise_if_any("mend one of the two columns of splits, or take it out")
    return captions.assign(image=found["image"], split=theirs.where(theirs != "", own))


def _split(word: str) -> str:
    """A word for a split as it is compared: `valid` is `val`."""
    return split_named(word) or word
