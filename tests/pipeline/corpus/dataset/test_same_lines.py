"""Files with the same captions, and files of one folder that belong together."""

import json

import pytest
from commands import refusal
from reader_cases import read_all, save_images

NAMES = [f"{number}.jpg" for number in range(6)]


def table(images):
    return "image,caption\n" + "".join(f"{name},A {name} dog.\n" for name in images)


def test_a_table_of_all_splits_is_one_of_each(tmp_path, capsys):
    """And the first line says which files were read, also where the user names one."""
    save_images(tmp_path / "images", *NAMES)
    parts = {"train": NAMES[:4], "val": NAMES[4:5], "test": NAMES[5:]}
    for split, own in (parts | {"all": NAMES}).items():
        (tmp_path / f"{split}.csv").write_text(table(own))
    corpus = read_all("auto", tmp_path)
    assert corpus.images["split"].value_counts().to_dict() == {k: len(v) for k, v in parts.items()}
    said = capsys.readouterr().err
    assert "not read: all.csv, whose lines are those of test.csv, train.csv, val.csv" in said
    assert "dataset: captions_csv, because of test.csv, train.csv, val.csv; passed over" in said
    read_all("auto", tmp_path, annotations="train.csv")
    assert "dataset: captions_csv, because of train.csv" in capsys.readouterr().err
    (tmp_path / "all.csv").write_text(table(NAMES).replace("A 0.jpg dog", "Another dog"))
    assert "several annotation files" in refusal(read_all, "auto", tmp_path)


def test_a_table_that_is_saved_as_json_too_is_read_once(tmp_path, capsys):
    save_images(tmp_path / "images", *NAMES)
    (tmp_path / "captions.csv").write_text(table(NAMES))
    records = [{"image": name, "caption": f"A {name} dog."} for name in NAMES]
    (tmp_path / "captions.json").write_text(json.dumps(records))
    assert len(read_all("auto", tmp_path).captions) == len(NAMES)
    said = capsys.readouterr().err
    assert "captions_csv, because of captions.csv; passed over: captions.json" in said
    records[0]["caption"] = "Another dog."
    (tmp_path / "captions.json").write_text(json.dumps(records))
    assert "could be of several kinds" in refusal(read_all, "auto", tmp_path)
    read_all("auto", tmp_path, annotations="captions.json")
    assert "no captions are known" not in capsys.readouterr().err


@pytest.mark.parametrize("ending", ["csv", "json"])
def test_a_folder_that_is_named_is_read_whole(tmp_path, ending):
    """Files of other names, whose images differ."""
    save_images(tmp_path / "images", *NAMES)
    (tmp_path / "notes").mkdir()
    for word, own in {"birds": NAMES[:3], "crochet": NAMES[3:]}.items():
        records = [{"image": name, "caption": f"A {name} dog."} for name in own]
        text = table(own) if ending == "csv" else json.dumps(records)
        (tmp_path / f"notes/{word}.{ending}").write_text(text)
    said = refusal(read_all, "auto", tmp_path)
    assert f"such as notes/birds.{ending}, or notes to read all" in said
    assert len(read_all("auto", tmp_path, annotations="notes").images) == len(NAMES)
    copy = (tmp_path / f"notes/birds.{ending}").read_text().replace(" dog", " cat")
    (tmp_path / f"notes/crochet.{ending}").write_text(copy)
    said = refusal(read_all, "auto", tmp_path, annotations="notes")
    assert "several annotation files" in said


def test_folds_of_the_same_lines_are_asked_for(tmp_path):
    save_images(tmp_path / "images", *NAMES)
    for fold, test in enumerate((NAMES[:2], NAMES[2:4])):
        train = [name for name in NAMES if name not in test]
        for split, own in (("train", train), ("test", test)):
            (tmp_path / f"fold{fold}_{split}.csv").write_text(table(own))
    assert "several annotation files" in refusal(read_all, "auto", tmp_path)
