"""`python -m stages.prepare_corpus`: scenes rendered, positives, bad images."""

import os
import shutil

import pandas as pd
import pytest
from corpora import ROOT, change_params
from reader_cases import save_images

from pipeline.corpus.dataset.read import read_corpus
from pipeline.corpus.tables import RELEVANCE, load_captions, load_images, read_table
from pipeline.corpus.words.matrix import count_words, frequent_words

TINY = {"train": 5, "val": 2, "test": 3, "image_size": 48, "captions_per_image": 2}
SHAPES = ("prepare_corpus", "--raw", "data/raw/shapes", "--output", "data/corpus")


@pytest.fixture
def workspace(tmp_path):
    shutil.copytree(ROOT / "data" / "raw" / "shapes", tmp_path / "data" / "raw" / "shapes")
    change_params(tmp_path, raw="data/raw/shapes", shapes=TINY)
    return tmp_path


def test_the_built_in_world_is_rendered_the_same_twice(workspace, run_stage, monkeypatch):
    corpus, outputs, there = workspace / "data/corpus", [], []
    monkeypatch.setattr(os, "sync", lambda: there.append(sorted(corpus.rglob("*.*"))))
    for _ in range(2):
        shutil.rmtree(corpus, ignore_errors=True)
        process = run_stage(*SHAPES, cwd=workspace)
        files = [path for path in sorted(corpus.rglob("*")) if path.is_file()]
        outputs.append({path: path.read_bytes() for path in files})
        assert [path.suffix for path in there.pop()] == [".jpg"] * 10  # on the disk, no table yet
        assert not there
    assert process.stdout == (
        "corpus: train 5 images 10 captions, val 2 images 4 captions, test 3 images 6 captions; "
        "0 rejects\n"
    )
    assert len(outputs[0]) == 10 + 5
    assert outputs[0] == outputs[1]
    images = load_images(corpus / "images.parquet")
    assert images["path"].tolist()[0] == "data/corpus/images/train_00000.jpg"


def test_a_photograph_that_comes_while_the_others_are_read_is_no_silent_loss(
    workspace, run_stage, monkeypatch
):
    """DVC looks at the folder when the stage has ended, and would take the corpus for all of it."""

    def read_and_copy(*arguments):
        corpus = read_corpus(*arguments)
        save_images(workspace / "data/raw/shapes", "late.jpg")
        return corpus

    monkeypatch.setattr("stages.prepare_corpus.read_corpus", read_and_copy)
    process = run_stage(*SHAPES, cwd=workspace, check=False)
    assert process.returncode == 1
    assert "1 file came, went or changed while it was read: late.jpg\n" in process.stderr
    assert "corpus: train" not in process.stdout


def test_a_list_of_positives_beside_the_raw_files_becomes_a_table(workspace, run_stage):
    run_stage(*SHAPES, cwd=workspace)
    captions = load_captions(workspace / "data/corpus/captions.parquet")
    before = (workspace / "data/corpus/images.parquet").read_bytes()
    assert read_table(workspace / "data/corpus/relevance.parquet", RELEVANCE).empty
    pairs = captions[["image_id", "caption_id"]].assign(grade=2.0)
    other = pairs.iloc[[0]].assign(caption_id=pairs["caption_id"].iloc[-1], grade=0.5)
    path = workspace / "data/raw/shapes/pairs.csv"
    pd.concat([other, pairs[1:]]).to_csv(path, index=False)
    change_params(workspace, corpus={"positives": "file", "positives_path": "pairs.csv"})
    process = run_stage(*SHAPES, cwd=workspace)
    assert "positives file: 20 pairs, 10 image queries and 19 caption queries" in process.stderr
    assert "false: 1 own pairs i2t, 0 own pairs t2i" in process.stderr
    found = read_table(workspace / "data/corpus/relevance.parquet", RELEVANCE)
    expected = [*pairs[1:].itertuples(index=False, name=None)]
    expected.insert(1, tuple(other.iloc[0]))
    assert [*found[pairs.columns].itertuples(index=False, name=None)] == expected
    assert (workspace / "data/corpus/images.parquet").read_bytes() == before


def test_bad_images_are_two_plain_lines_until_they_are_skipped(workspace, run_stage):
    raw, names = workspace / "photos", [f"{number}.jpg" for number in range(6)]
    save_images(raw, *names)
    (raw / "captions.txt").write_text("image,caption\n" + "".join(f"{n},A dog .\n" for n in names))
    (raw / "3.jpg").write_bytes(b"not a picture")
    held_out = {"val_images": 1, "test_images": 2}
    change_params(workspace, dataset="captions_csv", raw="photos", corpus=held_out)
    change_params(workspace, detector={"weights": "random"})
    arguments = ("prepare_corpus", "--raw", "photos", "--output", "out")
    process = run_stage(*arguments, cwd=workspace, check=False)
    *_, first, second = process.stderr.splitlines()
    assert first.startswith("error: photos: images and captions that cannot be used (1): 3.jpg")
    assert second.startswith("mend the files, or set corpus.skip_bad_images: true")
    assert not (workspace / "out").exists()
    change_params(workspace, corpus={"skip_bad_images": True})
    assert "; 1 reject\n" in run_stage(*arguments, cwd=workspace).stdout
    assert len(load_images(workspace / "out" / "images.parquet")) == 5
    assert [path.name for path in (workspace / "out" / "images").iterdir()] == ["where.txt"]


def test_captions_without_blanks_make_words_and_the_stage_says_the_script(workspace, run_stage):
    raw, names = workspace / "photos", [f"{number}.jpg" for number in range(6)]
    save_images(raw, *names)
    lines = [f"{name},{text}" for name in names for text in ("一只黑狗在河边", "一只白猫在墙边")]
    (raw / "captions.txt").write_text("image,caption\n" + "\n".join(lines), encoding="utf-8")
    change_params(
        workspace,
        dataset="captions_csv",
        raw="photos",
        corpus={"val_images": 1, "test_images": 2},
        detector={"weights": "random"},
    )
    process = run_stage("prepare_corpus", "--raw", "photos", "--output", "out", cwd=workspace)
    assert "captions: Han script, 7.0 words each; a character is a word" in process.stderr
    assert "warning" not in process.stderr
    captions = load_captions(workspace / "out" / "captions.parquet")
    assert list(captions["tokens"][0]) == ["一", "只", "黑", "狗", "在", "河", "边"]
    words = frequent_words(count_words(captions["tokens"]), min_count=3)
    assert words[:4] == ["一", "只", "在", "边"]
