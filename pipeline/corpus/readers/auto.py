"""Whichever reader the files of a folder were made for, known by what is in them."""

from collections.abc import Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from pipeline.corpus.dataset import READERS
from pipeline.corpus.dataset.cells import ROW_NUMBERS, is_plain, plain_texts
from pipeline.corpus.dataset.conditions import require_rows
from pipeline.corpus.dataset.folder import Folder
from pipeline.corpus.dataset.json_forms import first_of_lists
from pipeline.corpus.dataset.locate import is_among
from pipeline.corpus.dataset.no_captions import (
    no_captions,
    what_instead,
    what_of_images,
)
from pipeline.corpus.dataset.recognise import (
    Found,
    files_by_split,
    first_pairs,
    head,
    not_of_others,
    quality,
)
from pipeline.corpus.dataset.source import Options, Source, list_raw
from pipeline.corpus.dataset.splits import split_in_path, without_split
from pipeline.corpus.dataset.table_form import columns_named, texts_behind_images
from pipeline.runtime.errors import WorkbenchError, counted, listing
from pipeline.runtime.first_bytes import explain
from pipeline.runtime.text import read_text

HAS_ROWS = True  # those of the reader that is chosen
WORKBOOKS = (".xlsx", ".xls", ".ods")
TABLES = (".csv", ".tsv")
RECORDS = (".json", ".jsonl", ".jsonlines", ".ndjson")
TEXTS = (*TABLES, ".txt", *RECORDS)
LIKELY = (*TEXTS, *WORKBOOKS, ".parquet", ".gz", ".zip", ".tar")
CALLED = ("*caption*", "*annotation*", "*description*")
UNFINISHED = ("*.crdownload", "*.part", "*.partial", "*.download")
TABLE = "write captions.txt with lines image,caption there (first line: image,caption)"
LOOKED_AT = 20  # files in which a reason is looked for


class Candidate(NamedTuple):
    """A reader and the files of a folder that it could read."""

    reader: str
    found: Found

    def __str__(self) -> str:
        return f"{self.found} ({self.reader})"


def read(raw: Path, out: Path, options: Options) -> Source:
    """Read `raw` by the reader whose files are there.

    Args:
        raw: the user's folder.
        out: the folder of the corpus.
        options: those of the reader that is chosen.

    Returns:
        Its source; the first remark says which reader it is, and what was passed over.

    Raises:
        WorkbenchError: no reader knows a file there, or two readers know equally good ones.
    """
    folder = list_raw(raw, options)
    options = replace(options, folder=folder)
    candidates = ranked_candidates(folder)
    known = {file for one in candidates for file in (*one.found.files, *one.found.others)}
    named = options.corpus.annotations
    if named is None:
        kept = not_of_others(folder, options.corpus.images, [own.found for own in candidates])
        candidates = [own for own in candidates if own.found in kept]
    else:
        candidates = [own for one in candidates if (own := _named(one, named.rstrip("/")))]
    candidates = candidates or _named_by_fields(folder, options)
    if not candidates:
        _read_by_name(folder, out, options)
        raise _unknown(folder)
    chosen = candidates[0]
    others = candidates[1:]
    _check_one_form(raw, chosen, others)
    rivals = [one for one in others if _are_rivals(one, chosen, folder)]
    if rivals and not _say_the_same([chosen, *rivals], folder, out, options):
        raise WorkbenchError(
            f"{raw}: could be of several kinds: {listing([chosen, *rivals])}",
            f"set dataset in params.yaml to {chosen.reader} or {rivals[0].reader}",
        )
    require_rows(chosen.reader, options.corpus.rows)
    source: Source = READERS.load(chosen.reader)(raw, out, options)
    chosen, others = _as_read(source, chosen, others)
    if named is None and options.corpus.caption_field is None:
        _check_texts(source, chosen)
    passed_over = f"; passed over: {listing(others, 5)}" if others else ""
    remark = f"dataset: {chosen.reader}, because of {chosen.found}{passed_over}"
    unread = _unread(folder, known)
    return replace(source, remarks=(remark, *unread, *source.remarks))


def _check_texts(source: Source, chosen: Candidate) -> None:
    """Raise WorkbenchError for texts that are no captions, where nobody has said that they are."""
    texts = source.captions["text"].tolist()
    what = what_of_images(texts, source.captions["image_id"].tolist())
    if what:
        way_out = f"set dataset: {chosen.reader}, which reads them all the same"
        raise no_captions(f"{source.root}: {chosen.found}", texts, way_out, what)


def _unread(folder: Folder, known: Set[str]) -> list[str]:
    """Remarks on files that no reader knows and whose names say that they hold captions, such as a
    workbook that is newer than the table beside it, and on downloads that were not finished.

    Args:
        folder: the files of the user's folder.
        known: the files that some reader knows.
    """
    called = [file for file in folder.matching(*CALLED) if file.lower().endswith(LIKELY)]
    unknown = [file for file in called if file not in known]
    unfinished = folder.matching(*UNFINISHED)
    kinds = {
        "no captions are known in it": unknown,
        "its download was not finished": unfinished,
    }
    return [
        f"not read, for {reason}: {listing(files, 3)}" for reason, files in kinds.items() if files
    ]


def _are_rivals(one: Candidate, other: Candidate, folder: Folder) -> bool:
    """Whether two readers know equally good files; or whether one reads a part of what the other
    joins, and both find images: ids of a second table that are names of files, too."""
    if one.reader == other.reader:
        return False
    ranks = [quality(own.found, folder.stems) for own in (one, other)]
    files = [set(own.found.files) for own in (one, other)]
    is_part = files[0] < files[1] or files[1] < files[0]
    return ranks[0] == ranks[1] or (is_part and ranks[0][:2] == ranks[1][:2] == (True, 2))


def _say_the_same(
    candidates: Sequence[Candidate], folder: Folder, out: Path, options: Options
) -> bool:
    """Whether readers of different files read the same captions and splits of the same images, as
    of a table that was saved as JSON, too. Images inside shards are not written for this."""
    files = [file for one in candidates for file in one.found.files]
    if len(set(files)) < len(files) or not all(one.found.names for one in candidates):
        return False
    try:
        sources = [READERS.load(one.reader)(folder.root, out, options) for one in candidates]
    except WorkbenchError:
        return False  # the user chooses, and is then told what is wrong with it
    return all(_content(own) == _content(sources[0]) for own in sources[1:])


def _content(source: Source) -> tuple[set[tuple[str, ...]], set[tuple[str, ...]]]:
    """The splits of the images of a source, and their captions."""
    splits = zip(source.images["image_id"], source.images["split"], strict=True)
    captions = zip(source.captions["image_id"], source.captions["text"], strict=True)
    return {*splits}, {*captions}


def _as_read(
    source: Source, chosen: Candidate, others: Sequence[Candidate]
) -> tuple[Candidate, list[Candidate]]:
    """The candidate whose files its reader read, and those that it passed over: of several the
    reader chooses, or reads a part of one."""
    own = [one for one in (chosen, *others) if one.reader == chosen.reader]
    files = tuple(file for one in own for file in one.found.files if file in set(source.files))
    if not files:
        return chosen, [*others]
    left = [one for one in (chosen, *others) if not set(one.found.files) <= set(files)]
    return chosen._replace(found=replace(chosen.found, files=files)), left


def _check_one_form(raw: Path, chosen: Candidate, others: Sequence[Candidate]) -> None:
    """Refuse files that differ from those that are read in their split alone, and are of another
    form: a split would be drawn from the others, as if they had never been there."""
    names = {without_split(file): file for file in chosen.found.files if split_in_path(file)}
    for other in others if names else ():
        for file in filter(split_in_path, other.found.files):
            own = names.get(without_split(file), file)
            if own not in other.found.files:  # else the other reader knows both
                raise WorkbenchError(
                    f"{raw}: {own} ({chosen.reader}) and {file} ({other.reader}) are called like "
                    "splits of one dataset, and have different forms",
                    "write both in one form, or name the one that is to be read by "
                    "corpus.annotations in params.yaml",
                )


def _named(one: Candidate, name: str) -> Candidate | None:
    """A candidate with the files that corpus.annotations names: all, where one of them is named, or
    those in a folder; None without any."""
    files = one.found.files
    inside = (
        files if name in files else tuple(file for file in files if file.startswith(f"{name}/"))
    )
    inside = inside or tuple(file for file in one.found.others if file.startswith(f"{name}/"))
    return one._replace(found=replace(one.found, files=inside)) if inside else None


def _named_by_fields(folder: Folder, options: Options) -> list[Candidate]:
    """The reader of the file that somebody names with its columns or fields, by its ending, so that
    both are enough; empty where the file, the image or the captions are not named."""
    config = options.corpus
    file = config.annotations
    if file is None or None in (config.image_field, config.caption_field):
        return []
    if not (folder.root / file).is_file():
        return []
    ending = Path(file).suffix.lower()
    if ending in RECORDS:
        return [Candidate("records_json", Found(files=(file,)))]
    is_table = ending in (*TABLES, ".txt")
    return [Candidate("captions_csv", Found(files=(file,)))] if is_table else []


def _read_by_name(folder: Folder, out: Path, options: Options) -> None:
    """Let a reader say what is wrong with a file that has a published name but not its content: a
    download that was cut, or a page of HTML. Nothing where no file has such a name."""
    for name in READERS:
        if folder.matching(*READERS.constant(name, "PUBLISHED", ())):
            READERS.load(name)(folder.root, out, options)


def _unknown(folder: Folder) -> WorkbenchError:
    """Why no reader knows a folder: what is the matter with the files that may hold captions."""
    files = folder.others
    likely = [file for file in files if file.lower().endswith(LIKELY)] or files
    without: WorkbenchError | None = None
    for file in likely[:LOOKED_AT]:
        problem = _problem_of(folder, file)
        if problem is not None:
            return problem
        without = without or _without_captions(folder, file)
    if without is not None:
        return without
    images = f"{counted(folder.photographs, 'image')} and "
    others = listing(likely, 5) if likely else "no other file"
    return WorkbenchError(
        f"{folder.root}: no captions that a reader knows, among {images}{others}",
        f"{TABLE}; docs/datasets.md shows all layouts",
    )


def _problem_of(folder: Folder, relative: str) -> WorkbenchError | None:
    """What keeps a file from being read at all; None for one that is text without captions."""
    path = folder.root / relative
    if path.suffix.lower() in WORKBOOKS:
        return WorkbenchError(
            f"{path}: a workbook of a spreadsheet program, which is not read",
            "save its sheet as CSV (UTF-8) beside it",
        )
    if not path.is_file():
        return None
    if path.suffix.lower() == ".parquet":
        return WorkbenchError(
            f"{path}: a parquet file without images, of which no captions are read",
            "if it names images that lie beside it, write its columns of images and captions as a "
            "table there, by pandas.read_parquet(...).to_csv('captions.csv')",
        )
    if _without_captions(folder, relative) is not None:
        return None  # said where no other file may have them
    problem = explain(path, hint=TABLE)
    if problem is None and path.suffix.lower() in TEXTS:
        try:
            text = read_text(path)
        except WorkbenchError as error:
            return error
        is_table = path.suffix.lower() in TABLES
        names = columns_named(text, folder.stems) if is_table else []
        if names:
            return _unnamed(folder, relative, "captions_csv", "columns", names)
        names = _texts_named(folder, relative) if path.suffix.lower() in RECORDS else []
        if len(names) > 1:
            return _unnamed(folder, relative, "records_json", "fields", names)
    return problem


def _without_captions(folder: Folder, file: str) -> WorkbenchError | None:
    """Why a file that names images has no captions of them; None for any other file."""
    path = folder.root / file
    ending = path.suffix.lower()
    if ending == ".json":
        pairs = first_pairs(folder, file)
        are_named = bool(pairs) and is_among(pairs[0][0], folder.stems)
        texts = [own for _, value in pairs if is_plain(value) for own in plain_texts(value)]
        way_out = f"set dataset: records_json and corpus.annotations: {file}"
    else:
        texts = texts_behind_images(head(folder, file)) if ending in (*TABLES, ".txt") else []
        are_named = bool(texts)
        way_out = (
            "write a first line image,caption above them, with a comma between both, and set "
            "dataset: captions_csv"
        )
    if not are_named or not what_instead(texts):
        return None
    return no_captions(str(path), texts, way_out)


def _unnamed(
    folder: Folder, relative: str, reader: str, noun: str, names: Sequence[str]
) -> WorkbenchError:
    """The error for a file, and those of other splits, whose columns or fields have names that
    nobody knows."""
    endings = TABLES if reader == "captions_csv" else RECORDS
    files = (file for file in folder.others if file.lower().endswith(endings))
    together = next(own for own in files_by_split(files) if relative in own)
    place = f"{folder.root}: {listing(together)}" if together[1:] else folder.root / relative
    file = "" if together[1:] else f"corpus.annotations: {relative}, "
    return WorkbenchError(
        f"{place}: no {noun} of images and captions are known among {listing(names)}",
        f"set dataset: {reader}, {file}and corpus.image_field and corpus.caption_field to two of "
        "them",
    )


def _texts_named(folder: Folder, relative: str) -> list[str]:
    """The fields of a file's records that are texts, or lists of texts; ids are none."""
    record = first_of_lists(folder, relative).get("", {})
    return [name for name, value in record.items() if is_plain(value) and name not in ROW_NUMBERS]


def ranked_candidates(folder: Folder) -> list[Candidate]:
    """What every reader knows of a folder, the best first; equals in the order of their names."""
    modules = {name: READERS.imported(name) for name in READERS}
    candidates = [
        Candidate(name, found)
        for name, module in modules.items()
        if hasattr(module, "recognise")
        for found in module.recognise(folder)
    ]
    return sorted(candidates, key=lambda one: quality(one.found, folder.stems), reverse=True)
