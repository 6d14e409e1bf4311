"""JSON whose records are not flat, as datasets and programs write it: as flat records.

A form looks at the beginning of a file; one that it knows is read whole and cut into records that
each have an image and its captions.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

from pipeline.corpus.dataset.asked import asks_for_description
from pipeline.corpus.dataset.cells import (
    IMAGE_COLUMNS,
    RARE_IMAGE_COLUMNS,
    caption_columns,
    first_of,
    image_columns,
    is_plain,
    plain_name,
    plain_texts,
)
from pipeline.corpus.dataset.conversations import (
    as_conversation,
    images_in_turns,
    question_field,
)
from pipeline.corpus.dataset.folder import Folder, is_image_file, joined
from pipeline.corpus.dataset.json_columns import records_of_columns
from pipeline.corpus.dataset.locate import is_among
from pipeline.corpus.dataset.recognise import (
    LOOKED_AT_RECORDS,
    first_pairs,
    first_records,
    first_rows,
    head,
    without_nulls,
)
from pipeline.corpus.dataset.splits import split_named
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.text import read_json, read_text

Record = dict[str, Any]
Form = Callable[[Folder, Any], list[Record]]
_COCO = re.compile(r"coco_[a-z]+20\d\d_(\d+)")  # what MS-COCO calls an image of 2014
_LISTS = re.compile(r'\s*\{\s*"[^"]+"\s*:\s*\[\s*"')
# {"train": {"1.jpg": "a dog", ...}, ...}
_SPLITS = re.compile(r'\s*\{\s*"(\w+)"\s*:\s*\{\s*"[^"]+"\s*:\s*[\["]')
_VIA = "_via_img_metadata"  # the images in a project of VIA
# What BLIP is asked to go on with.
_BEGINNING = re.compile(r"\s*an? (?:photo|picture|image) of\b", re.IGNORECASE)
_PHOTOS = ("photos", "images", "pictures", "media")  # of an album, or of a post
_LISTED = ("filename", "raw")  # of an image in NWPU-Captions


@lru_cache(maxsize=16)
def flat_records(folder: Folder, file: str) -> Sequence[Record]:
    """The records of a JSON file of a form that is not a list of them, or not of flat ones.

    Args:
        folder: the files of the user's folder.
        file: a JSON file in it, or one with a JSON record on each line.

    Returns:
        A record for each image or caption, in the order of the file; none where the file is of no
        such form, or names no images that are there.
    """
    rows = records_of_columns(folder, file)
    if rows:
        return rows
    form = _form(folder, file)
    if form is None:
        return ()
    whole: Any = None
    with suppress(WorkbenchError, ValueError, RecursionError):  # the reader says what is wrong
        whole = _whole(folder, file)
    return form(folder, whole)


def first_of_lists(folder: Folder, file: str) -> Mapping[str, Mapping[str, Any]]:
    """The first record of each list of records in a JSON file, or of its flat records.

    Args:
        folder: the files of the user's folder.
        file: a JSON file in it, or one with a JSON record on each line.

    Returns:
        As `first_records`; flat records have the key "".
    """
    return {name: without_nulls(rows) for name, rows in rows_of_lists(folder, file).items()}


def rows_of_lists(folder: Folder, file: str) -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """The first records of each list of records in a JSON file, or of its flat records.

    Args:
        folder: the files of the user's folder.
        file: a JSON file in it, or one with a JSON record on each line.

    Returns:
        As `first_rows`; flat records have the key "".
    """
    rows = flat_records(folder, file)
    return {"": rows[:LOOKED_AT_RECORDS]} if rows else first_rows(folder, file)


def _whole(folder: Folder, file: str) -> Any:
    """The value of a file; of one with a record on each line the list of these."""
    path = folder.root / file
    firsts = first_records(folder, file)
    if "" in firsts and head(folder, file).lstrip().startswith("{"):
        return [json.loads(line) for line in read_text(path).split("\n") if line.strip()]
    return read_json(path)


def _form(folder: Folder, file: str) -> Form | None:
    """The form that the beginning of a file has; None for any other."""
    lists = first_records(folder, file)
    record = lists.get("", {})
    if isinstance(record.get("data"), Mapping) and "annotations" in record:
        return _of_label_studio
    if isinstance(record.get("fields"), Mapping) and "responses" in record:
        return _of_argilla
    if isinstance(record.get("filename"), str) and is_plain(record.get("label")):
        return _of_doccano
    if question_field(record) is not None or images_in_turns(record):
        return _of_questions
    if "video_id" in lists.get("videos", {}):
        return _of_videos
    if isinstance(lists.get("messages", {}).get("id"), int):
        return _of_telegram
    if "object" in lists.get("orderedItems", {}):
        return _of_mastodon
    listed = (record, lists.get("annotations", {}))
    if "images" not in lists and any(map(_is_numbered, listed)):
        return _of_numbers
    if _is_of_meta(lists.get("photos", {})):
        return _of_photos
    if any(_photos_of(own) for own in lists.values()):
        return _of_albums
    return None if record else _form_of_mapping(folder, file)


def _form_of_mapping(folder: Folder, file: str) -> Form | None:
    """The form of a file that begins as a mapping; None for any other."""
    lists = first_records(folder, file)
    if lists and all(map(_is_listed, lists.values())):
        return _of_classes
    pairs = first_pairs(folder, file)
    value = pairs[0][1] if pairs else None
    text = head(folder, file)
    if f'"{_VIA}"' in text or (isinstance(value, Mapping) and "file_attributes" in value):
        return _of_via
    splits = _SPLITS.match(text)
    if splits is not None and split_named(splits[1]):
        return _of_splits
    return _of_equal_lists if _LISTS.match(text) else None


def _records(value: object) -> list[Mapping[str, Any]]:
    """The records in a list; none in anything else."""
    return [own for own in value if isinstance(own, Mapping)] if isinstance(value, list) else []


def _fields(value: object) -> Mapping[str, Any]:
    """The fields of a record; none of anything else."""
    return value if isinstance(value, Mapping) else {}


def _under(value: object, name: str) -> Any:
    """What a record has in a field; None of anything else."""
    return value.get(name) if isinstance(value, Mapping) else None


def _are_there(folder: Folder, names: Iterable[str]) -> bool:
    """Whether images of most names are there."""
    found = [is_among(name, folder.image_stems) for name in dict.fromkeys(names)]
    return 2 * sum(found) > len(found)


def _of_questions(folder: Folder, whole: Any) -> list[Record]:
    """Records of a question and its answer, or of turns that name images, as conversations; none
    where a question asks for something else than a description."""
    records = _records(whole)
    fields = [(own, question_field(own)) for own in records]
    asked = [own[field] for own, field in fields if field is not None]
    ask_so = all(asks_for_description(text) or _BEGINNING.match(text) for text in asked)
    return [*map(as_conversation, records)] if ask_so else []


def _of_label_studio(folder: Folder, whole: Any) -> list[Record]:
    """Tasks of Label Studio with the texts that people wrote into the field of captions, without
    annotations that they gave up. A task without a text has no caption."""
    texts: list[tuple[str, str, list[str]]] = []  # image, field, texts
    for task in _records(whole):
        data = _fields(task.get("data"))
        image = next((own for own in data.values() if is_image_file(own)), None)
        for annotation in _records(task.get("annotations")):
            for result in _records(annotation.get("result")):
                said = _under(result.get("value"), "text")
                if image and said and is_plain(said) and not annotation.get("was_cancelled"):
                    texts.append((image, str(result.get("from_name")), plain_texts(said)))
    fields = tuple(dict.fromkeys(field for _, field, _ in texts))
    chosen = next(iter(caption_columns(fields)), list(fields) if len(fields) == 1 else [])
    return [{"image": image, "captions": own} for image, field, own in texts if field in chosen]


def _of_argilla(folder: Folder, whole: Any) -> list[Record]:
    """Records of Argilla: an image among the fields, and responses of people under one name."""
    rows = []
    for record in _records(whole):
        responses = _fields(record.get("responses"))
        name = next(iter(caption_columns(tuple(responses))), [""])[0]
        said = [own.get("value") for own in _records(responses.get(name))]
        image = next(
            (own for own in _fields(record.get("fields")).values() if is_image_file(own)), None
        )
        rows.append({"image": image, "captions": [text for text in said if isinstance(text, str)]})
    return [row for row in rows if row["image"] is not None and row["captions"]]


def _of_doccano(folder: Folder, whole: Any) -> list[Record]:
    """Records of doccano, whose labels are captions where all of them have several words."""
    records = [own for own in _records(whole) if is_plain(own.get("label"))]
    labels = [text for own in records for text in plain_texts(own["label"])]
    if not all(len(text.split()) >= 3 for text in labels) or 2 * len(set(labels)) < len(labels):
        return []
    return [{"image": own.get("filename"), "captions": own["label"]} for own in records]


def _of_via(folder: Folder, whole: Any) -> list[Record]:
    """Images of the VGG Image Annotator with the attributes of the whole file, not of regions."""
    images = _fields(_fields(whole).get(_VIA, whole))
    records = [(own, _under(own, "file_attributes")) for own in _records([*images.values()])]
    return [
        {"image": own.get("filename"), **attributes}
        for own, attributes in records
        if isinstance(attributes, Mapping)
    ]


def _of_videos(folder: Folder, whole: Any) -> list[Record]:
    """Sentences about videos (MSR-VTT), each of which has a frame that is called as it is."""
    videos = _records(_under(whole, "videos"))
    splits = {str(own.get("video_id")): own.get("split") for own in videos}
    rows = []
    for sentence in _records(_under(whole, "sentences")):
        video = str(sentence.get("video_id"))
        split = splits.get(video)
        rows.append({"image": video, "caption": sentence.get("caption"), "split": split})
    return rows if _are_there(folder, (str(row["image"]) for row in rows)) else []


def _is_numbered(record: Mapping[str, Any]) -> bool:
    """Whether a record has a caption, and names its image by a number alone."""
    number = record.get("image_id")
    is_number = isinstance(number, int) or (isinstance(number, str) and number.isdecimal())
    has_file = any(map(is_image_file, record.values()))
    return is_number and not has_file and bool(caption_columns(tuple(record)))


def _of_numbers(folder: Folder, whole: Any) -> list[Record]:
    """Records of an image's number and a caption (results for MS-COCO, MiniGPT-4's), where images
    are called by these numbers."""
    if _under(whole, "images"):
        return []
    records = _records(whole if isinstance(whole, list) else _under(whole, "annotations"))
    stems: dict[int, list[str]] = {}
    for stem in folder.image_stems:
        match = _COCO.fullmatch(stem)
        number = match[1] if match else stem
        if number.isdecimal() and number.isascii():
            stems.setdefault(int(number), []).append(stem)
    rows = [{**own, "image_id": _named(own.get("image_id"), stems)} for own in records]
    return rows if _are_there(folder, (str(row["image_id"]) for row in rows)) else []


def _named(number: object, stems: Mapping[int, Sequence[str]]) -> str:
    """The name of the only file of a number, else the number."""
    own = stems.get(int(str(number)), ()) if str(number).isdecimal() else ()
    return own[0] if len(own) == 1 else str(number)


def _photos_of(record: object) -> list[Mapping[str, Any]]:
    """The photographs in a record of an album or a post that name files of images."""
    lists = (_records(_under(record, name)) for name in _PHOTOS)
    return next((own for own in lists if own and _image_of(own[0])), [])


def _image_of(record: Mapping[str, Any]) -> str:
    """The file of an image that a record names; "" for none."""
    names = image_columns([*record], (*IMAGE_COLUMNS, *RARE_IMAGE_COLUMNS))
    return next((str(record[name]) for name in names if is_image_file(record[name])), "")


def _of_albums(folder: Folder, whole: Any) -> list[Record]:
    """Photographs in lists of albums, in whose folders they lie where these are called as an album
    is; or in those of posts (Instagram), whose text several of them share."""
    lists = [whole] if isinstance(whole, list) else [*_fields(whole).values()]
    rows = []
    for album in (own for value in lists for own in _records(value)):
        texts = [own for own in album.values() if isinstance(own, str)]
        for photo in _photos_of(album):
            name = _image_of(photo)
            paths = (joined(text, name) for text in texts)
            image = next((path for path in paths if path in folder.images), name)
            said = {key: own for key, own in _mended(photo).items() if own not in ("", name)}
            title = _mended(album).get("title")
            shared = {"title": title} if isinstance(title, str) else {}
            rows.append({**shared, **said, "image": image})
    names = {row["image"] for row in rows}
    captions = (caption_columns(tuple(row)) for row in rows)
    is_one_each = len(names) == len(rows)
    return rows if is_one_each and any(captions) else []


def _is_of_meta(record: Mapping[str, Any]) -> bool:
    """Whether a record is one of a photograph in what Facebook or Instagram export."""
    return is_image_file(record.get("uri")) and "creation_timestamp" in record


def _of_photos(folder: Folder, whole: Any) -> list[Record]:
    """The photographs of an album of Facebook."""
    records = _records(_under(whole, "photos"))
    return [{"image": own.get("uri"), **_mended(own)} for own in records]


def _mended(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record whose texts are what was written: exports of Facebook and Instagram have each byte
    of UTF-8 as a character."""
    return {name: _decoded(own) if isinstance(own, str) else own for name, own in record.items()}


def _decoded(text: str) -> str:
    try:
        return text.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return text


def _of_classes(folder: Folder, whole: Any) -> list[Record]:
    """Images in lists under their classes (NWPU-Captions), with captions raw, raw_1, ..."""
    rows = []
    for record in (own for value in _fields(whole).values() for own in _records(value)):
        names = [name for name in record if re.fullmatch(r"raw(_\d+)?", name)]
        captions = [record[name] for name in names if isinstance(record[name], str)]
        rows.append(
            {"image": record.get("filename"), "captions": captions} | {"split": record.get("split")}
        )
    return rows


def _is_listed(record: Mapping[str, Any]) -> bool:
    """Whether a record is one of an image in NWPU-Captions."""
    return all(isinstance(record.get(name), str) for name in _LISTED) and "raw_1" in record


def _of_splits(folder: Folder, whole: Any) -> list[Record]:
    """Mappings of images to captions under the names of splits."""
    splits = _fields(whole)
    if not all(split_named(name) and isinstance(own, Mapping) for name, own in splits.items()):
        return []
    rows = [
        {"image": image, "caption": captions, "split": split}
        for split, own in splits.items()
        for image, captions in own.items()
        if is_plain(captions)
    ]
    return rows if _are_there(folder, (row["image"] for row in rows)) else []


def _of_equal_lists(folder: Folder, whole: Any) -> list[Record]:
    """Lists of images, of captions, and of whatever else, that belong together row by row."""
    columns = {name: own for name, own in _fields(whole).items() if isinstance(own, list)}
    image = first_of([*map(plain_name, columns)], ("images", *IMAGE_COLUMNS))
    if image is None or not caption_columns(tuple(columns)) or len(columns) < len(whole):
        return []
    if len({len(own) for own in columns.values()}) > 1:
        return []
    names = ["image" if plain_name(name) == image else name for name in columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _of_telegram(folder: Folder, whole: Any) -> list[Record]:
    """Messages of a chat (Telegram) with a photograph and a text, which may be in parts."""
    rows = []
    for message in _records(_under(whole, "messages")):
        said = message.get("text")
        parts = said if isinstance(said, list) else [said]
        text = "".join(str(_under(part, "text") or part) for part in parts if part)
        if is_image_file(message.get("photo")) and text:
            rows.append({"image": message["photo"], "caption": text})
    return rows


def _of_mastodon(folder: Folder, whole: Any) -> list[Record]:
    """Attachments of posts (Mastodon) with the description that their author gave them."""
    items = _records(_under(whole, "orderedItems"))
    attachments = [one for own in items for one in _attached(own)]
    return [
        {"image": str(own["url"]).lstrip("/"), "caption": own["name"]}
        for own in attachments
        if is_image_file(own.get("url")) and isinstance(own.get("name"), str)
    ]


def _attached(item: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The attachments of a post; one that is shared names another post instead of an object."""
    yield from _records(_under(item.get("object"), "attachment"))
