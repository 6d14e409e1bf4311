"""Rows that do not all count: languages, kinds, corrected texts, and what corpus.rows keeps."""

import json
import shutil

import pytest
from reader_cases import image_bytes, save_images, write_parquet
from reader_cases import read_all as read_once

from pipeline.runtime.errors import WorkbenchError

NAMES = [f"a{number}.jpg" for number in range(12)]
FORMS = ("csv", "jsonl", "coco", "karpathy", "metadata.csv", "metadata.jsonl", "parquet")


def read_all(dataset, raw, **changed):
    """The corpus of a folder that may have been read before."""
    shutil.rmtree(raw.parent / "out", ignore_errors=True)
    return read_once(dataset, raw, **changed)


def write(raw, form, rows, images=NAMES):
    """Rows of image, caption and further fields in one of the forms."""
    raw.mkdir(exist_ok=True)
    if form == "parquet":
        places = {image: place for place, image in enumerate(images)}
        own = [
            {"image": {"bytes": image_bytes(places[row["image"]]), "path": row["image"]}}
            | {name: cell for name, cell in row.items() if name != "image"}
            for row in rows
        ]
        write_parquet(raw / "train.parquet", own)
        return
    save_images(raw, *images)
    if form.endswith("csv"):
        lines = [",".join(f'"{cell}"' for cell in row.values()) for row in rows]
        header = ",".join(rows[0])
        if form != "csv":
            header = header.replace("image", "file_name", 1)
        name = "x.csv" if form == "csv" else form
        (raw / name).write_text("\n".join([header, *lines]), encoding="utf-8")
    elif form.endswith("jsonl"):
        key = "image" if form == "jsonl" else "file_name"
        own = [{key if name == "image" else name: row[name] for name in row} for row in rows]
        (raw / ("x.jsonl" if form == "jsonl" else form)).write_text("\n".join(map(json.dumps, own)))
    elif form == "coco":
        places = {image: place for place, image in enumerate(images)}
        own = {
            "images": [{"id": place, "file_name": image} for image, place in places.items()],
            "annotations": [
                {"id": number, "image_id": places[row["image"]], **row}
                for number, row in enumerate(rows)
            ],
        }
        for one in own["annotations"]:
            del one["image"]
        (raw / "x.json").write_text(json.dumps(own))
    else:
        own = {}
        for row in rows:
            more = {name: row[name] for name in row if name not in ("image", "caption")}
            own.setdefault(row["image"], []).append({"raw": row["caption"], **more})
        records = [{"filename": image, "sentences": texts} for image, texts in own.items()]
        (raw / "dataset_x.json").write_text(json.dumps({"images": records}))


def in_languages(name="lang"):
    return [
        {"image": image, "caption": text, name: language}
        for image in NAMES
        for language, text in (("en", f"A dog in {image}."), ("de", f"Ein Hund in {image}."))
    ]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["lang", "locale"])
def test_languages_of_one_image_are_asked_about_and_chosen(tmp_path, form, name, capsys):
    raw = tmp_path / "raw"
    write(raw, form, in_languages(name))
    with pytest.raises(WorkbenchError, match=rf"by {name}: en \(12\), de \(12\)") as error:
        read_all("auto", raw)
    assert f"corpus.rows: {name}=en" in error.value.hint
    corpus = read_all("auto", raw, rows=f"{name}=de")
    assert len(corpus.captions) == len(NAMES)
    assert all(text.startswith("Ein Hund") for text in corpus.captions["text"])
    assert "left out: 12 rows" in capsys.readouterr().err
    both = read_all("auto", raw, rows=f"{name}=en,{name}=de")
    assert len(both.captions) == 2 * len(NAMES)


@pytest.mark.parametrize("form", FORMS)
def test_columns_and_values_that_are_not_there_are_named(tmp_path, form):
    raw = tmp_path / "raw"
    write(raw, form, in_languages())
    with pytest.raises(WorkbenchError, match=r"no column or field language; there are .*lang"):
        read_all("auto", raw, rows="language=en")
    with pytest.raises(WorkbenchError, match=r"no row has lang = 'fr'; there are en \(12\)"):
        read_all("auto", raw, rows="lang=fr")
    with pytest.raises(WorkbenchError, match="is no column, = and a value"):
        read_all("auto", raw, rows="en")


def test_one_language_an_image_is_read_and_said(tmp_path, capsys):
    raw = tmp_path / "raw"
    rows = [row for place, row in enumerate(in_languages()) if place % 4 in (0, 3)]
    write(raw, "csv", rows)
    assert len(read_all("auto", raw).captions) == len(NAMES)
    assert "each image has one, by lang: en (6), de (6)" in capsys.readouterr().err


def test_conditions_of_several_columns_and_of_none_that_fit_together(tmp_path):
    raw = tmp_path / "raw"
    rows = [row | {"status": "ok" if row["lang"] == "en" else "bad"} for row in in_languages()]
    write(raw, "jsonl", rows)
    assert len(read_all("auto", raw, rows="lang=en, status=ok").captions) == len(NAMES)
    with pytest.raises(WorkbenchError, match="no row meets all"):
        read_all("auto", raw, rows="lang=en,status=bad")


@pytest.mark.parametrize("other", ["question", "VQA", "ocr text"])
def test_texts_of_several_kinds_are_asked_about(tmp_path, other):
    raw = tmp_path / "raw"
    rows = [
        {"image": image, "type": kind, "caption": f"{kind} of {image}, a dog"}
        for image in NAMES
        for kind in ("caption", other)
    ]
    write(raw, "csv", rows)
    with pytest.raises(WorkbenchError, match="several kinds, by type") as error:
        read_all("auto", raw)
    assert "corpus.rows: type=caption" in error.value.hint
    assert len(read_all("auto", raw, rows="type=caption").captions) == len(NAMES)


def test_short_and_long_captions_are_both_captions(tmp_path):
    raw = tmp_path / "raw"
    rows = [
        {"image": image, "type": kind, "caption": f"A {kind} dog in {image}."}
        for image in NAMES
        for kind in ("short", "long")
    ]
    write(raw, "csv", rows)
    assert len(read_all("auto", raw).captions) == 2 * len(NAMES)


@pytest.mark.parametrize("form", FORMS[:2] + FORMS[4:])
@pytest.mark.parametrize("name", ["corrected", "final_caption", "caption_v2"])
def test_a_corrected_text_beside_the_caption_is_asked_about(tmp_path, form, name):
    raw = tmp_path / "raw"
    rows = [
        {"image": image, "caption": f"A dog, {image}.", name: f"A dog, {image}."} for image in NAMES
    ]
    rows[3][name] = "A dog, mended."
    write(raw, form, rows)
    with pytest.raises(WorkbenchError, match=f"caption and {name} are both captions, and differ"):
        read_all("auto", raw)
    for field, number in (("caption", 0), (name, 1)):
        texts = read_all("auto", raw, caption_field=field).captions["text"].tolist()
        assert texts.count("A dog, mended.") == number


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("corrected", ("yes", "no")),
        ("corrected_caption", ("", "")),
        ("corrected_text", ("a b", "c d")),
    ],
)
def test_other_columns_correct_nothing(tmp_path, name, cells):
    raw = tmp_path / "raw"
    rows = [
        {"image": image, "caption": f"A dog, {image}.", name: cells[place % 2]}
        for place, image in enumerate(NAMES)
    ]
    write(raw, "csv", rows)
    assert len(read_all("auto", raw).captions) == len(NAMES)


def test_records_beside_images(tmp_path):
    raw = tmp_path / "raw"
    save_images(raw, *NAMES)
    for place, image in enumerate(NAMES):
        own = {"caption": f"A dog, {image}.", "status": "bad" if place > 9 else "good"}
        (raw / image).with_suffix(".json").write_text(json.dumps(own))
    assert len(read_all("auto", raw).captions) == len(NAMES)
    assert len(read_all("auto", raw, rows="status=good").captions) == 10
    with pytest.raises(WorkbenchError, match="there are caption, status"):
        read_all("auto", raw, rows="lang=en")


def test_joined_tables(tmp_path):
    raw = tmp_path / "raw"
    save_images(raw, *NAMES)
    images = "".join(f"{place + 70},{image}\n" for place, image in enumerate(NAMES))
    (raw / "images.csv").write_text(f"id,file_name\n{images}")
    rows = "".join(
        f"{place + 70},{language},A dog in {language} {place}.\n"
        for place in range(len(NAMES))
        for language in ("en", "de")
    )
    (raw / "captions.csv").write_text(f"image_id,lang,caption\n{rows}")
    with pytest.raises(WorkbenchError, match="several languages"):
        read_all("auto", raw)
    assert len(read_all("auto", raw, rows="lang=en").captions) == len(NAMES)


def test_files_called_by_languages_are_asked_about(tmp_path):
    raw = tmp_path / "raw"
    for language in ("de", "en"):
        rows = [
            {"image": {"bytes": image_bytes(place), "path": image}, "caption": f"{language} dog"}
            for place, image in enumerate(NAMES)
        ]
        write_parquet(raw / f"data/{language}-00000-of-00001.parquet", rows)
    with pytest.raises(WorkbenchError, match="files called by languages") as error:
        read_all("auto", raw)
    named = error.value.hint.rpartition(" ")[2]
    assert len(read_all("auto", raw, annotations=named).captions) == len(NAMES)


@pytest.mark.parametrize("dataset", ["auto", "image_beside_text", "webdataset"])
def test_what_has_no_rows_refuses_conditions(tmp_path, dataset):
    raw = tmp_path / "raw"
    save_images(raw, *NAMES)
    for image in NAMES:
        (raw / image).with_suffix(".txt").write_text(f"A dog, {image}.")
    with pytest.raises(WorkbenchError, match=r"corpus\.rows = 'lang=en'"):
        read_all(dataset, raw, rows="lang=en")


ROWS = "".join(f"{image},A dog in {image}.\n" for image in NAMES)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"image,caption,,\n{ROWS},,,\n,,,\n", ""),
        (f"image,caption\n{ROWS},\nTotal:,12\n", "its last line, a total (12)"),
        (f"image,caption\n{ROWS[:60]}".rpartition("\n")[0] + "\nimage,caption\n" + ROWS, "again"),
        (f"Captions of spring,\n,\nimage,caption\n{ROWS}", "2 lines above the names"),
        (f"# exported by a tool\nimage,caption\n{ROWS}", "1 line above the names"),
    ],
)
def test_leftovers_of_spreadsheets_are_no_rows(tmp_path, text, said, capsys):
    raw = tmp_path / "raw"
    save_images(raw, *NAMES)
    (raw / "x.csv").write_text(text)
    corpus = read_all("auto", raw)
    assert set(corpus.images["image_id"]) == set(NAMES)
    assert said in capsys.readouterr().err


def test_a_total_that_is_an_image_with_a_caption_is_a_row(tmp_path):
    raw = tmp_path / "raw"
    save_images(raw, *NAMES, "total.jpg")
    rows = ROWS.replace(".jpg,", ",")
    (raw / "x.csv").write_text(f"image,caption\n{rows}total,A dog of all.\n")
    assert "total.jpg" in set(read_all("auto", raw).images["image_id"])


def test_numbers_that_pandas_wrote_as_fractions(tmp_path):
    raw = tmp_path / "raw"
    save_images(raw / "images", *(f"{number}.jpg" for number in range(100, 112)))
    rows = "".join(f"{number}.0,A dog {number}.\n" for number in range(100, 112))
    (raw / "x.csv").write_text(f"image_id,caption\n{rows}")
    assert len(read_all("auto", raw).images) == 12


@pytest.mark.parametrize("sign", [", ", ",", ";", "|", " "])
@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_several_images_in_a_cell_are_refused(tmp_path, sign, ending):
    raw = tmp_path / "raw"
    save_images(raw, *NAMES)
    pairs = [(sign.join(NAMES[place : place + 2]), f"A dog {place}.") for place in range(0, 12, 2)]
    if ending == "csv":
        lines = [f'"{image}",{text}' for image, text in pairs]
        (raw / "x.csv").write_text("\n".join(["image,caption", *lines]))
    else:
        lines = [json.dumps({"image": image, "caption": text}) for image, text in pairs]
        (raw / "x.jsonl").write_text("\n".join(lines))
    with pytest.raises(WorkbenchError, match=r"cells with several images \(6\)"):
        read_all("auto", raw)


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("split", ("TRN", "VAL", "TST")),
        ("partition", ("tr", "va", "te")),
        ("Usage", ("Training", "PublicTest", "PrivateTest")),
        ("conjunto", ("entrenamiento", "validaci\u00f3n", "prueba")),
    ],
)
def test_words_that_are_splits_beside_each_other(tmp_path, column, words):
    raw = tmp_path / "raw"
    own = [words[0]] * 8 + [words[1]] * 2 + [words[2]] * 2
    write(
        raw,
        "csv",
        [
            {"image": image, "caption": f"A dog in {image}.", column: word}
            for image, word in zip(NAMES, own, strict=True)
        ],
    )
    splits = read_all("auto", raw).images["split"].tolist()
    assert [splits.count(split) for split in ("train", "val", "test")] == [8, 2, 2]


def test_languages_are_no_splits(tmp_path):
    raw = tmp_path / "raw"
    write(
        raw,
        "csv",
        [
            {"image": image, "caption": f"A dog in {image}.", "language": ("tr", "te")[place % 2]}
            for place, image in enumerate(NAMES)
        ],
    )
    splits = read_all("auto", raw).images["split"].tolist()
    assert splits.count("test") == 1


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_two_columns_of_splits_that_differ_are_refused(tmp_path, form):
    raw = tmp_path / "raw"
    splits = ["train"] * 8 + ["val"] * 2 + ["test"] * 2
    rows = [
        {"image": image, "caption": f"A dog {image}.", "split": split, "new_split": other}
        for image, split, other in zip(NAMES, splits, splits[::-1], strict=True)
    ]
    write(raw, form, rows)
    with pytest.raises(WorkbenchError, match="split and new_split say different splits"):
        read_all("auto", raw)
    write(raw, form, [row | {"new_split": row["split"]} for row in rows])
    assert len(read_all("auto", raw).images) == len(NAMES)


def test_tags_of_fiftyone_are_splits(tmp_path):
    raw = tmp_path / "raw"
    save_images(raw, *NAMES)
    samples = [
        {"filepath": image, "tags": ["seen", "test" if place < 3 else "train"], "caption": "A dog."}
        for place, image in enumerate(NAMES)
    ]
    (raw / "samples.json").write_text(json.dumps({"samples": samples}))
    assert read_all("auto", raw).images["split"].tolist().count("test") == 3


def test_folders_that_say_other_splits_than_a_column_are_said(tmp_path, capsys):
    raw = tmp_path / "raw"
    splits = ["train"] * 8 + ["val"] * 2 + ["test"] * 2
    names = [f"{split}/{image}" for split, image in zip(splits, NAMES, strict=True)]
    rows = [
        {"image": name, "caption": f"A dog {name}.", "split": split}
        for name, split in zip(names, splits[::-1], strict=True)
    ]
    write(raw, "csv", rows, images=names)
    read_all("auto", raw)
    assert "the folders of 8 images say other splits than the ann" in capsys.readouterr().err


@pytest.mark.parametrize("ending", ["csv", "json"])
def test_a_file_and_its_fields_are_enough_for_auto(tmp_path, ending):
    raw = tmp_path / "raw"
    save_images(raw, *NAMES)
    pairs = [{"bild": image, "wort": f"Ein Hund in {image}."} for image in NAMES]
    lines = ["bild,wort", *(",".join(pair.values()) for pair in pairs)]
    (raw / f"x.{ending}").write_text("\n".join(lines) if ending == "csv" else json.dumps(pairs))
    with pytest.raises(WorkbenchError):
        read_all("auto", raw)
    own = read_all("auto", raw, annotations=f"x.{ending}", image_field="bild", caption_field="wort")
    assert len(own.captions) == len(NAMES)
