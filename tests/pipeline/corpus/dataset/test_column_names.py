"""Columns and fields that programs call otherwise than people do are known by their names."""

import csv
import json

import pytest
from reader_cases import read_all, save_images, texts_of

from pipeline.corpus.dataset.cells import caption_columns, image_columns, plain_name
from pipeline.runtime.errors import WorkbenchError

NAMES = [f"p{number}.jpg" for number in range(4)]
TEXTS = [f"A dog runs past house {number}." for number in range(4)]
CAPTIONS = {name: [text] for name, text in zip(NAMES, TEXTS, strict=True)}


def write_table(folder, image, caption, more=()):
    """more: names of columns with the same text in each row, which come before the others."""
    save_images(folder, *NAMES)
    with open(folder / "mine.csv", "w", newline="") as file:
        rows = csv.writer(file, quoting=csv.QUOTE_ALL)
        rows.writerow([*more, image, caption])
        rows.writerows([*("see, it" for _ in more), *row] for row in zip(NAMES, TEXTS, strict=True))


def write_json(folder, image, caption, more=()):
    save_images(folder, *NAMES)
    records = [
        {**dict.fromkeys(more, "see, it"), image: name, caption: text}
        for name, text in zip(NAMES, TEXTS, strict=True)
    ]
    (folder / "mine.json").write_text(json.dumps(records))


@pytest.mark.parametrize(
    ("image", "caption"),
    [
        ("Input.image_url", "Answer.caption"),
        ("File:FileName", "IPTC:Caption-Abstract"),
        ("SourceFile", "XMP-dc:Description"),
        ("Filename", "Caption/Abstract"),
        ("imageFile", "captionText"),
        ("source-ref", "caption"),
        ("src", "alt"),
        ("file", "alt"),
        ("file", "<CAPTION>"),
        ("image_files", "utterance"),
        ("url", "paragraph"),
        ("file_name", "synthetic_caption"),
        ("Bild", "Bildunterschrift"),
        ("fichier", "Légende"),
        ("imagen", "descripción"),
    ],
)
@pytest.mark.parametrize("write", [write_table, write_json])
def test_names_of_programs_and_other_languages_are_known(tmp_path, write, image, caption):
    write(tmp_path, image, caption)
    assert texts_of(read_all("auto", tmp_path)) == CAPTIONS


@pytest.mark.parametrize(("image", "caption"), [("painting", "utterance"), ("screenId", "summary")])
def test_names_without_endings_are_images_that_are_there(tmp_path, image, caption):
    write_table(tmp_path, image, caption)
    table = tmp_path / "mine.csv"
    table.write_text(table.read_text().replace(".jpg", ""))
    assert texts_of(read_all("auto", tmp_path)) == CAPTIONS


def test_a_row_with_commas_in_quotes_has_its_own_columns(tmp_path):
    own = ("HITId", "Title", "Description", "Keywords", "WorkTimeInSeconds")
    write_table(tmp_path, "Input.image_url", "Answer.caption", own)
    table = tmp_path / "mine.csv"
    table.write_text(table.read_text().replace('"see, it","p', '"42","p'))
    assert texts_of(read_all("auto", tmp_path)) == CAPTIONS


def test_a_column_of_another_name_whose_files_are_there_has_the_images(tmp_path):
    write_table(tmp_path, "captioning", "caption")
    assert texts_of(read_all("auto", tmp_path)) == CAPTIONS


@pytest.mark.parametrize("part", ["nodeId", "panel", "bbox"])
@pytest.mark.parametrize("image", ["screenId", "page"])
def test_texts_of_parts_of_images_are_no_captions(tmp_path, image, part):
    write_table(tmp_path, image, "caption", [part])
    with pytest.raises(WorkbenchError, match="no columns of images"):
        read_all("auto", tmp_path)


def test_names_of_files_are_no_captions(tmp_path):
    save_images(tmp_path, *NAMES)
    (tmp_path / "mine.csv").write_text("image,alt\n" + "".join(f"{own},{own}\n" for own in NAMES))
    with pytest.raises(WorkbenchError, match="what it says of them are names of files"):
        read_all("auto", tmp_path)


def test_of_two_such_columns_nobody_knows_which_is_meant(tmp_path):
    save_images(tmp_path, *NAMES, *(f"q{name}" for name in NAMES))
    rows = zip(NAMES, TEXTS, strict=True)
    lines = [f"{name},q{name},{text}" for name, text in rows]
    (tmp_path / "mine.csv").write_text("\n".join(["before,after,caption", *lines]))
    with pytest.raises(WorkbenchError, match="no columns of images"):
        read_all("auto", tmp_path)


def test_what_was_known_before_comes_first():
    names = ("alt", "XMP:Title", "EXIF:ImageDescription", "Input.caption", "Answer.caption", "text")
    assert caption_columns(names)[0] == ["Answer.caption"]
    assert caption_columns(("alt", "title"))[0] == ["title"]
    assert caption_columns(("Answer.caption", "caption"))[0] == ["caption"]
    assert image_columns(["Input.image", "file"]) == ["file", "Input.image"]
    assert not caption_columns(("credit:caption", "recaption", "subtitle"))
    assert plain_name(' "#File-Name" ') == "file_name"


def test_a_chosen_column_is_no_other_of_its_name(tmp_path):
    write_table(tmp_path, "image", "Answer.caption", ("caption",))
    own = {"annotations": "mine.csv", "image_field": "image", "caption_field": "Answer.caption"}
    assert texts_of(read_all("captions_csv", tmp_path, **own)) == CAPTIONS


def test_a_record_in_a_list_of_its_own_is_that_of_the_image_beside_it(tmp_path):
    save_images(tmp_path, *NAMES)
    for name, text in zip(NAMES, TEXTS, strict=True):
        record = {"SourceFile": name, "XMP:Description": text, "File:FileName": name}
        (tmp_path / f"{name}.json").write_text(json.dumps([record]))
    assert texts_of(read_all("auto", tmp_path)) == CAPTIONS


def test_images_of_coco_may_be_called_filename(tmp_path):
    save_images(tmp_path, *NAMES)
    value = {
        "images": [{"id": number, "filename": name} for number, name in enumerate(NAMES)],
        "annotations": [{"image_id": number, "caption": own} for number, own in enumerate(TEXTS)],
    }
    (tmp_path / "mine.json").write_text(json.dumps(value))
    assert texts_of(read_all("auto", tmp_path)) == CAPTIONS
