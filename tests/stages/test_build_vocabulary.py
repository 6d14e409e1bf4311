import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpora import change_params
from gensim.models import KeyedVectors

from pipeline.corpus.tables import CAPTIONS
from pipeline.corpus.vocabulary import (
    Vocabulary,
    load_background,
    load_known_vectors,
    load_unlisted_vectors,
    load_word_vectors,
)
from pipeline.storage.features import FeatureFile

ROOT = Path(__file__).resolve().parents[2]
SPLITS = {
    "train": ["a red dog", "a red cat sleeps", "dog"],
    "val": ["a validated dog"],
    "test": ["a tested dog red red red"],
}


@pytest.fixture
def workspace(tmp_path):
    """A folder with params.yaml, a captions table, and a function that changes both."""

    def write(splits=SPLITS, **vocabulary):
        rows = [
            (f"{split}{i}", f"image{i}", split, text, text.split(), [])
            for split, texts in splits.items()
            for i, text in enumerate(texts)
        ]
        table = pd.DataFrame(rows, columns=CAPTIONS.names)
        pq.write_table(pa.Table.from_pandas(table, CAPTIONS), tmp_path / "captions.parquet")
        change_params(
            tmp_path,
            vocabulary={"dim": 8, "epochs": 2} | vocabulary,
            vse__word_dim=8,
            sentences__fisher={"ica": 8, "pca": 16},
        )
        return tmp_path

    return write


@pytest.fixture
def build(run_stage):
    def run(folder, output="vocabulary", check=True):
        options = ("--captions", "captions.parquet", "--output", output)
        return run_stage("build_vocabulary", *options, cwd=folder, check=check)

    return run


def test_only_training_words_and_equal_bytes_on_a_second_run(workspace, build):
    folder = workspace(min_count=1)
    process = build(folder)
    vocabulary = Vocabulary.load(folder / "vocabulary")
    assert vocabulary.tokens == ("<pad>", "<unk>", "a", "dog", "red", "cat", "sleeps")
    assert vocabulary.counts == (0, 0, 2, 2, 2, 1, 1)
    assert load_word_vectors(folder / "vocabulary").shape == (7, 8)
    assert "7 tokens from 3 training captions, vectors of 8 dimensions (train)" in process.stderr
    assert "100.0 % of the words" in process.stderr
    build(folder, "again")
    for name in ("vocabulary.json", "vectors.h5"):
        assert (folder / "vocabulary" / name).read_bytes() == (folder / "again" / name).read_bytes()


def test_vectors_from_a_file_and_known_words_only(workspace, build, tmp_path):
    kv = KeyedVectors(4)
    kv.add_vectors(["dog", "cat", "tested", "Red"], np.eye(4, dtype=np.float32))
    kv.save_word2vec_format(tmp_path / "v.bin", binary=True)
    settings = {"source": "word2vec_bin", "vectors": str(tmp_path / "v.bin")}
    folder = workspace(**settings, known_words_only=True, sentence_markers=True)
    process = build(folder)
    vocabulary = Vocabulary.load(folder / "vocabulary")
    assert vocabulary.tokens == ("<pad>", "<unk>", "<start>", "<end>", "dog", "cat")
    np.testing.assert_array_equal(load_word_vectors(folder / "vocabulary")[4:], np.eye(4)[:2])
    assert "40.0 % of the words and 37.5 % of their occurrences" in process.stderr
    assert "most frequent without: a (2), red (2), sleeps (1)" in process.stderr
    text = (folder / "vocabulary" / "vocabulary.json").read_text()
    made_from = json.loads(text)["made_from"]
    assert made_from["vectors"] == "v.bin"
    assert made_from["dim"] == 4
    assert str(tmp_path) not in text


def test_other_spellings_and_a_background(workspace, build, tmp_path):
    kv = KeyedVectors(8)
    kv.add_vectors(["dog", "Dog", "RED", "Paris", "Red", "rome"], np.eye(6, 8, dtype=np.float32))
    kv.save_word2vec_format(tmp_path / "v.txt", binary=False)
    settings = {"source": "word2vec_text", "vectors": str(tmp_path / "v.txt")}
    folder = workspace(**settings, other_cases=True, background=5)
    process = build(folder)
    words, vectors = load_known_vectors(folder / "vocabulary")
    assert words == ["dog", "red"]
    np.testing.assert_array_equal(vectors, np.eye(6, 8)[[0, 4]])
    assert "40.0 % of the words" in process.stderr
    assert "a vector (under another spelling: 1); most frequent without" in process.stderr
    assert "background: 2 of 5 other words; the file has no more" in process.stderr
    assert FeatureFile(folder / "vocabulary" / "background.h5").ids == ["Paris", "rome"]
    np.testing.assert_array_equal(load_background(folder / "vocabulary"), np.eye(6, 8)[[3, 5]])
    values = json.loads((folder / "vocabulary" / "vocabulary.json").read_text())
    assert values["made_from"]["other_cases"] is True
    assert values["made_from"]["background"] == 5
    build(folder, "again")
    for name in ("vocabulary.json", "vectors.h5", "background.h5"):
        assert (folder / "vocabulary" / name).read_bytes() == (folder / "again" / name).read_bytes()


def test_words_of_all_captions_are_known_beside_the_vocabulary(workspace, build, tmp_path):
    """Ids and vectors stay those of the training captions, and so do models that learn words."""
    kv = KeyedVectors(8)
    kv.add_vectors(["dog", "cat", "tested", "Validated"], np.eye(4, 8, dtype=np.float32))
    kv.save_word2vec_format(tmp_path / "v.bin", binary=True)
    settings = {"source": "word2vec_bin", "vectors": str(tmp_path / "v.bin"), "min_count": 2}
    process = build(workspace(**settings, words="all_captions", other_cases=True), "all")
    assert "unlisted: 3 of 4 other words of all captions have a vector" in process.stderr
    words, vectors = load_unlisted_vectors(tmp_path / "all")
    assert words == ["cat", "tested", "validated"]  # cat is too seldom to have an id
    np.testing.assert_array_equal(vectors, np.eye(4, 8)[1:])
    process = build(workspace(**settings, words="training", other_cases=True), "training")
    assert "unlisted" not in process.stderr
    assert load_unlisted_vectors(tmp_path / "training")[0] == []
    both = tmp_path / "all", tmp_path / "training"
    one, other = map(Vocabulary.load, both)
    assert (one.tokens, one.counts) == (other.tokens, other.counts)
    assert one.tokens == ("<pad>", "<unk>", "a", "dog", "red")
    np.testing.assert_array_equal(*map(load_word_vectors, both))


@pytest.mark.parametrize(
    ("splits", "vocabulary", "message"),
    [
        ({"val": ["a dog"]}, {}, "train"),
        (SPLITS, {"min_count": 9}, "error: vocabulary.min_count = 9: no word is seen that often"),
        ({"train": [""]}, {"min_count": 1}, "which have 0 words"),
    ],
)
def test_errors_are_plain_lines(workspace, build, splits, vocabulary, message):
    folder = workspace(splits, **vocabulary)
    process = build(folder, check=False)
    assert process.returncode == 1
    assert message in process.stderr
    assert not (folder / "vocabulary").exists()


def test_the_shell_does_not_choose_the_last_bits(workspace, run_process, monkeypatch):
    """The oldest kernels of OpenBLAS, which every processor of the family has, add up otherwise."""
    texts = ["a red dog sleeps", "a blue cat runs by a red dog"] * 20
    folder = workspace({"train": texts}, dim=64, epochs=5, min_count=1)
    for kernels in ("", "Prescott"):
        monkeypatch.setenv("OPENBLAS_CORETYPE", kernels)
        out = ("--captions", "captions.parquet", "--output", f"by{kernels}")
        run_process("build_vocabulary", *out, cwd=folder)
    vectors = [(folder / name / "vectors.h5").read_bytes() for name in ("by", "byPrescott")]
    assert vectors[0] == vectors[1]
