"""How captions are written: as tables, JSON, texts beside images, or together with the images."""

import csv
import json
from collections.abc import Callable, Sequence
from io import StringIO
from itertools import zip_longest
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from tests.layouts.world import Drawn, Layout, picture
from tests.support.reader_cases import write_tar

FIELDS_OF_IMAGES = (
    *("image", "filename", "file_name", "filepath", "image_name", "image_path", "img", "path"),
    *("photo", "image_id", "file"),
)
FIELDS_OF_CAPTIONS = (
    *("caption", "captions", "comment", "text", "title", "raw", "sentence", "description"),
    "report",
)
FILES = ("captions", "results", "metadata_all", "annotations", "data", "labels", "my captions")
# How annotations name an image.
NAMED = {
    "file": lambda image: image.name,
    "path": lambda image: image.path,
    "./path": lambda image: f"./{image.path}",
    "root": lambda image: f"/home/me/data/{image.path}",
    "drive": lambda image: f"C:\\data\\{image.path}".replace("/", "\\"),
    "backslashes": lambda image: image.path.replace("/", "\\"),
    "no ending": lambda image: image.stem,
    "address": lambda image: f"https://example.org/x/{quote(image.path)}",
    "another folder": lambda image: f"imgs_resized/{image.name}",
    "another ending": lambda image: image.stem + (".png" if ".jpg" in image.name else ".jpg"),
    "lower case": lambda image: image.name.lower(),
}
WITH_FOLDERS = ("path", "./path", "root", "drive", "backslashes")
# An address has other signs in the place of these, which a file may have, too.
NOT_IN_ADDRESSES = ("percent",)


def _name(layout: Layout, image: Drawn) -> str:
    """An image as the annotations name it."""
    names = ["file", "path", *NAMED]
    if layout.chosen["names"] in NOT_IN_ADDRESSES:
        names.remove("address")
    if layout.chosen.get("numbers of each split") and "mapping" in layout.chosen.get("shape", ""):
        names = [name for name in names if name in WITH_FOLDERS]  # a key stands there once
    return NAMED[layout.choose("named by", names)](image)


def table(layout: Layout) -> None:
    """Lines with fields: a header or none, a line for each caption or each image, columns in any
    order, splits in a column, in names of tables, or in lists beside the table."""
    separator = layout.choose("separator", (",", ",", "\t", ";", "|"))
    has_header = layout.choose("header", (True, True, True, False))
    shapes = [
        "lines",
        "lines",
        "numbered",
        "wide",
        *(("list", "Python's list") if has_header else ()),
    ]
    shape = layout.choose("shape", shapes)
    splits = layout.choose("splits in", ("nothing", "column", "column", "tables", "lists"))
    more = layout.choose("more", ("", "", "number", "id", "width", "source", "lang", "label"))
    order = layout.choose("order", ("split first", "split last", "image last"))
    fields = _fields(layout, shape, splits == "column", more, order)
    file = layout.choose("file", FILES)
    folder = layout.choose("folder of tables", ("", "", "annotations/"))
    ending = layout.choose("ending of tables", (".csv", ".tsv", ".txt"))
    for split, images in layout.groups(splits == "tables").items():
        rows = _rows(layout, images, shape, splits == "column", more, order)
        stream = StringIO()
        writer = csv.writer(
            stream,
            delimiter=separator,
            quoting=layout.choose("quotes", (csv.QUOTE_MINIMAL, csv.QUOTE_MINIMAL, csv.QUOTE_ALL)),
            lineterminator=layout.choose("line ends", ("\n", "\n", "\r\n")),
        )
        writer.writerows([fields, *rows] if has_header else rows)
        name = f"{file}_{split}" if split else file
        layout.write(f"{folder}{name}{ending}", stream.getvalue())
    if splits == "lists":
        has_endings = layout.choose("endings in lists", (True, False))
        for split, images in layout.groups(True).items():
            lines = (image.name if has_endings else image.stem for image in images)
            layout.write(f"{split}.txt", "".join(f"{line}\n" for line in lines))
    layout.says_splits = splits != "nothing"


def _in_order(
    order: str, more: Sequence[Any], split: Sequence[Any], image: Any, captions: Sequence[Any]
) -> list[Any]:
    """The fields of a line in one of three orders."""
    return {
        "split first": [*more, image, *split, *captions],
        "split last": [*more, image, *captions, *split],
        "image last": [*more, *captions, *split, image],
    }[order]


def _fields(layout: Layout, shape: str, has_splits: bool, more: str, order: str) -> list[str]:
    """The names of a table's columns."""
    caption = layout.choose("field of captions", FIELDS_OF_CAPTIONS)
    captions = [caption]
    if shape == "wide":
        between = layout.choose("before numbers", ("_", "", "-", " "))
        first = layout.choose("first number", (0, 1))
        most = max(len(image.captions) for image in layout.images)
        captions = [f"{caption}{between}{first + number}" for number in range(most)]
    if shape == "numbered":
        captions = ["comment_number", caption]
    names = ("split", "set", "subset", "partition", "phase", "Split", "my_split")
    split = layout.choose("field of splits", names)
    image = layout.choose("field of images", FIELDS_OF_IMAGES)
    others = {"": [], "number": [""]}.get(more, [more])
    return _in_order(order, others, [split] if has_splits else [], image, captions)


def _rows(
    layout: Layout, images: Sequence[Drawn], shape: str, has_splits: bool, more: str, order: str
) -> list[list[Any]]:
    """The lines of a table."""
    values = {"width": 640, "source": "web", "lang": "en", "label": "dogs"}
    most = max(len(image.captions) for image in layout.images)
    rows: list[list[Any]] = []
    for image in images:
        texts = image.captions
        cells: dict[str, list[list[Any]]] = {
            "lines": [[text] for text in texts],
            "numbered": [[number, text] for number, text in enumerate(texts)],
            "wide": [texts + [""] * (most - len(texts))],
            "list": [[json.dumps(texts)]],
            "Python's list": [[repr(texts)]],
        }
        for captions in cells[shape]:
            others = [] if not more else [values.get(more, len(rows))]
            split = [image.split] if has_splits else []
            rows.append(_in_order(order, others, split, _name(layout, image), captions))
    return rows


def two_tables(layout: Layout) -> None:
    """A table of images with ids, and one of captions with the ids of their images."""
    separator = layout.choose("separator", (",", ",", "\t", ";", "|"))
    reference = layout.choose("field of ids", ("image_id", "img_id", "photo_id"))
    own_id = layout.choose("field of images' ids", ("id", reference))
    file = layout.choose("field of files", ("file_name", "filename", "path", "image", "file"))
    caption = layout.choose("field of captions", FIELDS_OF_CAPTIONS)
    splits = layout.choose("splits in", ("nothing", "images", "captions", "files of images"))
    first_id = layout.choose("first id", (0, 1, 1000))
    ids = {image.number: first_id + place for place, image in enumerate(layout.images)}
    has_numbers = layout.choose("ids of captions", (True, False))
    for split, images in layout.groups(splits == "files of images").items():
        fields = [own_id, "width", file, *(["split"] if splits == "images" else [])]
        rows: list[list[Any]] = [fields]
        for image in images:
            row = [ids[image.number], 640, _name(layout, image)]
            rows.append([*row, image.split] if splits == "images" else row)
        _write_rows(layout, f"images_{split}.csv" if split else "images.csv", rows, separator)
    rows = [[reference, caption]]
    for image in layout.images:
        rows += [[ids[image.number], text] for text in image.captions]
    if splits == "captions":
        words = [image.split for image in layout.images for _ in image.captions]
        added = ["split", *words]
        rows = [[row[0], word, row[1]] for row, word in zip(rows, added, strict=True)]
    if has_numbers:
        rows = [["id" if place == 0 else place, *row] for place, row in enumerate(rows)]
    _write_rows(layout, layout.choose("file", ("captions.csv", "texts.tsv")), rows, separator)
    layout.says_splits = splits != "nothing"


def _write_rows(layout: Layout, name: str, rows: Sequence[Sequence[Any]], separator: str) -> None:
    """Write a table."""
    stream = StringIO()
    csv.writer(stream, delimiter=separator, lineterminator="\n").writerows(rows)
    layout.write(name, stream.getvalue())


def splits_beside(layout: Layout) -> None:
    """A file that says the split of each image, where nothing else does."""
    shapes = ("table", "wide table", "lines", "lists", "json", "named lists", "columns", "flags")
    shape = layout.choose("splits beside", (*shapes, "sections"))
    place = layout.choose("folder of splits", ("", "", "meta/"))
    name_of = NAMED[layout.choose("listed by", ("file", "path", "path", "no ending"))]
    pairs = [(name_of(image), image.split) for image in layout.images]
    if shape == "lists":
        for split, images in layout.groups(True).items():
            rows = [["image"], *([name_of(image)] for image in images)]
            _write_rows(layout, f"{place}{split}.csv", rows, ",")
    elif shape == "named lists":
        called = layout.choose("called", ("{}_images.txt", "{}list01.txt", "{}_ids.lst", "{}.list"))
        for split, images in layout.groups(True).items():
            lines = "".join(f"{name_of(image)}\n" for image in images)
            layout.write(f"{place}{called.format(split)}", lines)
    elif shape == "columns":
        columns = {
            split: [name_of(image) for image in images]
            for split, images in layout.groups(True).items()
        }
        rows = [[*columns], *zip_longest(*columns.values(), fillvalue="")]
        _write_rows(layout, f"{place}about.csv", rows, ",")
    elif shape == "flags":
        splits = [*layout.groups(True)]
        rows = [["file", *(f"is_{split}" for split in splits)]]
        rows += [[name, *(split == own for own in splits)] for name, split in pairs]
        _write_rows(layout, f"{place}about.csv", rows, ";")
    elif shape == "sections":
        lines = [
            line
            for split, images in layout.groups(True).items()
            for line in (f"[{split}]", *map(name_of, images))
        ]
        layout.write(f"{place}splits.txt", "\n".join(lines))
    elif shape == "json":
        records = [{"image": name, "split": split} for name, split in pairs]
        layout.write(f"{place}splits.json", json.dumps(records).encode())
    elif shape == "lines":
        layout.write(f"{place}split.txt", "".join(f"{name} {split}\n" for name, split in pairs))
    else:
        rows = [["image", "split"], *pairs]
        if shape == "wide table":
            rows = [["7", *row, "a note, of some words"] for row in rows]
        _write_rows(layout, f"{place}about.csv", rows, layout.choose("between", (",", "\t", ";")))
    layout.says_splits = True


def records(layout: Layout) -> None:
    """JSON of records, in a list, on lines, under a key or under the splits, or a mapping."""
    shapes = ("list", "lines", "under a key", "mapping", "mapping to records", "under splits")
    shape = layout.choose("shape", shapes)
    splits = layout.choose("splits in", ("nothing", "records", "files"))
    file = layout.choose("file", FILES)
    for split, images in layout.groups(splits == "files").items():
        own = _records(layout, images, splits == "records")
        value: Any = own
        if shape == "under a key":
            keys = ("data", "records", "images", "items", "annotations")
            value = {layout.choose("key", keys): own}
        if shape == "mapping":
            value = {_name(layout, image): image.captions for image in images}
        if shape == "mapping to records":
            by_image = {_name(layout, image): {"caption": image.captions} for image in images}
            value = by_image
            if splits == "records":
                value = {
                    name: record | {"split": image.split}
                    for (name, record), image in zip(by_image.items(), images, strict=True)
                }
        if shape == "under splits":
            value = {
                word: _records(layout, [one for one in images if one.split == word], False)
                for word in dict.fromkeys(image.split for image in images)
            }
        text = json.dumps(value, indent=layout.choose("indent", (None, 2)))
        if shape == "lines":
            text = "".join(f"{json.dumps(record)}\n" for record in own)
        ending = ".jsonl" if shape == "lines" else ".json"
        layout.write(f"{file}_{split}{ending}" if split else f"{file}{ending}", text)
    says = splits == "files" or (splits == "records" and shape != "mapping")
    layout.says_splits = says or shape == "under splits"


def _records(layout: Layout, images: Sequence[Drawn], has_splits: bool) -> list[dict[str, Any]]:
    """A record for each image, or for each caption."""
    fields = [name for name in FIELDS_OF_IMAGES if name != "path"]
    # in records of "annotations", an `image_id` that is no name of a file is MS-COCO's
    image_field = layout.choose("field of images", [name for name in fields if name != "image_id"])
    caption_field = layout.choose("field of captions", FIELDS_OF_CAPTIONS)
    split_field = layout.choose("field of splits", ("split", "set", "subset"))
    more = layout.choose("more", ("", "id", "width", "url", "source_text"))
    values = {"width": 640, "url": "http://example.org/a", "source_text": "hello you"}
    cells = layout.choose("cells", ("text", "list", "records"))
    found: list[dict[str, Any]] = []
    for image in images:
        base: dict[str, Any] = {more: values.get(more, len(found))} if more else {}
        base |= {image_field: _name(layout, image)}
        if has_splits:
            base |= {split_field: image.split}
        if cells == "text":
            found += [{**base, caption_field: text} for text in image.captions]
        elif cells == "list":
            found.append({**base, caption_field: image.captions})
        else:
            found.append({**base, caption_field: [{"raw": text} for text in image.captions]})
    return found


def coco(layout: Layout) -> None:
    """MS-COCO's form."""
    splits = layout.choose("splits in", ("nothing", "files", "images"))
    file = layout.choose("file", ("captions", "annotations", "instances"))
    folder = layout.choose("folder of files", ("", "annotations/"))
    year = layout.choose("year", ("", "", "2017"))
    for split, images in layout.groups(splits == "files").items():
        listed = [
            {"id": image.number + 100, "file_name": _name(layout, image), "width": 8}
            | ({"split": image.split} if splits == "images" else {})
            for image in images
        ]
        described = [(image.number + 100, text) for image in images for text in image.captions]
        annotations = [
            {"id": number, "image_id": image, "caption": text}
            for number, (image, text) in enumerate(described)
        ]
        text = json.dumps({"info": {}, "images": listed, "annotations": annotations})
        name = f"{file}_{split}{year}" if split else file
        layout.write(f"{folder}{name}.json", text.encode())
    layout.says_splits = splits != "nothing"


def karpathy(layout: Layout) -> None:
    """Karpathy's form."""
    shape = layout.choose("shape", ("images", "list", "lines"))
    splits = layout.choose("splits in", ("nothing", "records", "files"))
    split_field = layout.choose("field of splits", ("split", "split", "set"))
    has_ids = layout.choose("ids", (True, False))
    has_tokens = layout.choose("tokens", (True, False))
    has_folders = layout.choose("folders", (True, False))
    file = layout.choose("file", ("dataset", "dataset_mine", "captions"))
    for split, images in layout.groups(splits == "files").items():
        own: list[dict[str, Any]] = []
        number = 0
        for image in images:
            sentences = []
            for text in image.captions:
                ids = {"sentid": number} if has_ids else {}
                tokens = {"tokens": text.lower().split()} if has_tokens else {}
                sentences.append({"raw": text} | ids | tokens)
                number += 1
            record: dict[str, Any] = {"filename": image.path, "sentences": sentences}
            if has_folders:
                record |= {"filename": image.name, "filepath": image.folder.rstrip("/") or None}
            if splits == "records":
                record |= {split_field: image.split}
            own.append(record)
        name = f"{file}_{split}" if split else file
        if shape == "lines":
            layout.write(f"{name}.jsonl", "".join(f"{json.dumps(record)}\n" for record in own))
        else:
            layout.write(f"{name}.json", json.dumps({"images": own} if shape == "images" else own))
    layout.says_splits = splits != "nothing"


def beside(layout: Layout) -> None:
    """A text or a record for each image."""
    how = layout.choose(
        "how", ("stem.txt", "stem.caption", "name.txt", "texts/stem.txt", "stem.json")
    )
    for image in layout.images:
        stem = f"{image.folder}{image.stem}"
        record = json.dumps({"caption": image.captions})
        text = "".join(f"{caption}\n" for caption in image.captions)
        file = {
            "stem.txt": f"{stem}.txt",
            "stem.caption": f"{stem}.caption",
            "name.txt": f"{image.path}.txt",
            "texts/stem.txt": f"texts/{image.stem}.txt",
            "stem.json": f"{stem}.json",
        }[how]
        layout.write(file, (record if how == "stem.json" else text).encode())
    layout.says_splits = "{split}" in layout.chosen["folder"]


def image_folder(layout: Layout) -> None:
    """Hugging Face's ImageFolder: metadata.csv or metadata.jsonl, one or one for each split."""
    ending = layout.choose("metadata", ("csv", "jsonl"))
    field = layout.choose("field of captions", ("text", "caption"))
    folder = layout.chosen["folder"]
    above = folder[: folder.index("{split}") + len("{split}/")] if "{split}" in folder else ""
    for split, images in layout.groups(above != "").items():
        place = above.format(split=split)
        rows = [
            {"file_name": image.path.removeprefix(place), field: text}
            for image in images
            for text in image.captions
        ]
        stream = StringIO()
        if ending == "csv":
            writer = csv.DictWriter(stream, ["file_name", field])
            writer.writeheader()
            writer.writerows(rows)
        else:
            stream.writelines(f"{json.dumps(row)}\n" for row in rows)
        layout.write(f"{place}metadata.{ending}", stream.getvalue().encode())
    layout.says_splits = above != ""


def parquet(layout: Layout) -> None:
    """Hugging Face's parquet files, with the images in them."""
    splits = layout.choose("splits in", ("nothing", "files", "folders", "column"))
    shape = layout.choose("shape", ("captions", "images"))
    field = layout.choose("field of captions", ("caption", "text", "captions", "sentences"))
    split_field = layout.choose("field of splits", ("split", "subset"))
    for split, images in layout.groups(splits in ("files", "folders")).items():
        rows: list[dict[str, Any]] = []
        for image in images:
            base: dict[str, Any] = {"image": {"bytes": picture(image.number), "path": image.name}}
            if splits == "column":
                base |= {split_field: image.split}
            if shape == "images":
                rows.append({**base, field: image.captions})
            else:
                rows += [{**base, field: text} for text in image.captions]
        name = "data/all" if not split else f"{split}/0" if splits == "folders" else f"data/{split}"
        sink = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_pylist(rows), sink)
        layout.write(f"{name}-00000-of-00001.parquet", sink.getvalue().to_pybytes())
    layout.says_splits = splits != "nothing"
    layout.are_inside = True


def tar(layout: Layout) -> None:
    """WebDataset's files, with the images in them."""
    splits = layout.choose("splits in", ("nothing", "files", "folders"))
    ending = layout.choose("members", ("txt", "json", "caption"))
    for split, images in layout.groups(splits != "nothing").items():
        members: list[tuple[str, bytes]] = []
        for image in images:
            text = "\n".join(image.captions)
            if ending == "json":
                text = json.dumps({"caption": image.captions})
            members.append((f"{image.number:09d}.jpg", picture(image.number)))
            members.append((f"{image.number:09d}.{ending}", text.encode()))
        name = "00000" if not split else f"{split}/00000" if splits == "folders" else f"{split}-000"
        write_tar(layout.raw / f"{name}.tar", members)
    layout.says_splits = splits != "nothing"
    layout.are_inside = True


FORMS: dict[str, Callable[[Layout], None]] = {
    "table": table,
    "records": records,
    "coco": coco,
    "karpathy": karpathy,
    "beside": beside,
    "image folder": image_folder,
    "parquet": parquet,
    "tar": tar,
    "two tables": two_tables,
}
OFTEN = (*FORMS, "table", "table", "table", "table", "records", "records")
