"""Tables of captions: Flickr8k.token.txt, Kaggle's captions.txt and results.csv, anybody's own.

One file, or one for each split. What a table may look like says dataset/table_form.py.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from pipeline.corpus.dataset.annotations import described_source, one_split_each
from pipeline.corpus.dataset.cells import passed_over
from pipeline.corpus.dataset.folder import Folder, joined
from pipeline.corpus.dataset.locate import told_apart
from pipeline.corpus.dataset.recognise import (
    Found,
    annotation_files,
    check_parts,
    few_files,
    files_by_split,
    head,
    parts_together,
)
from pipeline.corpus.dataset.source import Options, Source, list_raw
from pipeline.corpus.dataset.split_lists import find_split_lists, said_by_folders
from pipeline.corpus.dataset.splits import (
    check_other_splits,
    split_in_path,
    split_named,
    split_or_rest,
)
from pipeline.corpus.dataset.table import (
    captions_in,
    counted_cells,
    first_images,
    read_cells,
    several_in_cells,
    without_fractions,
)
from pipeline.corpus.dataset.table_folders import with_folders
from pipeline.corpus.dataset.table_form import (
    USUAL,
    Columns,
    Form,
    columns_passed_over,
    find_form,
    has_titles,
)
from pipeline.runtime.errors import WorkbenchError, counted, listing
from pipeline.runtime.text import Problems

PUBLISHED = ("captions.txt", "results.csv", "flickr8k.token.txt", "results_20130124.token")
PATTERNS = ("*.txt", "*.csv", "*.tsv", "*.token")
OTHERS = ("metadata.csv",)  # image_folder's
DEEPEST = 4  # folders between raw and a table
HAS_ROWS = True  # of which corpus.rows keeps some


def recognise(folder: Folder, columns: Columns = USUAL) -> list[Found]:
    """The tables of captions in a folder; those that differ in their split alone are one find.

    Args:
        folder: the files of the user's folder.
        columns: what their first lines call images and captions.

    Returns:
        The finds.
    """
    forms = {
        file: find_form(head(folder, file), columns, folder.stems)
        for file in few_files(folder, *PATTERNS)
        if file.rpartition("/")[2] not in OTHERS and file.count("/") <= DEEPEST
    }
    alike: dict[str, list[str]] = {}
    for file, form in forms.items():
        if form is not None:
            alike.setdefault(form.described, []).append(file)
    albums = _albums(folder, [file for files in alike.values() for file in files], columns)
    in_albums = {file for own in albums for file in own}
    others = [file for files in alike.values() for file in files if file not in in_albums]
    names = {file: first_images(head(folder, file), folder.stems, columns) or () for file in others}
    groups = parts_together(files_by_split(others), names)
    return [_found(folder, own, columns) for own in (*albums, *groups)]


def _albums(folder: Folder, files: Sequence[str], columns: Columns) -> list[tuple[str, ...]]:
    """Tables of one name in several folders, each beside most of its images: one dataset, whatever
    their forms and endings."""
    beside = []
    for file in files:
        images = first_images(head(folder, file), folder.stems, columns) or []
        here = folder.files[file.rpartition("/")[0]]
        if 2 * sum(image in here for image in images) > len(images):
            beside.append(file)
    stems = [Path(file).with_suffix("").as_posix() for file in beside]
    are_single = len(set(stems)) == len(stems)
    by_name: dict[str, list[str]] = {}
    for file in beside:
        name = Path(file).stem if are_single else Path(file).name
        by_name.setdefault(name, []).append(file)
    return [tuple(own) for own in by_name.values() if len(own) > 1]


def read(raw: Path, out: Path, options: Options) -> Source:
    """Read tables of captions: image_id is the file's path, caption_id `<image>#<number>`.

    Args:
        raw: the user's folder.
        out: not used; images stay where they are.
        options: corpus.annotations, a table or a folder of them; corpus.image_field and
            corpus.caption_field, columns of other names than the usual; corpus.rows, which rows
            count; corpus.split_files, a folder with lists of images.

    Returns:
        The source. Its splits come from a column of the table, else from the names of several
        tables, else from lists beside the table, else from the seed.

    Raises:
        WorkbenchError: no table, lines that cannot be read, an image in two splits.
    """
    folder = list_raw(raw, options)
    columns = Columns.chosen(options.corpus.image_field, options.corpus.caption_field)
    found = annotation_files(
        folder,
        options,
        recognise=partial(recognise, columns=columns),
        expected="a table with columns of images and captions, such as captions.txt",
        published=PUBLISHED,
        joins_parts=True,
    )
    read_ones: dict[str, tuple[pd.DataFrame, Form]] = {}
    of_folders: dict[str, None] = {}
    unread: dict[str, list[str]] = {}
    several: list[str] = []
    for file in found.files:
        cells, form = read_cells(raw / file, columns, folder.stems)
        cells, column = with_folders(folder, form, cells)
        read_ones[file] = (cells, form)
        passed = columns_passed_over(head(folder, file), columns, folder.stems)
        unread[file] = [name for name in passed if name != column]
        if column:
            of_folders[column] = None
    counted_ones, counting = counted_cells(
        str(raw / found.files[0]), read_ones, unread=unread, config=options.corpus
    )
    tables: dict[str, pd.DataFrame] = {}
    for file, (cells, form) in counted_ones.items():
        tables[file] = without_fractions(captions_in(cells, form), folder.stems)
        several += form.remarks
        several += several_in_cells(file, form, len(cells), len(tables[file]))
    passed_names = [name for names in unread.values() for name in names]
    remarks = (*passed_over(passed_names), *counting, *several)
    if of_folders:
        remarks += (f"images: in the folders that column {listing(of_folders)} names",)
    tables = _with_folders(folder, tables)
    check_parts(raw, {file: rows["image"].unique() for file, rows in tables.items()})
    tables, others = _in_chosen(tables, options.corpus.images)
    return source_of(folder, options, tables, (*remarks, *others))


def source_of(
    folder: Folder,
    options: Options,
    tables: Mapping[str, pd.DataFrame],
    remarks: Sequence[str] = (),
) -> Source:
    """The source of tables that are read.

    Args:
        folder: the files of the user's folder.
        options: as in `read`.
        tables: by file, as `read_captions` returns them.
        remarks: lines for the user about what was passed over.

    Returns:
        The source.

    Raises:
        WorkbenchError: an image in two splits, or one that cannot be found.
    """
    tables = _told_apart(folder, tables)
    splits, others = _splits(folder.root, tables, options)
    return described_source(
        folder,
        options,
        splits=splits,
        captions=with_caption_ids(tables.values()),
        remarks=(*remarks, *others),
        files=list(tables),
    )


def with_caption_ids(tables: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """The captions of tables with ids `<image>#<number>`.

    Args:
        tables: columns image, text and number, as `read_captions` returns them.

    Returns:
        Columns caption_id, image_id and text. The number is the table's or, for an image whose
        numbers are missing or repeat, the place among its captions.
    """
    rows = pd.concat(tables, ignore_index=True)
    places = rows.groupby("image", sort=False).cumcount()
    numbers = places
    if (rows["number"] >= 0).any():
        unusable = (rows["number"] < 0) | rows.duplicated(["image", "number"], keep=False)
        are_counted = unusable.groupby(rows["image"]).transform("any")
        numbers = rows["number"].where(~are_counted, places)
    return pd.DataFrame(
        {
            "caption_id": rows["image"] + "#" + numbers.astype(str),
            "image_id": rows["image"],
            "text": rows["text"],
        }
    )


def _found(folder: Folder, files: tuple[str, ...], columns: Columns) -> Found:
    """Tables that are read together, with some of their images."""
    texts = [head(folder, file) for file in files]
    own = (first_images(text, folder.stems, columns) for text in texts)
    names = [name for images in own for name in images or ()]
    form = find_form(texts[0], columns, folder.stems)
    has_column = form is not None and form.split is not None
    beside = files[0].rpartition("/")[0]
    return Found(
        files=files,
        names=tuple(names),
        has_splits=has_column
        or (len(files) > 1 and all(map(split_in_path, files)))
        or _has_lists(folder, beside, names),
        is_published=files[0].rpartition("/")[2].lower() in PUBLISHED,
        has_titles=form is not None and has_titles(form) and "caption" not in files[0].lower(),
    )


def _has_lists(folder: Folder, beside: str, names: Sequence[str]) -> bool:
    """Whether lists of splits lie beside a table; what is wrong with them the reading says, unless
    corpus.split_files names others."""
    try:
        return find_split_lists(folder, beside, names) is not None
    except WorkbenchError:
        return True


def _with_folders(folder: Folder, tables: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Tables of several folders: the names in one that lies beside its images are those of its own
    folder, and of no other that has files of these names."""
    places = {file: file.rpartition("/")[0] for file in tables}
    if len(set(places.values())) == 1:
        return dict(tables)
    named = dict(tables)
    for file, rows in tables.items():
        names = rows["image"].unique().tolist()
        if not folder.files[places[file]].isdisjoint(names):
            inside = {name: joined(places[file], name) for name in names}
            named[file] = rows.assign(image=rows["image"].map(inside))
    return named


def _in_chosen(
    tables: Mapping[str, pd.DataFrame], chosen: str | None
) -> tuple[dict[str, pd.DataFrame], tuple[str, ...]]:
    """The captions of images in the folder that corpus.images names, if there are some, their names
    as paths inside it; all where no name leads there. And a line about those of other folders,
    whose images may have the same names."""
    if chosen is None:
        return dict(tables), ()
    start = chosen.rstrip("/") + "/"
    inside = {file: rows["image"].str.startswith(start) for file, rows in tables.items()}
    number = sum(int(are_inside.sum()) for are_inside in inside.values())
    left = sum(map(len, tables.values())) - number
    if number == 0:
        return dict(tables), ()
    kept = {
        file: rows[inside[file]].assign(image=lambda own: own["image"].str.removeprefix(start))
        for file, rows in tables.items()
        if inside[file].any()
    }
    line = f"left out: {counted(left, 'caption')} of images outside {chosen}"
    return kept, ((line,) if left else ())


def _told_apart(folder: Folder, tables: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Tables in which images of one name in several splits have their paths as names."""
    splits = {
        file: rows["split"].map(split_named).fillna(split_in_path(file) or "")
        for file, rows in tables.items()
    }
    named = (
        (name, split or None)
        for file, rows in tables.items()
        for name, split in dict.fromkeys(zip(rows["image"], splits[file], strict=True))
    )
    paths = told_apart(folder, named)
    if not paths:
        return dict(tables)
    return {
        file: rows.assign(
            image=[paths[own] for own in zip(rows["image"], splits[file], strict=True)]
        )
        for file, rows in tables.items()
    }


def _splits(
    raw: Path, tables: Mapping[str, pd.DataFrame], options: Options
) -> tuple[dict[str, str | None], tuple[str, ...]]:
    """The split of every image: of the tables' column, else in the paths of the tables. And
    remarks."""
    if any((rows["split"] != "").any() for rows in tables.values()):
        return splits_in_column(tables, options.corpus.restval)
    named = (
        (image, split_in_path(file))
        for file, rows in tables.items()
        for image in rows["image"].unique()
    )
    paths = (file.rpartition("/") for file in tables)
    places = (place for place, _, name in paths if split_in_path(name) is None)
    return one_split_each(raw, named), said_by_folders(places)


def splits_in_column(
    tables: Mapping[str, pd.DataFrame], restval: str
) -> tuple[dict[str, str | None], tuple[str, ...]]:
    """The split that the rows of each image name.

    Args:
        tables: by file, columns image and split, as `read_captions` returns them.
        restval: what Karpathy's split `restval` becomes, train or drop.

    Returns:
        train, val or test for every image, None for one without a split; and a line about words
        that are no split, none without any (`check_other_splits`).

    Raises:
        WorkbenchError: a word that may be a split miswritten, or an image in two.
    """
    rows = pd.concat(tables.values(), ignore_index=True).drop_duplicates(["image", "split"])
    others = check_other_splits(Counter(rows["split"]), listing(tables, 3))
    words = {word: split_or_rest(word, restval) for word in rows["split"].unique()}
    rows = rows.assign(split=rows["split"].map(words)).drop_duplicates(["image", "split"])
    problems = Problems(listing(tables, 3))
    several = rows["image"][rows["image"].duplicated()].unique()
    problems.add("images in more than one split", several)
    problems.raise_if_any(
        "mend the column of splits, or take it out of the table; different images of one name "
        "need their folders before it, as train/1.jpg"
    )
    splits = dict(zip(rows["image"], rows["split"].replace({np.nan: None}), strict=True))
    return splits, others
