"""`python -m stages.encode_sentences`: the vectors of every encoding, repeats, kills, bad input."""

import json
import os
import shutil
import socket

import numpy as np
import pytest
from commands import invoke
from corpora import SHARDS, change_params, write_corpus
from text_networks import write_text_network
from tiny_inputs import write_params, write_vocabulary

from pipeline.corpus.tables import captions_digest, in_split, load_captions
from pipeline.corpus.vocabulary import load_word_vectors
from pipeline.features import feature_file as feature_files
from pipeline.features.data import SentenceVectors
from pipeline.features.feature_file import FeatureFile, FeatureWriter, write_features
from pipeline.features.sentences.encoder import BLOCK, encoder_of, read_encoder
from pipeline.features.sentences.fisher import FisherVector
from pipeline.features.sentences.mixtures import fit_mixture
from pipeline.features.sentences.word_space import fit_word_space
from pipeline.runtime import files
from pipeline.runtime.files import sha256_file
from stages.encode_sentences import main

WORDS = ["a", "red", "dog", "dogs", "cat", "sat", "blue", "ball", "runs", "two", "men", "bowl"]
ENCODINGS = ["mean_vector", "tfidf", "fisher"]
COUNTS = {"train": 30, "val": 6, "test": 8}
SCALES = {"gmm": 1.0, "hglmm": 10.0}  # Klein et al. 2015
PLAIN = {"tfidf__lemmatiser": "none", "tfidf__stop_words": "none"}


@pytest.fixture
def folder(tmp_path):
    """Captions and a vocabulary; the last test caption is of a word that is not in it."""
    write_captions(tmp_path)
    write_vocabulary(tmp_path, WORDS)
    return tmp_path


def write_captions(folder, counts=COUNTS, others=("zebra",)):
    """Captions of one to five words; others: of the last test caption."""
    random, rows = np.random.default_rng(0), []
    for split, count in counts.items():
        for i in range(count):
            words = [str(word) for word in random.choice(WORDS, random.integers(1, 6))]
            if (split, i) == ("test", count - 1):
                words = list(others)
            rows.append((f"{split}{i}#0", f"{split}{i}", split, " ".join(words), words))
    write_corpus(folder / "corpus", [], rows)


def set_params(folder, encoding, **changes):
    """changes: keys of the section `sentences`, `__` for a dot."""
    named = {f"sentences__{key}": value for key, value in changes.items()}
    write_params(folder, sentences__encoding=encoding, **named)


def options(output, encoder):
    inputs = ["--captions", "corpus/captions.parquet", "--vocabulary", "vocabulary"]
    return [*inputs, "--output", output, "--encoder", encoder]


def run(folder, output="sentences.h5", encoder="encoder.h5"):
    return invoke(main, folder, *options(output, encoder))


def encode(folder, encoding, **changes):
    """The rows, as float32, of a run that must succeed, and what it printed."""
    set_params(folder, encoding, **changes)
    code, printed = run(folder)
    assert code == 0, printed
    return FeatureFile(folder / "sentences.h5").load().astype(np.float32), printed


def captions(folder, split=None):
    table = load_captions(folder / "corpus/captions.parquet")
    return list((in_split(table, split) if split else table)["tokens"])


def put_background(folder):
    others = np.random.default_rng(2).normal(size=(9, 6)).astype(np.float32)
    path, names = folder / "vocabulary/background.h5", [f"other{i}" for i in range(9)]
    write_features(path, names, {"features": others}, {"source": "test"})
    return others


def contents(folder):
    return [(folder / name).read_bytes() for name in ("sentences.h5", "encoder.h5")]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_other_splits_do_not_touch_the_encoder(folder, encoding):
    encode(folder, encoding, **PLAIN)
    first = (folder / "encoder.h5").read_bytes()
    write_captions(folder, {"train": 30, "val": 9, "test": 4}, others=["tested", "bowl", "bowl"])
    encode(folder, encoding, **PLAIN)
    assert (folder / "encoder.h5").read_bytes() == first
    assert b"tested" not in first


@pytest.mark.parametrize("kinds", ["gmm", "hglmm", "gmm+hglmm"])
@pytest.mark.parametrize("background", [False, True])
def test_fisher_vectors_are_those_of_the_parts(folder, kinds, background):
    """Word space and mixtures are fitted on the background as well. Joined, each mixture has unit
    length, and so has the whole again (Klein et al. 2015)."""
    basis = load_word_vectors(folder / "vocabulary")[2:]
    if background:
        basis = np.concatenate([basis, put_background(folder)])
    rows, printed = encode(folder, "fisher", fisher__mixture=kinds)
    parts = []
    for kind in kinds.split("+"):
        space = fit_word_space(basis, 4, SCALES[kind], 0)
        mixture, _ = fit_mixture(space.apply(basis), kind, 2, 3, 0)
        parts.append(FisherVector(WORDS, space.apply(basis)[:12], mixture).encode(captions(folder)))
        assert f"{kind} of 2 centres on {len(basis)} word vectors: mean log-likelih" in printed
    expected = np.concatenate(parts, axis=1) / np.sqrt(np.float32(len(parts)))
    np.testing.assert_array_equal(rows, expected.astype(np.float16))
    assert rows.shape == (44, len(parts) * 2 * 2 * 4)
    np.testing.assert_allclose(np.linalg.norm(rows[:-1], axis=1), 1, atol=2e-3)


@pytest.mark.parametrize("encoding", ["mean_vector", "fisher"])
def test_unlisted_words_are_known_and_nothing_is_fitted_on_them(folder, encoding):
    vectors = put_background(folder)
    before, printed = encode(folder, encoding)
    assert "1 of 44 captions have no known word: test7#0" in printed
    path = folder / "vocabulary/unlisted.h5"
    write_features(path, ["zebra"], {"features": -vectors[:1]}, {"source": "test"})
    after, printed = encode(folder, encoding)
    assert "no known word" not in printed
    np.testing.assert_array_equal(after[:-1], before[:-1])
    if encoding == "mean_vector":
        np.testing.assert_allclose(after[-1], -vectors[0], rtol=1e-3)
    else:
        np.testing.assert_allclose(np.linalg.norm(after[-1]), 1, atol=2e-3)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_what_the_files_say_and_the_same_bytes_again(folder, encoding):
    rows, _ = encode(folder, encoding, **{f"{encoding}__pca": 3}, **PLAIN)
    table = load_captions(folder / "corpus/captions.parquet")
    file = FeatureFile(folder / "sentences.h5")
    said = file.attributes
    assert (file.ids, file.dtype()) == (table["caption_id"].tolist(), np.float16)
    assert (said["model"], said["layer"]) == (encoding, "pca 3")
    assert said["weights_sha256"] == sha256_file(folder / "encoder.h5")
    assert said["corpus_sha256"] == captions_digest(table)
    assert json.loads(said["params"]).keys() & set(ENCODINGS) == {encoding}
    made = read_encoder(folder / "encoder.h5")
    np.testing.assert_array_equal(made.encode(captions(folder)).astype(np.float16), rows)
    alone = made.encode([captions(folder)[7]])
    np.testing.assert_allclose(alone[0], rows[7], rtol=1e-3, atol=1e-6)
    # again, with other settings of the encodings that are not chosen
    others = {"fisher__iterations": 7, "tfidf__terms": 9, "mean_vector__pca": 2}
    others = {key: value for key, value in others.items() if not key.startswith(encoding)}
    set_params(folder, encoding, **{f"{encoding}__pca": 3}, **PLAIN | others)
    assert run(folder, "two/sentences.h5", "two/encoder.h5")[0] == 0
    assert contents(folder) == contents(folder / "two")
    assert os.listdir(folder / "data/.work/sentences") == []
    assert str(folder).encode() not in (folder / "sentences.h5").read_bytes()


def test_a_list_of_stop_words_is_told_by_its_content(folder):
    (folder / "none").write_text("a\ndog\n")  # not read: `none` is no path
    (folder / "stop.txt").write_text("a\ndog\n")
    found = {}
    for choice in ("none", "./none", "stop.txt"):
        encode(folder, "tfidf", tfidf__lemmatiser="none", tfidf__stop_words=choice)
        attributes = FeatureFile(folder / "sentences.h5").attributes
        chosen = json.loads(attributes["params"])["tfidf"]["stop_words"]
        found[choice] = chosen, (folder / "sentences.h5").read_bytes()
    assert found["none"][0] == "none"
    assert found["stop.txt"][0] == sha256_file(folder / "stop.txt")
    assert found["./none"] == found["stop.txt"]
    assert "dog" not in read_encoder(folder / "encoder.h5").encoding.state().words


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_captions_without_a_known_word_are_zeros_or_an_error_where_asked_for(folder, encoding):
    rows, printed = encode(folder, encoding, **{f"{encoding}__pca": 3}, **PLAIN)
    assert "1 of 44 captions have no known word: test7#0; their vectors are zero" in printed
    assert not rows[-1].any()
    assert rows[:-1].any(axis=1).all()
    set_params(folder, encoding, unknown="error", **PLAIN)
    code, printed = run(folder, "no.h5", "none.h5")
    assert code == 1
    assert "error: 1 of 44 captions have no known word: test7#0\n" in printed
    assert not list(folder.glob("no*.h5"))


@pytest.fixture
def network(folder):
    """The folder of a network of random weights, named in params.yaml."""
    pytest.importorskip("sentence_transformers", reason="the extra `text` is not installed")
    write_text_network(folder / "tiny", WORDS)
    set_params(folder, "transformer", transformer__model="tiny")
    return folder / "tiny"


def test_a_network_s_vectors_and_a_query_s(folder, network, monkeypatch):
    monkeypatch.setattr(socket.socket, "connect", lambda *_: pytest.fail("asked the internet"))
    assert run(folder)[0] == 0
    file = FeatureFile(folder / "sentences.h5")
    said, chosen = file.attributes, json.loads(file.attributes["params"])["transformer"]
    assert said["layer"] == "pooling mean of 12 tokens"
    assert said["weights_sha256"] == sha256_file(folder / "encoder.h5")
    assert (chosen["model"], len(chosen["sha256"])) == ("tiny", 64)
    first = contents(folder)
    network.rename(folder / "moved")  # search, serve and exports need the encoder's file alone
    kind = SentenceVectors(file.path)
    kind.encoder = encoder_of(file, folder / "encoder.h5", None)
    for row, words in enumerate(captions(folder)[:5]):
        vector = kind.encode([words])
        np.testing.assert_array_equal(vector[0].half(), file.load()[row])
    assert "tiny: no such folder, and no name" in run(folder)[1]
    # the weights count, the place of the folder does not
    (folder / "elsewhere").mkdir()
    (folder / "moved").rename(folder / "elsewhere/tiny")
    set_params(folder, "transformer", transformer__model="elsewhere/tiny")
    assert run(folder)[0] == 0
    assert first == contents(folder)
    write_text_network(folder / "elsewhere/tiny", WORDS, seed=1)
    assert run(folder)[0] == 0
    other = json.loads(FeatureFile(folder / "sentences.h5").attributes["params"])["transformer"]
    assert other["sha256"] != chosen["sha256"]


class StoppedError(Exception):
    """What ends a run in the middle."""


@pytest.fixture(scope="module")
def long(tmp_path_factory):
    """Inputs of three blocks of captions, and the bytes of a run that nothing disturbed."""
    folder = tmp_path_factory.mktemp("long")
    write_captions(folder, {"train": 2 * BLOCK, "val": BLOCK // 4, "test": BLOCK // 4})
    write_vocabulary(folder, WORDS)
    set_params(folder, "fisher", fisher__pca=5)
    assert run(folder)[0] == 0
    return folder, contents(folder)


@pytest.mark.slow
def test_shards_change_no_byte(long, tmp_path, run_process):
    """All in processes of their own, which compute as each other and not as this one."""
    shutil.copytree(long[0], tmp_path, dirs_exist_ok=True)
    run_process("encode_sentences", *options("whole.h5", "whole_encoder.h5"), cwd=tmp_path)
    change_params(tmp_path, runtime=SHARDS)
    words = options("sharded.h5", "sharded_encoder.h5")
    done = run_process("encode_sentences", *words, cwd=tmp_path)
    assert "3 shards, 0 of them finished before" in done.stderr
    for name in (".h5", "_encoder.h5"):
        whole = (tmp_path / f"whole{name}").read_bytes()
        assert (tmp_path / f"sharded{name}").read_bytes() == whole


# Files are published in this order: the fitted encoder, an empty feature file, a mask after each
# of 3 blocks of captions (whose writing is "rows") and one at the end, the features, the encoder.
@pytest.mark.parametrize(
    ("point", "fits", "rows"),
    [
        ("publish 1", True, [0, BLOCK, 2 * BLOCK]),
        ("publish 2", False, [0, BLOCK, 2 * BLOCK]),
        ("rows 3", False, [2 * BLOCK]),
        ("publish 7", False, []),
        ("publish 8", False, [0, BLOCK, 2 * BLOCK]),
    ],
)
def test_interrupted_it_repeats_no_finished_work(long, tmp_path, monkeypatch, point, fits, rows):
    inputs, expected = long
    shutil.copytree(inputs, tmp_path, dirs_exist_ok=True)
    publish, write, seen, written = files.publish, FeatureWriter.write, [], []

    def step(kind):
        seen.append(kind)
        if f"{kind} {seen.count(kind)}" == point:
            raise StoppedError

    def publishing(finished, target):
        step("publish")
        publish(finished, target)

    def writing(writer, numbers, **arrays):
        step("rows")
        written.append(numbers[0])
        write(writer, numbers, **arrays)
        writer.flush()  # every block is made safe at once, not every few seconds

    for module in (files, feature_files):
        monkeypatch.setattr(module, "publish", publishing)
    monkeypatch.setattr(FeatureWriter, "write", writing)
    for name in ("sentences.h5", "encoder.h5"):
        (tmp_path / name).unlink()
    with pytest.raises(StoppedError):
        run(tmp_path)
    assert not (tmp_path / "encoder.h5").exists()
    written.clear()
    point = ""
    code, printed = run(tmp_path)
    assert (code, written, "hglmm of 2 centres" in printed) == (0, rows, fits)
    assert expected == contents(tmp_path)
    assert os.listdir(tmp_path / "data/.work/sentences") == []
