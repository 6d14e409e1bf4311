"""Files of data that no reader read are named, whichever reader reads the others."""

import json

import pytest
from reader_cases import read_all, save_images

from pipeline.corpus.dataset import unread
from pipeline.corpus.dataset.folder import list_folder
from pipeline.corpus.dataset.unread import naming_images, unread_files

NAMES = [f"a{number}.jpg" for number in range(12)]


def write_table(raw):
    (raw / "captions.csv").write_text("image,caption\n" + "".join(f"{n},A dog.\n" for n in NAMES))


def write_records(raw):
    records = [{"image": name, "caption": "A dog."} for name in NAMES]
    (raw / "mine.json").write_text(json.dumps(records))


def write_beside(raw):
    for name in NAMES:
        (raw / "images" / name).with_suffix(".txt").write_text("A dog.")


@pytest.fixture(params=[write_table, write_records, write_beside])
def raw(request, tmp_path):
    save_images(tmp_path / "raw/images", *NAMES)
    request.param(tmp_path / "raw")
    return tmp_path / "raw"


OTHERS = ["setid.mat", "ids.npy", "b/notes.xml", "photos.tsv000", "more.pkl", "x.db", "my list.csv"]


@pytest.mark.parametrize("name", OTHERS)
def test_any_file_of_data_is_named(raw, name, capsys):
    (raw / name).parent.mkdir(exist_ok=True)
    (raw / name).write_bytes(b"\1\2")
    read_all("auto", raw)
    assert f"not read: {name}\n" in capsys.readouterr().err


def test_those_that_name_images_come_first(raw, capsys):
    (raw / "a.csv").write_text("epoch,loss\n1,2.0\n")
    (raw / "texts.json").write_text(json.dumps([{"pic": name[:-4]} for name in NAMES]))
    read_all("auto", raw)
    said = capsys.readouterr().err
    assert "not read, though it names images: texts.json\nnot read: a.csv\n" in said


ABOUT = ["README.txt", "LICENSE.txt", "licence.txt", "requirements.txt", "dataset_infos.json"]
OF_IMAGES = ["images/a1.xml", "images/a1.jpg.json", "labels/a1.txt", "images/a1.caption.yaml"]


@pytest.mark.parametrize("name", [*ABOUT, *OF_IMAGES, "b/c/d/e/f/deep.csv", "a.py"])
def test_what_says_nothing_of_the_dataset_or_is_of_one_image_is_not_named(tmp_path, name, capsys):
    raw = tmp_path / "raw"
    save_images(raw / "images", *NAMES)
    write_table(raw)
    (raw / name).parent.mkdir(parents=True, exist_ok=True)
    (raw / name).write_text("x")
    read_all("auto", raw)
    assert "not read:" not in capsys.readouterr().err


def test_files_that_a_line_names_are_not_named_twice(tmp_path):
    (tmp_path / "a.csv").write_text("x")
    (tmp_path / "b a.csv").write_text("x")
    folder = list_folder(tmp_path)
    assert unread_files(folder, (), ["passed over: a.csv (captions_csv), b a.csv"]) == []
    assert unread_files(folder, ("b a.csv",), ["passed over: data.csv"]) == ["a.csv"]


def test_few_files_are_looked_into(tmp_path, monkeypatch):
    names = [f"{number}.txt" for number in range(5)]
    for name in names:
        (tmp_path / name).write_text("b1 b2")
    monkeypatch.setattr(unread, "LOOKED_AT", 3)
    assert naming_images(list_folder(tmp_path), names, ["b1.jpg", "b2.jpg", "b3.jpg"]) == names[:3]
