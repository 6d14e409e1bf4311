"""Hugging Face's ImageFolder: what metadata.jsonl and metadata.csv say, and what is refused."""

import json

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import refusal
from reader_cases import read_all, save_images, texts_of

SPLITS = ("train", "validation", "test")


@pytest.fixture
def raw(tmp_path):
    """A folder for each split, an image in each, and no table yet."""
    for number, split in enumerate(SPLITS):
        save_images(tmp_path / "raw" / split, f"{number}.jpg")
    return tmp_path / "raw"


def test_folders_are_splits_and_paths_are_their_own(raw):
    for number, split in enumerate(SPLITS):
        records = [{"file_name": f"{number}.jpg", "text": text} for text in ("One.", "Two.")]
        (raw / split / "metadata.jsonl").write_text("\n".join(map(json.dumps, records)))
    corpus = read_all("auto", raw)
    assert corpus.images["image_id"].tolist() == [
        "train/0.jpg",
        "validation/1.jpg",
        "test/2.jpg",
    ]
    assert corpus.images["split"].tolist() == ["train", "val", "test"]
    assert texts_of(corpus)["test/2.jpg"] == ["One.", "Two."]


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_what_is_not_read_is_named(tmp_path, capsys, kind):
    raw = tmp_path / "raw"
    save_images(raw, "0.jpg", "1.jpg", "2.jpg")
    rows = [
        {"file_name": f"{n}.jpg", "text": "One.", "title": "Two.", "mood": "good", "split": split}
        for n, split in enumerate(SPLITS)
    ]
    table = pd.DataFrame(rows)
    if kind == "csv":
        table.to_csv(raw / "metadata.csv", index=False)
    elif kind == "jsonl":
        table.to_json(raw / "metadata.jsonl", orient="records", lines=True)
    else:
        table.to_parquet(raw / "metadata.parquet")
    assert read_all("auto", raw).images["split"].tolist() == ["train", "val", "test"]
    assert "not read beside image and caption: title, mood\n" in capsys.readouterr().err


def test_a_record_may_have_several_captions_and_its_own_split(tmp_path):
    raw = tmp_path / "raw"
    names = [f"{split}.jpg" for split in SPLITS]
    save_images(raw, *names)
    records = [
        {"file_name": name, "captions": ["One.", "Two."], "split": name[:-4]} for name in names
    ]
    (raw / "metadata.jsonl").write_text("\n".join(map(json.dumps, records)))
    corpus = read_all("image_folder", raw)
    assert corpus.images["split"].tolist() == ["train", "val", "test"]
    assert texts_of(corpus) == {name: ["One.", "Two."] for name in names}
    numbered = [
        {"file_name": name, "caption_0": "One.", "caption_1": ["Two."], "split": name[:-4]}
        for name in names
    ]
    (raw / "metadata.jsonl").write_text("\n".join(map(json.dumps, numbered)))
    assert texts_of(read_all("image_folder", raw)) == texts_of(corpus)


TABLES = {
    "texts": {"file_name": ["0.jpg", "0.jpg"], "text": ["One.", "Two."], "label": [0, 0]},
    "a list": {"file_name": ["0.jpg"], "captions": [["One.", "Two."]]},
    "numbered": {"file_name": ["0.jpg"], "caption_0": ["One."], "caption_1": ["Two."]},
    "splits": {"file_name": ["0.jpg", "0.jpg"], "text": ["One.", "Two."], "split": ["train", None]},
}


@pytest.mark.parametrize("kind", TABLES)
def test_tables_in_parquet(raw, kind):
    table = pa.table(TABLES[kind])
    for number, split in enumerate(SPLITS):
        names = pa.array([f"{number}.jpg"] * len(table))
        own = table.set_column(0, "file_name", names)
        if kind == "splits":
            own = own.set_column(2, "split", pa.array([split] * len(table)))
        pq.write_table(own, raw / split / "metadata.parquet")
    corpus = read_all("auto", raw)
    assert corpus.images["split"].tolist() == ["train", "val", "test"]
    assert set(map(tuple, texts_of(corpus).values())) == {("One.", "Two.")}


def test_a_parquet_file_that_is_cut_or_says_something_else(raw):
    pq.write_table(pa.table(TABLES["texts"]), raw / "train/metadata.parquet")
    whole = (raw / "train/metadata.parquet").read_bytes()
    (raw / "train/metadata.parquet").write_bytes(whole[:-20])
    assert "train/metadata.parquet: its rows: damaged" in refusal(read_all, "auto", raw)
    pq.write_table(pa.table({"file_name": ["0.jpg"], "label": [1]}), raw / "train/metadata.parquet")
    assert "a parquet file without images" in refusal(read_all, "auto", raw)
    assert "no columns of images and captions" in refusal(
        read_all, "image_folder", raw, annotations="train/metadata.parquet"
    )


GOOD = '{"file_name": "0.jpg", "text": "A dog."}'
BROKEN = {
    "no record": (GOOD, "[1]", "line 2"),
    "no JSON": (GOOD, "{", "line 2"),
    "no image": (GOOD, '{"text": "A cat."}', "2 (no text file_name)"),
    "no caption": (GOOD, '{"file_name": "1.jpg"}', "2 (no caption (caption, captions,"),
    "a number": (GOOD, '{"file_name": "1.jpg", "text": 7}', "2 (a caption is no text)"),
    "a number among texts": (
        GOOD,
        '{"file_name": "1.jpg", "text": ["x", 7]}',
        "2 (a caption is no text)",
    ),
    "a word that is no split": (
        GOOD,
        '{"file_name": "1.jpg", "text": "x", "split": "best"}',
        "splits that are none of train, val, test and their like (1): 'best'",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_records_are_named(tmp_path, case):
    raw = tmp_path / "raw"
    save_images(raw, "0.jpg", "1.jpg")
    *lines, said = BROKEN[case]
    (raw / "metadata.jsonl").write_text("\n".join(lines))
    assert said in refusal(read_all, "image_folder", raw)


def test_no_table(raw):
    message = refusal(read_all, "image_folder", raw)
    assert "looked for metadata.csv, metadata.jsonl or metadata.parquet with file_name" in message
