"""CUHK-PEDES in the format of its two files, up to the ranks of persons."""

import json

import numpy as np
import pytest
from reader_cases import options, read_all, save_images

from pipeline.corpus.tables import in_split
from pipeline.readers.cuhk_pedes import read
from pipeline.runtime.errors import WorkbenchError
from pipeline.scores.ranks import retrieval_ranks

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
        "CUHK03/a.png#0", "CUHK03/a.png#1", "Market/c.png#0",
    ]  # fmt: skip
    assert captions["tokens"].tolist()[1] == ["the", "man", "'s", "t", "shirt", "is", "red"]
    assert captions["text"].tolist()[1] == "The man's T-shirt is red."
    assert captions["image_id"].value_counts()["cam_a/d.png"] == 3


def test_any_image_of_the_person_counts(raw):
    """From the file to the ranks."""
    corpus = read_all("cuhk_pedes", raw)
    images, captions = (in_split(table, "test") for table in (corpus.images, corpus.captions))
    group = images.set_index("image_id")["group"]
    assert captions["image_id"].tolist() == [
        "cam_b/b.png", "cam_a/d.png", "cam_a/d.png", "cam_a/d.png", "cam_a/e.png",
    ]  # fmt: skip
    scores = np.array(
        [
            [0.1, 0.5, 0.0, 0.0, 0.9],  # b, person 12: finds the caption of her other image
            [0.3, 0.9, 0.8, 0.2, 0.2],  # d, person 9
            [0.9, 0.0, 0.0, 0.7, 0.1],  # e, person 12
        ],
        np.float32,
    )
    ranks = retrieval_ranks(scores, images["group"], group[captions["image_id"]])
    assert ranks.i2t.tolist() == [1, 1, 1]
    assert ranks.t2i.tolist() == [1, 1, 1, 2, 1]
    alone = retrieval_ranks(scores, images["image_id"], captions["image_id"])
    assert alone.i2t.tolist() == [3, 1, 3]
    assert alone.t2i.tolist() == [3, 1, 1, 2, 3]


def test_both_files_give_the_same_captions(raw):
    with_splits = read(raw, raw, options())
    content = [{k: r[k] for k in ("id", "file_path", "captions", "split")} for r in records()]
    write(raw, content, "caption_all.json")
    again = read(raw, raw, options(annotations="caption_all.json"))
    assert again.captions.equals(with_splits.captions)
    assert again.images.equals(with_splits.images)


def test_the_file_with_splits_is_read_when_both_are_there(raw, capsys):
    write(raw, records(splits=False), "caption_all.json")
    corpus = read_all("cuhk_pedes", raw)
    assert corpus.images["split"].nunique() == 3
    assert "reading reid_raw.json, which has the splits" in capsys.readouterr().err


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
    (tmp_path / "imgs").mkdir()
    source = read(tmp_path, tmp_path, options())
    by_split = source.images.assign(person=source.images["group"].astype(int)).groupby("split")
    found = {split: sorted(set(rows["person"])) for split, rows in by_split}
    assert {split: len(ids) for split, ids in found.items()} == {
        "train": 3, "val": 1000, "test": 1000,
    }  # fmt: skip
    assert found["train"][-1] < found["val"][0]
    assert found["val"][-1] < found["test"][0]
    assert f"test from person {found['test'][0]} on" in source.remarks[0]
    write(tmp_path, [r for r in content if r["id"] not in found["train"]], "caption_all.json")
    with pytest.raises(WorkbenchError, match="2,000 persons leave none to train on"):
        read(tmp_path, tmp_path, options())


def test_folders_of_images(raw):
    prefixed = [r | {"file_path": f"imgs/{r['file_path']}"} for r in records()]
    write(raw, prefixed)
    assert read(raw, raw, options()).root == raw
    (raw / "imgs").rename(raw / "pictures")
    write(raw, records())
    with pytest.raises(WorkbenchError, match=r"no image folder"):
        read(raw, raw, options())
    assert len(read_all("cuhk_pedes", raw, images="pictures").images) == 6
    with pytest.raises(WorkbenchError, match="must be a path inside"):
        read(raw, raw, options(images="../raw/pictures"))


def test_persons_have_one_split(raw):
    content = records()
    content[2]["split"] = "test"
    del content[5]["split"]
    write(raw, content)
    with pytest.raises(WorkbenchError) as caught:
        read(raw, raw, options())
    assert "persons in more than one split, ids (1): 3" in caught.value.message
    assert "records without a split beside others with one (1): [5]" in caught.value.message
