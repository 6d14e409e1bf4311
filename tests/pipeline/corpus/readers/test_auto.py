"""dataset: auto takes the reader whose files lie in the folder."""

import gzip
import json
import pickle
import subprocess

import pandas as pd
import pytest
from commands import refusal
from reader_cases import read_all, save_images

from pipeline.runtime.errors import WorkbenchError

NAMES = ("a.png", "b.png", "c.png")
LINES = "image,caption\n" + "".join(f"{name},a dog\n" for name in NAMES)


@pytest.fixture
def raw(tmp_path):
    save_images(tmp_path / "raw/images", *NAMES)
    return tmp_path / "raw"


def test_it_reads_as_the_reader_of_these_files_does(raw, capsys):
    (raw / "captions.txt").write_text(LINES)
    found = read_all("auto", raw)
    assert "dataset: captions_csv, because of captions.txt" in capsys.readouterr().err
    named = read_all("captions_csv", raw)
    assert found.images.equals(named.images)
    assert found.captions.equals(named.captions)


@pytest.mark.parametrize(
    ("path", "dataset"),
    [
        ("annotations/captions_train2017.json", "coco_captions"),
        ("captions_val2014.json", "coco_captions"),
        ("results.csv", "captions_csv"),
        ("reid_raw.json", "cuhk_pedes"),
        ("dataset_coco.json", "karpathy_json"),
        ("data/train-00000-of-00002.parquet", "parquet_shards"),
        ("train/00000.tar", "webdataset"),
    ],
)
def test_a_file_s_name_tells_its_reader(raw, path, dataset):
    """Files that are no such thing are refused by the reader that their names mean."""
    (raw / path).parent.mkdir(parents=True, exist_ok=True)
    (raw / path).write_text("nothing")
    assert refusal(read_all, "auto", raw) == refusal(read_all, dataset, raw)


def test_what_lies_further_up_has_images_or_splits_outranks(raw, capsys):
    (raw / "captions.txt").write_text(LINES)
    (raw / "other.csv").write_text("image,caption\nz.png,not there\n")
    (raw / "deep").mkdir()
    (raw / "deep" / "captions.txt").write_text(LINES)
    read_all("auto", raw)
    said = capsys.readouterr().err
    assert "because of captions.txt; passed over: deep/captions.txt (captions_csv), other" in said


def test_a_folder_without_captions(raw):
    with pytest.raises(
        WorkbenchError, match=r"no captions that a reader knows, among 3 images and no other file"
    ):
        read_all("auto", raw)
    assert "not a folder" in refusal(read_all, "auto", raw / "captions.txt")


def test_a_named_file_is_read_by_its_own_reader(raw, capsys):
    (raw / "captions.txt").write_text(LINES)
    records = [{"image": name, "caption": f"of {name}"} for name in NAMES]
    (raw / "mine.json").write_text(json.dumps(records))
    corpus = read_all("auto", raw, annotations="mine.json")
    assert "dataset: records_json, because of mine.json" in capsys.readouterr().err
    assert set(corpus.captions["text"]) == {f"of {name}" for name in NAMES}


def _table(texts, split):
    rows = "".join(f"{name},{text},{split}\n" for name, text in texts.items())
    return f"image,caption,x\n{rows}"


def _records(texts, split):
    return json.dumps([{"image": name, "caption": text} for name, text in texts.items()])


def _coco(texts, split):
    images = [{"id": n, "file_name": name} for n, name in enumerate(texts)]
    own = [{"id": n, "image_id": n, "caption": text} for n, text in enumerate(texts.values())]
    return json.dumps({"images": images, "annotations": own})


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("{split}/captions.csv", _table),
        ("{split}.csv", _table),
        ("{split}/mine.json", _records),
        ("{split}/_annotations.coco.json", _coco),  # as Roboflow exports it
    ],
)
@pytest.mark.parametrize("inside", ["", "images/"])
def test_images_of_one_name_in_several_splits(tmp_path, name, write, inside):
    raw = tmp_path / "raw"
    numbers = {"train": 4, "valid": 2, "test": 2}
    for split, number in numbers.items():
        texts = {f"{n}.jpg": f"A {split} image." for n in range(number)}
        save_images(raw / split / inside, *texts)
        (raw / name.format(split=split)).write_text(write(texts, split))
    corpus = read_all("auto", raw)
    found = dict(zip(corpus.captions["image_id"], corpus.captions["text"], strict=True))
    assert found == {
        f"{split}/{inside}{n}.jpg": f"A {split} image."
        for split, number in numbers.items()
        for n in range(number)
    }
    assert corpus.images["split"].value_counts().to_dict() == {"train": 4, "val": 2, "test": 2}


def test_images_of_one_name_that_no_folder_tells_apart_are_refused(tmp_path):
    raw = tmp_path / "raw"
    save_images(raw / "train", "0.jpg", "1.jpg")
    save_images(raw / "test", "0.jpg")
    rows = ["0.jpg,A dog.,train", "1.jpg,A cat.,train", "0.jpg,A boat.,test", "1.jpg,A kite.,test"]
    (raw / "mine.csv").write_text("\n".join(["image,caption,split", *rows]))
    assert "images in more than one split (2): 0.jpg, 1.jpg" in refusal(read_all, "auto", raw)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("captions.xlsx", b"PK\3\4", "captions.xlsx: a workbook of a spreadsheet program"),
        ("mine.csv.gz", gzip.compress(LINES.encode(), mtime=0), "mine.csv.gz: packed by gzip"),
        ("mine.csv", "image,caption\na.png,caf\xe9\n".encode("latin1"), "line 2: not UTF-8"),
        ("mine.csv", b"<!DOCTYPE html><html></html>", "mine.csv: a page of HTML"),
        ("notes.md", b"nothing of use", "among 3 images and notes.md"),
        ("mine.pkl", pickle.dumps({"a.png": "A."}), "when it is read\nwrite captions.txt with"),
        ("mine.db", b"SQLite format 3\0", "an SQLite database\nwrite captions.txt with"),
        (
            "x.csv",
            b"id,label\n1,a\n",
            "no columns of images and captions are known among id, label",
        ),
        (
            "x.tsv",
            f"1\tA dog.\t{'x' * 900}\n".encode(),
            f"are known among 1, A dog., {'x' * 30}...\n",
        ),
        (
            "x.jsonl",
            b'{"image_0": "a.png", "id": 7, "short": "A.", "all": ["A.", "B."]}\n{}\n',
            "no fields of images and captions are known among image_0, short, all",
        ),
        ("x.json", b'[{"id": 1, "boxes": [{"x": 1}], "url": "u"}]', "among 3 images and x.json"),
    ],
)
def test_why_no_reader_knows_a_folder(raw, name, content, said):
    (raw / name).write_bytes(content)
    assert said in refusal(read_all, "auto", raw)


def test_a_parquet_file_of_names_of_images(raw):
    pd.DataFrame({"image": NAMES, "caption": "a dog"}).to_parquet(raw / "captions.parquet")
    assert "captions.parquet: a parquet file without images" in refusal(read_all, "auto", raw)
    pd.read_parquet(raw / "captions.parquet").to_csv(raw / "captions.csv")
    assert len(read_all("auto", raw).images) == len(NAMES)


def test_features_without_photographs_are_known_by_their_names(tmp_path):
    for name in ("train_ims.npy", "train_caps.txt"):
        (tmp_path / name).write_bytes(b"a dog\n")
    said = refusal(read_all, "auto", tmp_path)
    assert "train_ims.npy: damaged, or of another format" in said


def test_addresses_and_names_of_columns_as_people_write_them(raw):
    lines = [f"https://example.org/p/{name}?w=10,7,a dog" for name in NAMES]
    (raw / "My Data.CSV").write_text("\n".join(["Image URL,Some Number,Alt-Text", *lines]))
    corpus = read_all("auto", raw)
    assert sorted(corpus.images["image_id"]) == [f"images/{name}" for name in NAMES]


@pytest.mark.parametrize(
    "content",
    [
        json.dumps({name: ["A dog."] for name in NAMES}),
        json.dumps([{"image": name, "caption": "A dog."} for name in NAMES], indent=1),
        "".join(json.dumps({"image": name, "caption": "A dog."}) + "\n" for name in NAMES),
    ],
)
def test_json_that_is_called_a_text_is_renamed(raw, content):
    path = raw / "captions.txt"
    path.write_text(content)
    said = refusal(read_all, "auto", raw)
    assert "captions.txt: JSON, and no table" in said
    path.rename(path.with_name(said.split("rename it to ")[1]))
    assert read_all("auto", raw).captions["text"].tolist() == ["A dog."] * 3


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("cp1252", "\u201ccaf\u00e9\u201d"),
        ("macintosh", "\u201ccaf\u00e9\u201d"),
        ("shift_jis", "\u72ac\u304c\u8d70\u308b"),
        ("gb18030", "\u4e00\u53ea\u72d7\u5728\u8dd1"),
        ("cp1251", "\u0441\u043e\u0431\u0430\u043a\u0430"),
    ],
)
def test_the_command_that_converts_a_text(raw, encoding, text):
    path = raw / "mine.csv"
    lines = "".join(f"{name},{text}\n" for name in NAMES)
    path.write_bytes(f"image,caption\n{lines}".encode(encoding))
    command, others = refusal(read_all, "auto", raw).split("convert it by ")[1].split(", with ")
    assert encoding in others
    words = command.replace("ENCODING", encoding).split()
    done = subprocess.run([*words, path], check=True, capture_output=True)
    path.write_bytes(done.stdout)
    assert read_all("auto", raw).captions["text"].tolist() == [text] * 3


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_without_its_mark(raw, encoding):
    lines = "".join(f"{name},\u72d7 {name}\n" for name in NAMES)
    (raw / "mine.csv").write_bytes(f"image,caption\n{lines}".encode(encoding))
    texts = read_all("auto", raw).captions["text"].tolist()
    assert sorted(texts) == [f"\u72d7 {name}" for name in NAMES]


@pytest.mark.parametrize(
    ("file", "content"),
    [("index.html", "<!DOCTYPE html><p>dog"), ("annotations.xml", "<?xml version='1.0'?><a/>")],
)
def test_a_page_is_no_download_that_failed(raw, file, content):
    (raw / file).write_text(content)
    said = refusal(read_all, "auto", raw)
    assert "write captions.txt with lines image,caption there" in said
    assert "the download failed" not in said
    (raw / file).rename(raw / "captions.csv")
    assert "the download failed" in refusal(read_all, "auto", raw)


def test_a_record_without_captions_is_not_told_to_take_its_id(raw):
    talks = [{"id": name, "image": name, "conversations": []} for name in NAMES]
    (raw / "mine.json").write_text(json.dumps(talks))
    said = refusal(read_all, "auto", raw)
    assert "no captions that a reader knows, among 3 images and mine.json" in said


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        ("captions.xlsx", "no captions are known in it"),
        ("new/image_captions.ods", "no captions are known in it"),
        ("Annotations.json", "no captions are known in it"),
        ("test.parquet.crdownload", "its download was not finished"),
    ],
)
def test_files_that_may_be_meant_and_cannot_be_read_are_named(tmp_path, capsys, file, reason):
    save_images(tmp_path, "1.jpg", "2.jpg", "3.jpg")
    rows = "".join(f"{number}.jpg,A dog.\n" for number in (1, 2, 3))
    (tmp_path / "captions_old.csv").write_text("image,caption\n" + rows)
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_bytes(b"[1]" if file.endswith(".json") else b"PK\3\4")
    read_all("auto", tmp_path)
    assert f"not read, for {reason}: {file}" in capsys.readouterr().err


def test_tables_side_by_side_are_not_read_as_one(tmp_path):
    save_images(tmp_path, "1.jpg", "2.jpg")
    text = "image,caption,,image,caption\n1.jpg,A dog.,,2.jpg,A cat.\n"
    (tmp_path / "captions.csv").write_text(text)
    assert "no columns of images and captions are known" in refusal(read_all, "auto", tmp_path)
