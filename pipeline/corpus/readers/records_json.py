"""JSON of records that have an image and its caption or captions, as ALBEF and BLIP write them:
a list, a list under a key, a record on each line, a mapping of image names to captions or to
records with captions, or a table by columns, as pandas writes it."""

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from functools import partial
from itertools import compress
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple, NotRequired

import pandas as pd
from pydantic import BeforeValidator, Field
from typing_extensions import TypedDict

from pipeline.corpus.dataset.annotations import (
    check_keys,
    checked,
    described_source,
    numbered,
    one_split_each,
    read_annotations,
    read_json_lines,
)
from pipeline.corpus.dataset.asked import (
    Chosen,
    check_questions,
    chosen_fields,
    doubted,
    inner_caption,
)
from pipeline.corpus.dataset.cells import (
    CAPTION_COLUMNS,
    IMAGE_COLUMNS,
    NOTHING,
    RARE_IMAGE_COLUMNS,
    SPLIT_COLUMNS,
    are_captions,
    caption_columns,
    image_columns,
    is_plain,
    passed_over,
    plain_name,
    plain_texts,
    texts_of,
)
from pipeline.corpus.dataset.conditions import Conditions
from pipeline.corpus.dataset.conversations import CONVERSATIONS, answers_of
from pipeline.corpus.dataset.counted_rows import Rows, counted_rows, may_tell
from pipeline.corpus.dataset.folder import IMAGE_ENDINGS, Folder, is_image_file
from pipeline.corpus.dataset.json_forms import flat_records, rows_of_lists
from pipeline.corpus.dataset.locate import has_its_name, told_apart
from pipeline.corpus.dataset.no_captions import no_captions, what_instead
from pipeline.corpus.dataset.recognise import (
    MOST_NAMES,
    Found,
    annotation_files,
    are_persons,
    check_parts,
    few_files,
    files_by_split,
    first_pairs,
    first_rows,
    head,
    parts_together,
    values_in_head,
    without_nulls,
)
from pipeline.corpus.dataset.source import Options, Source, list_raw
from pipeline.corpus.dataset.splits import (
    SPLIT_WORDS,
    as_split,
    check_other_splits,
    is_rest,
    split_field,
    split_in_path,
    split_named,
    split_or_rest,
    split_words,
)
from pipeline.corpus.params import CorpusConfig
from pipeline.runtime.errors import WorkbenchError, counted, listing
from pipeline.runtime.section import Name
from pipeline.runtime.text import Problems

PUBLISHED = ("flickr30k_train.json", "coco_karpathy_train.json")
FILES = ("*.json", "*.jsonl", "*.jsonlines", "*.ndjson")
EXPECTED = (
    'JSON of records with an image and its caption, as [{"image": "1.jpg", "caption": "..."}]'
)
HAS_ROWS = True  # of which corpus.rows keeps some
IMAGE_KEY = "its key"  # the image's field in records of a mapping whose keys are the images

LISTS = ("images", *IMAGE_COLUMNS)  # fields that may have a list of images


Captions = str | list[str | None] | None
RecordsOfCaptions = dict[str, Any] | list[dict[str, Any]] | None


def _split_among(value: object) -> object:
    """The split among tags, several with commas between, None for none; another value is itself, if
    it is a word for a split in the usual form."""
    if not isinstance(value, list):
        return as_split(value)
    splits = [split_named(tag) for tag in value if isinstance(tag, str)]
    return ", ".join(dict.fromkeys(filter(None, splits))) or None


Split = Annotated[str | None, BeforeValidator(_split_among)]


class _Row(NamedTuple):
    """An image, its captions, its split, the first image of its record, "" without others, and what
    the record has in the fields that may tell whether it counts."""

    image: str
    texts: list[str]
    split: str | None
    first: str = ""
    cells: Mapping[str, Any] = MappingProxyType({})


class _Keys(NamedTuple):
    """Where a file has its records (the key of their list, "" for none) and their fields."""

    records: str
    image: str
    captions: tuple[str, ...]
    split: str
    has_split: bool  # whether the first record has it
    of_records: bool  # whether captions are records themselves, as {"raw": "a dog", ...}
    others: tuple[str, ...]  # fields of the first record that are not read
    are_several: bool = False  # whether the field of the image has a list of images
    doubt: str = ""  # why the captions may be none
    telling: tuple[str, ...] = ()  # fields that may tell which records count


class _Mapping(NamedTuple):
    """A file that is a mapping: its first image, and the keys of its values, which are records;
    None where images are the keys and captions the values, of_records: lists of records of one."""

    image: str
    keys: _Keys | None
    of_records: bool = False


def recognise(folder: Folder, config: CorpusConfig | None = None) -> list[Found]:
    """JSON files of records with an image and captions; files of several splits together.

    Args:
        folder: the files of the user's folder.
        config: the fields that somebody has chosen; None for the usual ones.

    Returns:
        The finds.
    """
    config = config or CorpusConfig()
    names: dict[str, tuple[str, ...]] = {}
    has_split = {}
    for file in few_files(folder, *FILES):
        if _is_beside_image(folder, file):
            continue
        rows = _flat_records(folder, file, config)
        keys = next(iter(_find_keys(_rows_of_lists(folder, file, config), config)), None)
        mapping = _mapping(folder, file, config)
        texts = _texts_of_images(folder, file, mapping) if mapping is not None else []
        if config.caption_field is None and what_instead(texts):
            continue
        if mapping is not None:
            names[file] = (mapping.image,)
            has_split[file] = mapping.keys is not None and mapping.keys.has_split
        elif keys is not None and not are_persons(folder, file):
            names[file] = _names_in(rows, keys.image) or values_in_head(folder, file, keys.image)
            has_split[file] = bool(split_named(keys.records)) or keys.has_split
    return [
        Found(
            files=files,
            names=tuple(name for file in files for name in names[file]),
            has_splits=(len(files) > 1 and bool(split_in_path(files[0]))) or has_split[files[0]],
        )
        for files in parts_together(files_by_split(names), names)
    ]


def _is_beside_image(folder: Folder, file: str) -> bool:
    """Whether a file is called as an image beside it, `1.jpg.json` or `1.json`: its record."""
    stem = file.rpartition(".")[0]
    return any(f"{stem}{ending}" in folder.images for ending in ("", *IMAGE_ENDINGS))


def _names_in(rows: Sequence[Mapping[str, Any]], field: str) -> tuple[str, ...]:
    """The images that the first rows name."""
    own = (row.get(field) for row in rows[:MOST_NAMES])
    return tuple(name for cell in own if is_plain(cell) for name in plain_texts(cell))


def _flat_records(folder: Folder, file: str, config: CorpusConfig) -> Sequence[dict[str, Any]]:
    """The flat records of a file of another form (`flat_records`); none where somebody has chosen a
    field that they lack, which the file itself may have."""
    rows = flat_records(folder, file)
    chosen = {config.image_field, config.caption_field} - {None}
    return rows if rows and chosen <= rows[0].keys() else ()


def _rows_of_lists(
    folder: Folder, file: str, config: CorpusConfig
) -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """The first records of each list of a file (`rows_of_lists`), of the records that are read."""
    if _flat_records(folder, file, config):
        return rows_of_lists(folder, file)
    return first_rows(folder, file)


def _mapping(folder: Folder, file: str, config: CorpusConfig) -> _Mapping | None:
    """How a file maps images to captions, by its first pair; None where it does not."""
    pairs = first_pairs(folder, file)
    if not pairs:
        return None
    name, value = pairs[0]
    if isinstance(value, str) and split_named(value):
        return None  # images and their splits, as splits.json may have them
    by_key = _is_image(name, folder)
    if by_key and (is_plain(value) or (isinstance(value, list) and are_captions(value))):
        return _Mapping(name, None, of_records=not is_plain(value))
    if not isinstance(value, dict):
        return None
    files = [field for field, own in value.items() if is_image_file(own)]
    if by_key and (is_image_file(name) or not files):  # whatever else its record calls an image
        own = [{IMAGE_KEY: name, **row} for name, row in pairs if isinstance(row, dict)]
        keys = _keys_of("", own, _with_image_field(config, IMAGE_KEY))
        return keys and _Mapping(name, keys)
    if by_key and len(files) == 1:  # the key, which is called as an image, may count the records
        config = _with_image_field(config, config.image_field or files[0])
    keys = _keys_of("", [row for _, row in pairs if isinstance(row, dict)], config)
    return (
        _Mapping(value[keys.image], keys) if keys and _is_image(value[keys.image], folder) else None
    )


def _texts_of_images(folder: Folder, file: str, mapping: _Mapping) -> list[str]:
    """The first texts of a file that maps images to texts; empty for one that maps to records, of
    which a field is called as captions are."""
    if mapping.keys is not None or mapping.of_records:
        return []
    values = [value for _, value in first_pairs(folder, file) if is_plain(value)]
    return [text for value in values for text in plain_texts(value)]


def _with_image_field(config: CorpusConfig, name: str) -> CorpusConfig:
    return config.model_copy(update={"image_field": name})


def _is_image(name: str, folder: Folder) -> bool:
    """Whether a text names an image: by its ending, or because an image of that name is there."""
    return is_image_file(name) or has_its_name(name, folder.stems)


def _find_keys(
    rows: Mapping[str, Sequence[Mapping[str, Any]]], config: CorpusConfig
) -> list[_Keys]:
    """The keys of every list of a file, by its first records, that has images and captions."""
    found = (_keys_of(key, own, config) for key, own in rows.items())
    return [keys for keys in found if keys is not None]


def _keys_of(key: str, rows: Sequence[Mapping[str, Any]], config: CorpusConfig) -> _Keys | None:
    """The keys of a list by its first records; None where it has no images or no captions."""
    record = without_nulls(rows)
    image = config.image_field or _image_field(key, record)
    texts = [
        name
        for name, value in record.items()
        if are_captions(value) and name != image and not _is_bare_file(value)
    ]
    if isinstance(record.get("filename"), str) and not is_plain(record.get("sentences")):
        texts = [name for name in texts if name != "sentences"]  # Karpathy's form
    finds = caption_columns(tuple(texts), (*CAPTION_COLUMNS, *CONVERSATIONS))
    chosen = chosen_fields(finds, rows, inner_caption(record)) if finds else Chosen([])
    captions = chosen.fields
    if config.caption_field is not None:
        chosen = Chosen([config.caption_field])
        captions = chosen.fields
    if image is None or not captions or not {image, captions[0]} <= record.keys():
        return None
    if isinstance(record[image], dict):  # it names no image
        return None
    split = split_field(record) or _tags_with_split(record) or SPLIT_COLUMNS[0]
    return _Keys(
        records=key,
        image=image,
        captions=tuple(captions),
        split=split,
        has_split=split in record,
        of_records=not any(is_plain(record[name]) for name in captions),
        others=tuple(name for name in record if name not in (image, split, *captions)),
        are_several=isinstance(record[image], list),
        doubt=chosen.doubt,
        telling=_telling(record, (image, *captions, split), config),
    )


def _tags_with_split(record: Mapping[str, Any]) -> str | None:
    """The field `tags` where one of them is a split, as FiftyOne writes it; None for others."""
    tags = record.get("tags")
    return "tags" if isinstance(tags, list) and _split_among(tags) else None


def _telling(
    record: Mapping[str, Any], read_ones: Sequence[str], config: CorpusConfig
) -> tuple[str, ...]:
    """The fields that may tell which records count: of those that the first one has, and those that
    corpus.rows names, which others may have."""
    conditions = Conditions.of(config.rows)
    asked = [name for name in record if conditions.have(name)]
    others = [name for name in record if name not in read_ones and may_tell(name, config)]
    further = conditions.values.keys() - set(map(plain_name, asked))
    return tuple(dict.fromkeys((*asked, *others, *sorted(further))))


def _image_field(key: str, record: Mapping[str, Any]) -> str | None:
    """The field of a record that names its image: of those that are called so the first with a file
    of an image, else the first."""
    texts = [name for name, value in record.items() if _is_text(value)]
    named = image_columns(texts)
    if not named:
        named = [name for name in LISTS if _are_files(record.get(name))]
    if not named:
        rare = image_columns([*record], RARE_IMAGE_COLUMNS)
        named = [name for name in rare if is_image_file(record[name]) or _are_files(record[name])]
    if key == "annotations" and not is_image_file(record.get("image_id")):
        named = [name for name in named if name != "image_id"]  # an id, in MS-COCO's form
    files = (name for name in named if is_image_file(record[name]) or _are_files(record[name]))
    return next(files, next(iter(named), None))


def _is_bare_file(value: object) -> bool:
    """Whether a value is such a name without blanks: a caption may end with one."""
    return is_image_file(value) and len(str(value).split()) == 1


def _are_files(value: object) -> bool:
    """Whether a value is a list of such names."""
    return isinstance(value, list) and value != [] and all(map(is_image_file, value))


def _is_text(value: object) -> bool:
    """Whether a value is a text that could name an image or a split."""
    return isinstance(value, str) and value != ""


def read(raw: Path, out: Path, options: Options) -> Source:
    """Read a file, or one for each split: image_id is the image's path, caption_id
    `<image_id>#<number>`. Records of one image give it all their captions. The split is the
    record's, else that in the file's name.

    Args:
        raw: the user's folder.
        out: not used; images stay where they are.
        options: corpus.annotations, a file or a folder; corpus.image_field and
            corpus.caption_field, keys of the records; corpus.rows, which records count;
            corpus.restval; how splits are drawn.

    Returns:
        The source.

    Raises:
        WorkbenchError: no such file, records without an image or a caption, each named, or an image
            in two splits.
    """
    folder = list_raw(raw, options)
    found = annotation_files(
        folder,
        options,
        recognise=partial(recognise, config=options.corpus),
        expected=EXPECTED,
        published=PUBLISHED,
        joins_parts=True,
    )
    rows: list[_Row] = []
    known: set[tuple[str, str, str | None]] = set()
    images: dict[str, list[str]] = {}
    read_ones = {file: _read_file(folder, file, options.corpus) for file in found.files}
    unread = {file: _fields_passed_over(folder, file, options.corpus) for file in found.files}
    counting = counted_rows(
        str(raw / found.files[0]),
        [
            _as_rows(own, _keys_in(folder, file, options.corpus), unread[file])
            for file, own in read_ones.items()
        ],
        options.corpus,
    )
    for (file, all_rows), counts in zip(read_ones.items(), counting.kept, strict=True):
        own = list(compress(all_rows, counts))
        images[file] = [row.image for row in own]
        rows += _without_known(own, known)
        if file != found.files[-1]:  # what is known matters to a further file alone
            known |= {(row.image, text, row.split) for row in own for text in row.texts}
    check_parts(raw, images)
    others_of = split_words({row.split or "" for row in rows})
    if others_of:
        rows = [row._replace(split=others_of.get(row.split or "", row.split)) for row in rows]
    words = Counter(word or "" for _, word in {(row.image, row.split) for row in rows})
    others = check_other_splits(words, str(raw / found.files[0]))
    is_kept = options.corpus.restval == "train"
    kept = [row for row in rows if is_kept or not is_rest(row.split)]
    settled = {
        word: split_or_rest(word, options.corpus.restval) for word in {row.split for row in kept}
    }
    if any(word != split for word, split in settled.items()):
        kept = [row._replace(split=settled[row.split]) for row in kept]
    dropped = len({row.image for row in rows}) - len({row.image for row in kept})
    paths = told_apart(folder, ((row.image, row.split) for row in kept))
    if paths:
        kept = [_moved(row, paths) for row in kept]
    splits = one_split_each(raw, ((row.image, row.split) for row in kept))
    groups: dict[str, str] = {}
    for row in kept:
        groups.setdefault(row.image, row.image)
        if row.first:
            groups[row.image] = groups[row.first]
    shared = [row for row in kept if row.first == row.image]
    left_out = (f"left out: {counted(dropped, 'image')} of split restval",) if dropped else ()
    described = [row.image for row in kept for _ in row.texts]
    captions = {
        "caption_id": numbered(described),
        "image_id": described,
        "text": [text for row in kept for text in row.texts],
    }
    return described_source(
        folder,
        options,
        splits=splits,
        captions=pd.DataFrame(captions),
        groups=groups if shared else None,
        remarks=(
            *_of_several(shared),
            *passed_over([name for names in unread.values() for name in names]),
            *counting.remarks,
            *left_out,
            *others,
        ),
        files=found.files,
    )


def _as_rows(rows: Sequence[_Row], keys: _Keys | None, unread: Sequence[str]) -> Rows:
    """The records of a file as `counted_rows` takes them."""
    if keys is None:
        return Rows(images=[row.image for row in rows], texts=[""] * len(rows))
    found = [name for name in keys.telling if any(name in row.cells for row in rows)]
    return Rows(
        images=[row.image for row in rows],
        texts=[row.texts[0] if row.texts else "" for row in rows],
        caption=keys.captions[0],
        split=keys.split if keys.has_split else "",
        cells={keys.split: [row.split for row in rows]}
        | {name: [row.cells.get(name) for row in rows] for name in found},
        names=dict.fromkeys((keys.image, *keys.captions, *keys.others, *found)),
        unread=unread,
    )


def _moved(row: _Row, paths: Mapping[tuple[str, str], str]) -> _Row:
    """A row with the path of its image, where others in another split have the same name."""
    split = row.split or ""
    return row._replace(
        image=paths.get((row.image, split), row.image),
        first=paths.get((row.first, split), row.first),
    )


def _of_several(shared: Sequence[_Row]) -> tuple[str, ...]:
    """A line that says what is made of records with several images; none without any."""
    if not shared:
        return ()
    return (
        f"{counted(len(shared), 'record')} with several images (the first: {shared[0].image}): "
        "each of these has the captions, all are in one split, and any of them is right for these",
    )


def _without_known(rows: Sequence[_Row], known: Set[tuple[str, str, str | None]]) -> list[_Row]:
    """Rows without the captions that another file of the same split has of the same image."""
    if not known:
        return list(rows)
    return [
        row._replace(
            texts=[text for text in row.texts if (row.image, text, row.split) not in known]
        )
        for row in rows
    ]


def _read_file(folder: Folder, file: str, config: CorpusConfig) -> list[_Row]:
    """The records of a file, of the split in its name where they say no other; WorkbenchError names
    what is wrong with them."""
    path = folder.root / file
    split = split_in_path(file)
    hint = f"expected is {EXPECTED}"
    mapping = _mapping(folder, file, config)
    if mapping is not None:
        texts = _texts_of_images(folder, file, mapping)
        if what_instead(texts) and config.annotations != file:
            way_out = f"set dataset: records_json and corpus.annotations: {file}"
            raise no_captions(str(path), texts, way_out)
        if mapping.keys is not None and mapping.keys.doubt:
            raise doubted(str(path), mapping.keys.doubt)
        return _of_mapping(path, mapping, split, hint, config)
    lists = _rows_of_lists(folder, file, config)
    found = _find_keys(lists, config)
    if len(found) > 1 and not all(split_named(keys.records) for keys in found):
        raise WorkbenchError(
            f"{path}: several lists of captions: {listing(keys.records for keys in found)}",
            "keep one of them in the file, or call them train, val and test",
        )
    if not found:
        are_lines = "" in lists and head(folder, file).lstrip().startswith("{")
        load = read_json_lines if are_lines else read_annotations
        load(path, Any, hint)  # what is no JSON at all is named with its line
        shown = listing(
            f"{key or 'its records'} with {listing(own[0])}" for key, own in lists.items()
        )
        raise WorkbenchError(
            f"{path}: no records with an image and a caption; it has {shown or 'no records'}",
            f"{hint}; corpus.image_field and corpus.caption_field name other keys",
        )
    keys = found[0]
    if keys.doubt:
        raise doubted(str(path), keys.doubt)
    kind: Any = _record_kind(keys)
    rows = _flat_records(folder, file, config)
    if rows:
        own = checked(path, list(rows), list[kind], hint)
        return _rows(path, own, keys, split, config)
    if keys.records:
        return _of_lists(path, keys, kind, split, hint, config)
    if head(folder, file).lstrip().startswith("{"):
        records = read_json_lines(path, kind, hint)
    else:
        records = read_annotations(path, list[kind], hint)
    return _rows(path, records, keys, split, config)


def _keys_in(folder: Folder, file: str, config: CorpusConfig) -> _Keys | None:
    """The keys of a file's records; None of one that maps images to captions."""
    mapping = _mapping(folder, file, config)
    if mapping is not None:
        return mapping.keys
    return _find_keys(_rows_of_lists(folder, file, config), config)[0]


def _fields_passed_over(folder: Folder, file: str, config: CorpusConfig) -> Sequence[str]:
    """The fields of a file's first record that are not read."""
    keys = _keys_in(folder, file, config)
    return keys.others if keys is not None else ()


def _record_kind(keys: _Keys) -> Any:
    """The type of a record."""
    image: Any = Annotated[list[Name], Field(min_length=1)] if keys.are_several else Name
    fields: dict[str, Any] = {} if keys.image == IMAGE_KEY else {keys.image: image}
    fields[keys.split] = NotRequired[Split]
    # some images have fewer captions, or none, which the check of all images says
    captions: Any = RecordsOfCaptions if keys.of_records else Captions
    fields |= dict.fromkeys(keys.captions, NotRequired[captions])
    telling = (name for name in keys.telling if name not in fields)
    fields |= dict.fromkeys(telling, NotRequired[Any])
    kind: Any = TypedDict("Record", fields)  # type: ignore[misc]
    return kind


def _of_mapping(
    path: Path, mapping: _Mapping, split: str | None, hint: str, config: CorpusConfig
) -> list[_Row]:
    """The rows of a file that maps images to captions or to records, or anything to records."""
    keys = mapping.keys
    if mapping.of_records:
        lists = read_annotations(path, dict[Name, list[dict[str, Any]]], hint)
        check_keys(path)
        return [_Row(image, _texts_of_records(own), split) for image, own in lists.items()]
    if keys is None:
        texts = read_annotations(path, dict[Name, Captions], hint)
        check_keys(path)
        return [_Row(image, plain_texts(own), split) for image, own in texts.items()]
    record_kind: Any = _record_kind(keys)
    records = read_annotations(path, dict[Name, record_kind], hint)
    check_keys(path)
    named = [{IMAGE_KEY: name, **record} for name, record in records.items()]
    return _rows(path, named, keys, split, config)


def _of_lists(
    path: Path, keys: _Keys, kind: Any, split: str | None, hint: str, config: CorpusConfig
) -> list[_Row]:
    """The records of a file that has its list under a key, or one under the name of each split."""
    names: tuple[str, ...] = ()
    if split_named(keys.records):
        cases = (str.lower, str.title, str.upper)
        words = {in_case(word) for word in SPLIT_WORDS for in_case in cases}
        names = tuple(sorted(words - {keys.records}))
    lists = {keys.records: list[kind]} | dict.fromkeys(names, NotRequired[list[kind]])
    whole_kind: Any = TypedDict("File", lists)  # type: ignore[misc]
    whole = read_annotations(path, whole_kind, hint)
    return [
        row
        for name, records in whole.items()
        for row in _rows(path, records, keys, split_named(name) or split, config)
    ]


def _rows(
    path: Path,
    records: Sequence[Mapping[str, Any]],
    keys: _Keys,
    split: str | None,
    config: CorpusConfig,
) -> list[_Row]:
    """Image, captions and split of every record; split: of those that say none."""
    if keys.captions[0] in CONVERSATIONS:
        _check_answers(path, records, keys)
        if config.caption_field is None:
            check_questions(str(path), [record.get(keys.captions[0]) for record in records])
    captions_of = _texts_of_records if keys.of_records else plain_texts
    rows = []
    for record in records:
        texts = [text for key in keys.captions for text in captions_of(record.get(key))]
        if len(keys.captions) > 1:
            texts = [text for text in texts if text.strip() not in ("", *NOTHING)]
        own_split = record.get(keys.split) or split
        images = record[keys.image]
        cells = {name: record[name] for name in keys.telling if name in record}
        if not keys.are_several:
            rows.append(_Row(images, texts, own_split, cells=cells))
            continue
        first = images[0] if len(set(images)) > 1 else ""
        rows += (_Row(image, texts, own_split, first, cells) for image in dict.fromkeys(images))
    return rows


def _check_answers(path: Path, records: Sequence[Mapping[str, Any]], keys: _Keys) -> None:
    """Raise WorkbenchError naming images whose conversation has not one answer, or is about several
    images."""
    several = [
        record[keys.image]
        for record in records
        if len(answers_of(record.get(keys.captions[0]))) != 1
    ]
    problems = Problems(str(path))
    problems.add("images with a conversation that has not one answer", several)
    if keys.are_several:
        compared = [str(record[keys.image][0]) for record in records if len(record[keys.image]) > 1]
        problems.add("first images of conversations about several", compared)
    problems.raise_if_any("leave the answer that is the caption, or take these records out")


def _texts_of_records(cell: object) -> list[str]:
    """The captions of a record of one, or of a list of such records."""
    return [own.text for own in texts_of(cell)]
