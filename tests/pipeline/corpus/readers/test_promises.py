"""What every reader promises: the same folder gives the same rows whatever order its files lie in,
rows hold together, `dataset: auto` finds the reader, and damage is read or refused, never a
traceback.

A reader that is added needs a folder of its form in `FORMS`.
"""

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from corpora import ROOT
from PIL import Image
from precomp_folders import write_precomp
from reader_cases import (
    image_bytes,
    read_all,
    record,
    save_images,
    write_arrow,
    write_parquet,
    write_tar,
)

from pipeline.corpus.dataset import READERS
from pipeline.runtime.errors import WorkbenchError

SPLITS = {"train": ["a.png", "b.png", "c.png"], "val": ["d.png"], "test": ["e.png"]}
NAMES = [name for names in SPLITS.values() for name in names]
LONG = {"train": "train", "val": "validation", "test": "test"}
CAPTIONS = ("A dog runs.", "Two cats.")
PNG = {name: image_bytes(number, "PNG") for number, name in enumerate(NAMES)}


def write_json(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def table(names, head="image,caption"):
    lines = [f'{name},"{text}"' for name in names for text in CAPTIONS]
    return "\n".join([head, *lines]) + "\n"


def captions_csv(raw):
    save_images(raw / "images", *NAMES)
    (raw / "captions.csv").write_text(table(NAMES))


def chinese_clip(raw):
    for split, names in SPLITS.items():
        rows = [
            b"%d\t%s\n" % (place, base64.b64encode(PNG[name])) for place, name in enumerate(names)
        ]
        short = {"val": "valid"}.get(split, split)
        (raw / f"{short}_imgs.tsv").write_bytes(b"".join(rows))
        texts = [
            {"text_id": place, "text": "一只 狗", "image_ids": [place]}
            for place, _ in enumerate(names)
        ]
        (raw / f"{short}_texts.jsonl").write_text("\n".join(map(json.dumps, texts)) + "\n")


def coco_captions(raw):
    """Training is one file; the other splits are drawn from the other."""
    numbers = {"train2017": range(3), "val2017": range(3, 7)}
    for split, images in numbers.items():
        names = {number: f"{number:012d}.jpg" for number in images}
        save_images(raw / split, *names.values())
        shown = [
            {"id": number, "file_name": name, "height": 6, "width": 8}
            for number, name in names.items()
        ]
        told = [{"image_id": number, "id": number, "caption": "A dog."} for number in images]
        content = {"images": shown, "annotations": told}
        write_json(raw / "annotations" / f"captions_{split}.json", content)
    for number, path in enumerate(sorted(raw.rglob("*.jpg"))):
        path.write_bytes(image_bytes(number))


def cuhk_pedes(raw):
    save_images(raw / "imgs", *NAMES)
    persons = [
        {"id": number, "file_path": name, "split": split, "captions": list(CAPTIONS)}
        | {"processed_tokens": [["a", "dog", "runs"], ["two", "cats"]]}
        for number, (split, names) in enumerate(SPLITS.items())
        for name in names
    ]
    write_json(raw / "reid_raw.json", persons)


def image_beside_text(raw):
    save_images(raw, *NAMES)
    for name in NAMES:
        (raw / name).with_suffix(".txt").write_text("\n".join(CAPTIONS))


def image_folder(raw):
    for split, names in SPLITS.items():
        for name in names:
            path = raw / LONG[split] / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(PNG[name])
        (raw / LONG[split] / "metadata.csv").write_text(table(names, "file_name,text"))


def joined_tables(raw):
    save_images(raw / "images", *NAMES)
    rows = [(split, name) for split, names in SPLITS.items() for name in names]
    images = "".join(f"{7 + place},{name},{split}\n" for place, (split, name) in enumerate(rows))
    (raw / "images.csv").write_text("id,file_name,split\n" + images)
    captions = [f'{7 + place},"{text}"\n' for place, _ in enumerate(rows) for text in CAPTIONS]
    (raw / "captions.csv").write_text("image_id,caption\n" + "".join(captions))


def karpathy_json(raw):
    save_images(raw / "images", *NAMES)
    rows = [(split, name) for split, names in SPLITS.items() for name in names]
    images = [
        record(name, split, *CAPTIONS, first=2 * number)
        for number, (split, name) in enumerate(rows)
    ]
    write_json(raw / "dataset_flickr8k.json", {"images": images, "dataset": "flickr8k"})


def name_lists(raw):
    save_images(raw / "images", *NAMES)
    for split, names in SPLITS.items():
        (raw / f"{split}_images.txt").write_text("".join(f"{name}\n" for name in names))
        (raw / f"{split}.en").write_text("A dog runs over grass.\n" * len(names))


def precomp(raw):
    write_precomp(raw, {"train": 3, "dev": 1, "test": 1})


def rows_of(names):
    images = [{"bytes": PNG[name], "path": name} for name in names]
    return [{"image": image, "caption": list(CAPTIONS)} for image in images]


def parquet_shards(raw):
    for split, names in SPLITS.items():
        write_parquet(raw / "data" / f"{LONG[split]}-00000-of-00001.parquet", rows_of(names))


def records_json(raw):
    save_images(raw / "images", *NAMES)
    for split, names in SPLITS.items():
        records = [{"image": name, "caption": list(CAPTIONS)} for name in names]
        write_json(raw / f"my_{split}.json", records)


def save_to_disk(raw):
    name = "data-00000-of-00001.arrow"
    for split, names in SPLITS.items():
        write_arrow(raw / LONG[split] / name, rows_of(names))
        write_json(raw / LONG[split] / "state.json", {"_data_files": [{"filename": name}]})
        write_json(raw / LONG[split] / "dataset_info.json", {"features": {}})
    write_json(raw / "dataset_dict.json", {"splits": [LONG[split] for split in SPLITS]})


def shapes(raw):
    shutil.copy(ROOT / "data/raw/shapes/world.yaml", raw)


def webdataset(raw):
    for split, names in SPLITS.items():
        members = [(name, PNG[name]) for name in names]
        members += [(Path(name).stem + ".txt", "\n".join(CAPTIONS).encode()) for name in names]
        write_tar(raw / f"{split}-000000.tar", sorted(members))


FORMS = {
    "auto": captions_csv,
    "captions_csv": captions_csv,
    "chinese_clip": chinese_clip,
    "coco_captions": coco_captions,
    "cuhk_pedes": cuhk_pedes,
    "image_beside_text": image_beside_text,
    "image_folder": image_folder,
    "joined_tables": joined_tables,
    "karpathy_json": karpathy_json,
    "name_lists": name_lists,
    "parquet_shards": parquet_shards,
    "precomp": precomp,
    "records_json": records_json,
    "save_to_disk": save_to_disk,
    "shapes": shapes,
    "webdataset": webdataset,
}
DRAWN = ("shapes",)  # not from files that hold images


@pytest.fixture
def raw(tmp_path, reader):
    raw = tmp_path / "raw"
    raw.mkdir()
    FORMS[reader](raw)
    return raw


def annotations(raw):
    """The files that are no images, in the order of their names."""
    files = sorted(path for path in raw.rglob("*") if path.is_file())
    return [path for path in files if path.suffix not in (".png", ".jpg")]


def read_anew(reader, raw):
    """The corpus of a folder, its images unpacked where none are yet."""
    shutil.rmtree(raw.parent / "out", ignore_errors=True)
    return read_all(reader, raw)


def read_or_refused(reader, raw):
    """None where the folder is read, else the message; anything but WorkbenchError is raised, and
    nothing half read stays."""
    try:
        read_anew(reader, raw)
    except WorkbenchError as error:
        assert not (raw.parent / "out" / "images").exists()
        return str(error)
    return None


def test_every_reader_has_a_form():
    assert set(FORMS) == set(READERS)


@pytest.mark.parametrize("reader", READERS)
def test_rows_hold_together(reader, raw):
    corpus = read_all(reader, raw)
    images, captions = corpus.images, corpus.captions
    assert images["image_id"].is_unique
    assert captions["caption_id"].is_unique
    assert set(captions["image_id"]) <= set(images["image_id"])
    assert set(images["split"]) == {"train", "val", "test"}
    splits = images.set_index("image_id")["split"]
    assert captions["split"].tolist() == splits[captions["image_id"]].tolist()
    assert captions["tokens"].map(len).min() > 0
    for path, width, height, digest in images[["path", "width", "height", "sha256"]].to_numpy():
        if not READERS.constant(reader, "PHOTOGRAPHS", True):
            assert (path, width, height, digest) == ("", 0, 0, "")
            continue
        content = Path(path).read_bytes()
        assert hashlib.sha256(content).hexdigest() == digest
        with Image.open(path) as image:
            assert image.size == (width, height)


@pytest.mark.parametrize("reader", READERS)
def test_the_same_folder_gives_the_same_rows(reader, raw, tmp_path):
    """Also where its files were written in another order."""
    first = read_all(reader, raw)
    other = tmp_path / "other" / "raw"
    for path in sorted((path for path in raw.rglob("*") if path.is_file()), reverse=True):
        target = other / path.relative_to(raw)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    again = read_all(reader, other)
    assert first.images.drop(columns="path").equals(again.images.drop(columns="path"))
    assert first.captions.equals(again.captions)
    assert first.boxes.equals(again.boxes)


READ = """import sys
from pathlib import Path
from reader_cases import read_all
for folder in map(Path, sys.argv[1:]):
    corpus = read_all(folder.name, folder / "raw")
    (folder / "rows").write_text(corpus.images.to_csv() + corpus.captions.to_csv())
"""


def test_another_process_reads_the_same_rows(tmp_path):
    """Sets of texts are in another order in each."""
    found = []
    for seed in ("1", "2"):
        folders = [tmp_path / reader for reader in READERS]
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
            (folder / "raw").mkdir(parents=True)
            FORMS[folder.name](folder / "raw")
        places = os.pathsep.join([str(ROOT), str(ROOT / "tests/support")])
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": places}
        subprocess.run(
            [sys.executable, "-c", READ, *folders], env=environment, check=True, capture_output=True
        )
        found.append({folder.name: (folder / "rows").read_text() for folder in folders})
    assert found[0] == found[1]


@pytest.mark.parametrize("reader", [name for name in READERS if name not in DRAWN])
def test_auto_finds_the_reader_of_the_folder(reader, raw, capsys):
    named = read_all(reader, raw)
    found = read_anew("auto", raw)
    chosen = "captions_csv" if reader == "auto" else reader
    assert f"dataset: {chosen}, because of" in capsys.readouterr().err
    assert found.images.equals(named.images)
    assert found.captions.equals(named.captions)


@pytest.mark.parametrize("reader", READERS)
def test_a_file_that_is_cut_anywhere_is_read_or_refused(reader, raw):
    """The first file of each ending: those of other splits are alike."""
    assert read_or_refused(reader, raw) is None
    for path in {path.suffix: path for path in reversed(annotations(raw))}.values():
        content = path.read_bytes()
        for part in range(12):
            path.write_bytes(content[: len(content) * part // 12])
            read_or_refused(reader, raw)
        path.write_bytes(content[:-1])
        read_or_refused(reader, raw)
        path.write_bytes(content)
    assert read_or_refused(reader, raw) is None


# Files of the validation split beside those of the others.
OF_ONE_SPLIT = [
    ("captions_csv", "image_val.csv"),
    ("chinese_clip", "valid_imgs.tsv"),
    ("chinese_clip", "valid_texts.jsonl"),
    ("coco_captions", "annotations/captions_val2017.json"),
    ("image_folder", "validation/metadata.csv"),
    ("name_lists", "val_images.txt"),
    ("name_lists", "val.en"),
    ("parquet_shards", "data/validation-00000-of-00001.parquet"),
    ("records_json", "my_val.json"),
    ("save_to_disk", "validation/data-00000-of-00001.arrow"),
    ("webdataset", "val-000000.tar"),
]
CONTENTS = {
    "empty": b"",
    "zeros": bytes(90),
    "blanks": b"\n",
    "no text": b"\xff\xfe\xfa",
    "a page": b"<!DOCTYPE html><html><body>Sign in</body></html>",
}


@pytest.mark.parametrize("damage", [*CONTENTS, "half", "link"])
@pytest.mark.parametrize(("reader", "name"), OF_ONE_SPLIT)
def test_a_damaged_file_of_one_split_is_refused_by_its_name(reader, name, damage, raw):
    """Without it the split would be drawn from the others, and nothing said."""
    if reader == "captions_csv":
        (raw / "captions.csv").unlink()
        for split, names in SPLITS.items():
            (raw / f"image_{split}.csv").write_text(table(names))
    path = raw / name
    whole = path.read_bytes()
    assert read_or_refused(reader, raw) is None
    if damage == "link":
        path.unlink()
        path.symlink_to("nowhere")
    elif damage == "half" and path.suffix in (".json", ".arrow", ".parquet"):
        path.write_bytes(whole[: len(whole) // 2])
    else:  # half a table is a table
        path.write_bytes(CONTENTS.get(damage, b""))
    said = read_or_refused(reader, raw)
    assert said is not None
    assert path.name in said
    path.unlink()  # the way out
    assert read_or_refused(reader, raw) is None


@pytest.mark.parametrize("reader", ["coco_captions", "records_json"])
def test_a_file_of_one_split_without_captions_is_said(reader, raw, capsys):
    """As those of the images of a test set whose captions are not published."""
    path = raw / dict(OF_ONE_SPLIT)[reader]
    path.write_text(json.dumps({"images": [{"id": 1, "file_name": "x.jpg"}]}))
    assert read_or_refused(reader, raw) is None
    name = path.relative_to(raw).as_posix()
    assert (
        f"not read: {name}, in which no images with captions are known" in capsys.readouterr().err
    )


def test_an_archive_without_samples_and_one_that_cannot_be_unpacked_are_named(tmp_path, capsys):
    raw = tmp_path / "raw"
    raw.mkdir()
    webdataset(raw)
    path = raw / "val-000000.tar"
    path.write_bytes(bytes(10240))
    assert read_or_refused("webdataset", raw) is None
    assert "val-000000.tar: no images and no texts in it" in capsys.readouterr().err
    path.rename(raw / "val-000000.tar.gz")
    said = read_or_refused("webdataset", raw)
    assert "compressed tar files that cannot be unpacked: val-000000.tar.gz" in said


DAMAGE = {
    "empty": b"",
    "bytes of no text": bytes(range(256)) * 4,
    "text of another kind": b"Captions: none yet.\nSee mail of 3 May.\n",
    "null": b"null",
    "a list of lists": b"[[[]]]",
    "zeros": bytes(5000),
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("reader", READERS)
def test_a_file_of_other_content_is_read_or_refused_by_its_name(reader, damage, raw):
    """The last file of each ending, one by one; a message says where to look."""
    for path in {path.suffix: path for path in annotations(raw)}.values():
        content = path.read_bytes()
        path.write_bytes(DAMAGE[damage])
        said = read_or_refused(reader, raw)
        if said is not None:
            assert path.name in said or str(raw) in said, said
        path.write_bytes(content)
