"""CUHK-PEDES in the format of its two files."""

import json

import numpy as np
import pytest
from commands import refusal
from reader_cases import options, read_all, save_images

from pipeline.corpus.readers.cuhk_pedes import read

TEXTS = {
    "CUHK03/a.png": (3, "train", ["A man, in black.", "The man's T-shirt is red."]),
    "cam_b/b.png": (12, "test", ["A woman with a bag."]),
    "Market/c.png": (3, "train", ["He walks."]),
    "cam_a/d.png": (9, "test", ["A boy.", "Grey trousers.", "He runs."]),
    "cam_a/e.png": (12, "test", ["She waits."]),
    "train_query/p1_s2.png": (5, "val", ["A girl in green."]),
}


def records(splits=True):
    """Records of both files; processed_tokens as the one with splits has them."""
    found = []
    for file, (person, split, captions) in TEXTS.items():
        record = {"id": person, "file_path": file, "captions": captions}
        if splits:
            tokens = [text.lower().split() for text in captions]
            record |= {"split": split, "processed_tokens": tokens}
        found.append(record)
    return found


def write(raw, content, name="reid_raw.json"):
    raw.mkdir(exist_ok=True)
    (raw / name).write_text(json.dumps(content))


@pytest.fixture
def raw(tmp_path):
    raw = tmp_path / "raw"
    write(raw, records())
    save_images(raw / "imgs", *TEXTS)
    return raw


def test_groups_are_persons_and_captions_vary(raw):
    corpus = read_all("cuhk_pedes", raw)
    files = ["CUHK03/a.png", "Market/c.png", "train_query/p1_s2.png"]
    files += ["cam_b/b.png", "cam_a/d.png", "cam_a/e.png"]
    assert corpus.images["image_id"].tolist() == files
    assert corpus.images["group"].tolist() == ["3", "3", "5", "12", "9", "12"]
    assert corpus.images["split"].tolist() == ["train", "train", "val", "test", "test", "test"]
    assert corpus.images["path"].tolist()[0] == (raw / "imgs/CUHK03/a.png").as_posix()
    captions = corpus.captions
    assert captions["caption_id"].tolist()[:3] == [
        "CUHK03/a.png#0",
        "CUHK03/a.png#1",
        "Market/c.png#0",
    ]
    assert captions["tokens"].tolist()[1] == ["the", "man", "'s", "t", "shirt", "is", "red"]
    assert captions["text"].tolist()[1] == "The man's T-shirt is red."
    assert captions["image_id"].value_counts()["cam_a/d.png"] == 3


def test_both_files_give_the_same_captions(raw):
    with_splits = read(raw, raw, options())
    content = [{k: r[k] for k in ("id", "file_path", "captions", "split")} for r in records()]
    write(raw, content, "caption_all.json")
    again = read(raw, raw, options(annotations="caption_all.json"))
    assert again.captions.equals(with_splits.captions)
    assert again.images.equals(with_splits.images)
    write(raw, records(splits=False), "caption_all.json")
    both = read(raw, raw, options())
    assert both.images.equals(with_splits.images)
    (said,) = both.remarks
    assert said == "reading reid_raw.json, which has the splits, and not caption_all.json"


def test_without_splits_the_last_thousand_persons_are_for_test(tmp_path):
    """Ids with gaps, in any order: persons are counted, neither images nor ids."""
    generator = np.random.default_rng(0)
    persons = generator.permutation(np.sort(generator.choice(9000, 2003, replace=False)) + 1)
    content = [
        {"id": int(n), "file_path": f"cam_a/{n}_{view}.png", "captions": ["x"]}
        for n in persons
        for view in range(1 + n % 3)
    ]
    write(tmp_path, content, "caption_all.json")
    (tmp_path / "imgs/cam_a").mkdir(parents=True)
    for record in content:
        (tmp_path / "imgs" / record["file_path"]).touch()
    source = read(tmp_path, tmp_path, options())
    by_split = source.images.assign(person=source.images["group"].astype(int)).groupby("split")
    found = {split: sorted(set(rows["person"])) for split, rows in by_split}
    assert {split: len(ids) for split, ids in found.items()} == {
        "train": 3,
        "val": 1000,
        "test": 1000,
    }
    assert found["train"][-1] < found["val"][0]
    assert found["val"][-1] < found["test"][0]
    assert f"test from person {found['test'][0]} on" in source.remarks[0]
    write(tmp_path, [r for r in content if r["id"] not in found["train"]], "caption_all.json")
    assert "2,000 persons leave none to train on" in refusal(read, tmp_path, tmp_path, options())


def test_folders_of_images(raw):
    prefixed = [r | {"file_path": f"imgs/{r['file_path']}"} for r in records()]
    write(raw, prefixed)
    assert read(raw, raw, options()).root == raw
    (raw / "imgs").rename(raw / "pictures")
    write(raw, records())
    assert len(read_all("cuhk_pedes", raw, images="pictures").images) == 6


def test_persons_have_one_split(raw):
    content = records()
    content[2]["split"] = "test"
    del content[5]["split"]
    write(raw, content)
    said = refusal(read, raw, raw, options())
    assert "persons in more than one split, ids (1): 3" in said
    assert "records without a split beside others with one (1): [5]" in said


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("ICFG-PEDES.json", "file_path"),
        ("data_captions.json", "img_path"),
        ("mine.json", "img_path"),
    ],
)
def test_other_names_and_either_key(raw, name, key, capsys):
    expected = read_all("cuhk_pedes", raw)
    (raw / "reid_raw.json").unlink()
    content = [
        {key: own["file_path"]} | {k: v for k, v in own.items() if k != "file_path"}
        for own in records()
    ]
    write(raw, content, name)
    corpus = read_all("auto", raw)
    assert corpus.images.equals(expected.images)
    assert corpus.captions.equals(expected.captions)
    assert f"dataset: cuhk_pedes, because of {name}" in capsys.readouterr().err


def test_val_is_drawn_from_train_by_person(raw, capsys):
    """Persons 3 (two images), 5 and 7 are for training."""
    content = [own | {"split": "train"} if own["split"] == "val" else own for own in records()]
    content.append({"id": 7, "file_path": "cam_a/g.png", "split": "train", "captions": ["He."]})
    write(raw, content, "ICFG-PEDES.json")
    (raw / "reid_raw.json").unlink()
    save_images(raw / "imgs", *(own["file_path"] for own in content))
    drawn = set()
    for seed in range(8):
        images = read_all("cuhk_pedes", raw, seed=seed).images
        splits = images.groupby("group")["split"].unique().map(tuple).to_dict()
        assert all(len(own) == 1 for own in splits.values())
        assert {own for own, split in splits.items() if split == ("test",)} == {"12", "9"}
        drawn |= {own for own, split in splits.items() if split == ("val",)}
    assert drawn == {"3", "5", "7"}
    assert "drawn from train by seed: 2 val" in capsys.readouterr().err


def test_ids_that_are_there_once_are_no_persons(raw, capsys):
    """Such as MS-COCO's numbers of photographs."""
    (raw / "reid_raw.json").unlink()
    content = [own | {"id": n, "caption_ko": "x"} for n, own in enumerate(records(splits=False))]
    write(raw, content, "mine.json")
    corpus = read_all("auto", raw, val_images=1, test_images=1)
    assert len(corpus.images) == 6
    said = capsys.readouterr().err
    assert "dataset: records_json, because of mine.json" in said
    assert "not read beside image and caption: caption_ko" in said
    said = refusal(read_all, "cuhk_pedes", raw)
    assert "no id is there twice" in said
    assert "set dataset: records_json and corpus.annotations: mine.json" in said
    assert len(read_all("records_json", raw, annotations="mine.json").images) == 6


def test_fields_that_are_not_read_are_named(raw, capsys):
    write(raw, [own | {"captions_zh": ["x"], "attributes": []} for own in records()])
    read_all("auto", raw)
    assert "not read beside image and caption: captions_zh, attributes" in capsys.readouterr().err
