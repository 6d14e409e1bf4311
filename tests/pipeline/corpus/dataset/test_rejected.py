"""Rows that are marked as rejected are read, and a line says so."""

import json
import shutil

import pytest
from reader_cases import image_bytes, read_all, save_images, write_parquet

from pipeline.corpus.dataset.rejected import rejected_folders

NAMES = [f"a{number}.jpg" for number in range(12)]
MARKED = {
    "is_rejected": (True, False, "true"),
    "rejected": ("yes", "no", "yes"),
    "deleted": (1, 0, "1"),
    "match": (0, 1, "0"),
    "answer": ("reject", "accept", "reject"),
    "Status": ("rejected", "approved", "rejected"),
    "falsified": (True, False, "true"),
}


@pytest.mark.parametrize("form", ["csv", "jsonl", "json", "coco"])
@pytest.mark.parametrize("name", MARKED)
def test_they_are_counted(tmp_path, name, form, capsys):
    raw = tmp_path / "raw"
    save_images(raw / "images", *NAMES)
    against, otherwise, shown = MARKED[name]
    marks = [against if place in (3, 5) else otherwise for place in range(len(NAMES))]
    records = [
        {"image": image, "caption": f"A dog, {image}.", name: mark}
        for image, mark in zip(NAMES, marks, strict=True)
    ]
    if form == "csv":
        rows = "".join(f'{own["image"]},"{own["caption"]}",{own[name]}\n' for own in records)
        (raw / "x.csv").write_text(f"image,caption,{name}\n{rows}")
    elif form == "jsonl":
        (raw / "x.jsonl").write_text("\n".join(map(json.dumps, records)))
    elif form == "json":
        (raw / "x.json").write_text(json.dumps(records))
    else:
        images = [{"id": place, "file_name": image} for place, image in enumerate(NAMES)]
        notes = [
            {"id": place, "image_id": place, "caption": own["caption"], name: own[name]}
            for place, own in enumerate(records)
        ]
        (raw / "x.json").write_text(json.dumps({"images": images, "annotations": notes}))
    corpus = read_all("auto", raw)
    assert len(corpus.captions) == len(NAMES)
    said = capsys.readouterr().err
    assert f"2 rows are marked {name} = {shown}".lower() in said.lower()


WORDS = {
    "state": ("REJECTED", "ACCEPTED", "marked state = REJECTED", "state=ACCEPTED"),
    "skip": ("1", "0", "marked skip = 1", "skip=0"),
    "Approved?": ("N", "Y", "marked approved? = N", "approved?=Y"),
    "quality": ("bad", "good", "marked quality = bad", "quality=good"),
    "AssignmentStatus": (
        "Rejected",
        "Approved",
        "marked assignmentstatus = Rejected",
        "assignmentstatus=Approved",
    ),
    "deleted_at": ("2021-03-01 10:00", "", "marked by deleted_at", "deleted_at="),
    "use": ("", "x", "not marked in use", "use=x"),
    "exclude": ("x", "", "marked exclude = x", "exclude="),
}


@pytest.mark.parametrize("form", ["x.csv", "metadata.csv", "joined", "beside", "parquet"])
@pytest.mark.parametrize("name", WORDS)
def test_other_words_in_all_forms(tmp_path, name, form, capsys):
    raw = tmp_path / "raw"
    raw.mkdir()
    if form != "parquet":
        save_images(raw, *NAMES)
    against, otherwise, line, way_out = WORDS[name]
    marks = [against if place in (3, 5) else otherwise for place in range(len(NAMES))]
    rows = [(image, f"A dog {image}.", mark) for image, mark in zip(NAMES, marks, strict=True)]
    if form == "joined":
        images = "".join(f"{place + 70},{image}\n" for place, image in enumerate(NAMES))
        (raw / "images.csv").write_text(f"id,file_name\n{images}")
        rows = [(place + 70, *row[1:]) for place, row in enumerate(rows)]
    if form == "beside":
        for image, text, mark in rows:
            own = {"caption": text, name: mark}
            (raw / image).with_suffix(".json").write_text(json.dumps(own))
    elif form == "parquet":
        own = [
            {
                "image": {"bytes": image_bytes(place), "path": row[0]},
                "caption": row[1],
                name: row[2],
            }
            for place, row in enumerate(rows)
        ]
        write_parquet(raw / "train.parquet", own)
    else:
        header = {"metadata.csv": "file_name", "joined": "image_id"}.get(form, "image")
        lines = [",".join(map(str, row)) for row in ((header, "caption", name), *rows)]
        file = "captions.csv" if form == "joined" else form
        (raw / file).write_text("\n".join(lines))
    assert len(read_all("auto", raw).captions) == len(NAMES)
    said = capsys.readouterr().err.lower()
    assert f"2 rows are {line}".lower() in said
    way_out = way_out.lower()
    assert f"read as all others; corpus.rows: {way_out} leaves them out" in said
    shutil.rmtree(tmp_path / "out", ignore_errors=True)
    assert len(read_all("auto", raw, rows=way_out).captions) == len(NAMES) - 2


def test_labels_mark_rows_where_an_image_has_both(tmp_path, capsys):
    raw = tmp_path / "raw"
    save_images(raw, *NAMES)
    rows = [f"{image},A dog {label} {image},{label}" for image in NAMES for label in (0, 1)]
    (raw / "x.csv").write_text("\n".join(["image,caption,label", *rows]))
    read_all("auto", raw)
    assert "12 rows are marked label = 0" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "cells"), [("match", "abc"), ("status", "123"), ("valid", "111")])
def test_other_values_mark_nothing(tmp_path, name, cells, capsys):
    raw = tmp_path / "raw"
    save_images(raw / "images", *NAMES)
    rows = "".join(f"{image},A dog.,{cells[p % 3]}\n" for p, image in enumerate(NAMES))
    (raw / "x.csv").write_text(f"image,caption,{name}\n{rows}")
    read_all("auto", raw)
    assert "marked" not in capsys.readouterr().err


@pytest.mark.parametrize("called", ["rejected", "_trash", "Discarded", "sub/old"])
def test_images_in_folders_of_what_was_put_aside_are_named(tmp_path, called, capsys):
    names = [f"good/{n}.jpg" for n in range(4)] + [f"{called}/{n}.jpg" for n in range(4, 6)]
    save_images(tmp_path, *names)
    for name in names:
        (tmp_path / name).with_suffix(".txt").write_text(f"A dog {name}.")
    assert len(read_all("auto", tmp_path).images) == 6
    line = f"2 images in folders called {called.rpartition('/')[2]}: read as all others"
    assert line in capsys.readouterr().err
    assert rejected_folders(names[4:]) == ()


@pytest.mark.parametrize(("cells", "is_said"), [("010", True), ("012", False), ("111", False)])
def test_labels_of_0_and_1_may_say_which_captions_are_true(tmp_path, cells, is_said, capsys):
    raw = tmp_path / "raw"
    save_images(raw / "images", *NAMES)
    rows = "".join(f"{image},A dog.,{cells[p % 3]}\n" for p, image in enumerate(NAMES))
    (raw / "x.csv").write_text(f"image,caption,label\n{rows}")
    read_all("auto", raw)
    assert ("marked label = 0" in capsys.readouterr().err) is is_said
