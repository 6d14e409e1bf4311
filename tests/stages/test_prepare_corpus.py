import json
import os
import shutil
from pathlib import Path

import pandas as pd
import pytest
from corpora import change_params
from PIL import Image

from pipeline.corpus.tables import load_boxes, load_captions, load_images, load_relevance

ROOT = Path(__file__).resolve().parents[2]
TINY = {"train": 5, "val": 2, "test": 3, "image_size": 48, "captions_per_image": 2}


@pytest.fixture
def workspace(tmp_path):
    shutil.copytree(ROOT / "data" / "raw" / "shapes", tmp_path / "data" / "raw" / "shapes")
    change_params(tmp_path, raw="data/raw/shapes", shapes=TINY)
    return tmp_path


def test_the_built_in_world_is_rendered_the_same_twice(workspace, run_stage):
    outputs = []
    for _ in range(2):
        shutil.rmtree(workspace / "data" / "corpus", ignore_errors=True)
        process = run_stage(
            "prepare_corpus",
            *("--raw", "data/raw/shapes", "--output", "data/corpus"),
            cwd=workspace,
        )
        files = sorted((workspace / "data" / "corpus").rglob("*"))
        outputs.append({path: path.read_bytes() for path in files if path.is_file()})
    assert process.stdout == (
        "corpus: train 5 images 10 captions, val 2 images 4 captions, test 3 images 6 captions; "
        "0 rejects\n"
    )
    assert len(outputs[0]) == 10 + 5
    assert outputs[0] == outputs[1]
    images = load_images(workspace / "data" / "corpus" / "images.parquet")
    captions = load_captions(workspace / "data" / "corpus" / "captions.parquet")
    assert images["path"].tolist()[0] == "data/corpus/images/train_00000.jpg"
    assert captions["image_id"].drop_duplicates().tolist() == images["image_id"].tolist()
    assert len(load_boxes(workspace / "data" / "corpus" / "boxes.parquet")) >= 20


def test_images_are_brought_to_the_disk_before_the_tables(workspace, run_stage, monkeypatch):
    corpus, there = workspace / "data/corpus", []
    monkeypatch.setattr(os, "sync", lambda: there.append(sorted(corpus.rglob("*.*"))))
    run_stage("prepare_corpus", *("--raw", "data/raw/shapes", "--output", corpus), cwd=workspace)
    assert [path.suffix for path in there[0]] == [".jpg"] * 10
    assert len(there) == 1


def test_a_list_of_positives_beside_the_raw_files_becomes_a_table(workspace, run_stage):
    arguments = ("prepare_corpus", "--raw", "data/raw/shapes", "--output", "data/corpus")
    run_stage(*arguments, cwd=workspace)
    captions = load_captions(workspace / "data/corpus/captions.parquet")
    before = (workspace / "data/corpus/images.parquet").read_bytes()
    assert load_relevance(workspace / "data/corpus/relevance.parquet").empty
    pairs = captions[["image_id", "caption_id"]].assign(grade=2.0)
    other = pairs.iloc[[0]].assign(caption_id=pairs["caption_id"].iloc[-1], grade=0.5)
    path = workspace / "data/raw/shapes/pairs.csv"
    pd.concat([other, pairs[1:]]).to_csv(path, index=False)
    change_params(workspace, corpus={"positives": "file", "positives_path": "pairs.csv"})
    process = run_stage(*arguments, cwd=workspace)
    assert "positives file: 20 pairs, 10 image queries and 19 caption queries" in process.stderr
    assert "false: 1 own pairs i2t, 0 own pairs t2i" in process.stderr
    found = load_relevance(workspace / "data/corpus/relevance.parquet")
    expected = [*pairs[1:].itertuples(index=False, name=None)]
    expected.insert(1, tuple(other.iloc[0]))
    assert [*found[pairs.columns].itertuples(index=False, name=None)] == expected
    assert (workspace / "data/corpus/images.parquet").read_bytes() == before


def test_bad_images_are_two_plain_lines_until_they_are_skipped(workspace, run_stage):
    raw = workspace / "flickr"
    (raw / "Images").mkdir(parents=True)
    records = [
        {
            "filename": f"{split}{n}.jpg",
            "split": split,
            "sentences": [{"raw": "A dog .", "sentid": f"{split}{n}", "tokens": ["a", "dog"]}],
        }
        for split in ("train", "val", "test")
        for n in range(2)
    ]
    for record in records:
        Image.new("L", (20, 10)).save(raw / "Images" / record["filename"])
    (raw / "dataset_flickr8k.json").write_text(json.dumps({"images": records}))
    (raw / "Images" / "val1.jpg").write_bytes(b"not a picture")
    change_params(workspace, dataset="karpathy_json", raw="flickr", detector={"weights": "random"})
    arguments = ("prepare_corpus", "--raw", "flickr", "--output", "out")
    process = run_stage(*arguments, cwd=workspace, check=False)
    assert process.returncode == 1
    *_, first, second = process.stderr.splitlines()
    assert first == (
        "error: flickr/Images: images and captions that cannot be used (1): val1.jpg (not an image "
        "(JPEG, PNG, WEBP, GIF, BMP, TIFF, PPM are read))"
    )
    assert second.startswith("mend the files, or set corpus.skip_bad_images: true")
    assert not (workspace / "out").exists()

    change_params(workspace, corpus={"skip_bad_images": True})
    process = run_stage(*arguments, cwd=workspace)
    assert "val 1 images 1 captions, test 2 images 2 captions; 1 rejects" in process.stdout
    rejects = (workspace / "out" / "rejects.tsv").read_text().splitlines()
    assert rejects[0] == "file\treason"
    assert rejects[1].startswith("val1.jpg\tnot an image")
    assert len(load_images(workspace / "out" / "images.parquet")) == 5
