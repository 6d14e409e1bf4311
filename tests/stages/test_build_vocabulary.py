"""`python -m stages.build_vocabulary`: words and vectors, trained or from a file, and bad input."""

import json

import numpy as np
import pytest
from corpora import change_params, write_corpus
from gensim.models import KeyedVectors
from transformer_files import write_model

from pipeline.corpus.vocabulary import (
    Vocabulary,
    load_known_vectors,
    load_unlisted_vectors,
    load_word_vectors,
)
from pipeline.runtime.files import sha256_file

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
            (f"{split}{i}", f"image{i}", split, text, text.split())
            for split, texts in splits.items()
            for i, text in enumerate(texts)
        ]
        write_corpus(tmp_path / "corpus", [], rows)
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
        options = ("--captions", "corpus/captions.parquet", "--output", output)
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


def put_vectors(folder, words, kind="word2vec_bin"):
    table = KeyedVectors(8)
    table.add_vectors(words, np.eye(len(words), 8, dtype=np.float32))
    table.save_word2vec_format(folder / "v.bin", binary=kind == "word2vec_bin")
    return {"source": kind, "vectors": str(folder / "v.bin")}


def test_vectors_from_a_file_and_known_words_only(workspace, build, tmp_path):
    settings = put_vectors(tmp_path, ["dog", "cat", "tested", "Red"])
    folder = workspace(**settings, known_words_only=True, sentence_markers=True)
    process = build(folder)
    vocabulary = Vocabulary.load(folder / "vocabulary")
    assert vocabulary.tokens == ("<pad>", "<unk>", "<start>", "<end>", "dog", "cat")
    np.testing.assert_array_equal(load_word_vectors(folder / "vocabulary")[4:], np.eye(4, 8)[:2])
    assert "40.0 % of the words and 37.5 % of their occurrences" in process.stderr
    assert "most frequent without: a (2), red (2), sleeps (1)" in process.stderr
    text = (folder / "vocabulary" / "vocabulary.json").read_text()
    assert json.loads(text)["made_from"]["vectors"] == "v.bin"
    assert str(tmp_path) not in text


def test_vectors_of_a_transformer_keep_its_digests(workspace, build, tmp_path):
    write_model(tmp_path / "tiny", "BPE", ["red", "dog"])
    process = build(workspace(source="transformer", vectors=str(tmp_path / "tiny")))
    assert "40.0 % of the words and 50.0 % of their occurrences" in process.stderr
    made = json.loads((tmp_path / "vocabulary" / "vocabulary.json").read_text())["made_from"]
    files = ("tokenizer.json", "model.safetensors")
    assert made["sha256"] == {name: sha256_file(tmp_path / "tiny" / name) for name in files}
    workspace(source="transformer", vectors="nobody/nothing")
    assert "hf download nobody/nothing" in build(tmp_path, check=False).stderr


def test_other_spellings_and_a_background(workspace, build, tmp_path):
    words = ["dog", "Dog", "RED", "Paris", "Red", "rome"]
    settings = put_vectors(tmp_path, words, "word2vec_text")
    folder = workspace(**settings, other_cases=True, background=5)
    process = build(folder)
    words, vectors = load_known_vectors(folder / "vocabulary")
    assert words == ["dog", "red"]
    np.testing.assert_array_equal(vectors, np.eye(6, 8)[[0, 4]])
    assert "a vector (under another spelling: 1); most frequent without" in process.stderr
    assert "background: 2 of 5 other words; the file has no more" in process.stderr
    values = json.loads((folder / "vocabulary" / "vocabulary.json").read_text())
    assert (values["made_from"]["other_cases"], values["made_from"]["background"]) == (True, 5)


def test_words_of_all_captions_are_known_beside_the_vocabulary(workspace, build, tmp_path):
    """Ids and vectors stay those of the training captions, and so do models that learn words."""
    settings = put_vectors(tmp_path, ["dog", "cat", "tested", "Validated"]) | {"min_count": 2}
    process = build(workspace(**settings, words="all_captions", other_cases=True), "all")
    assert "unlisted: 3 of 4 other words of all captions have a vector" in process.stderr
    words, vectors = load_unlisted_vectors(tmp_path / "all")
    assert words == ["cat", "tested", "validated"]  # cat is too seldom to have an id
    np.testing.assert_array_equal(vectors, np.eye(4, 8)[1:])
    process = build(workspace(**settings, words="training", other_cases=True), "training")
    assert "unlisted" not in process.stderr
    assert load_unlisted_vectors(tmp_path / "training")[0] == []
    one, other = (Vocabulary.load(tmp_path / name) for name in ("all", "training"))
    assert (one.tokens, one.counts) == (other.tokens, other.counts)


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
