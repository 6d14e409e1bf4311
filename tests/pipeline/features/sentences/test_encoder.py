"""Sentence encoders as files: what is read back encodes as before, and damage is a plain error."""

import lemminflect
import numpy as np
import pytest
from commands import refusal
from sklearn.decomposition import PCA

from pipeline.features.groups import GroupFile, write_groups
from pipeline.features.sentences.encoder import SentenceEncoder, project, read_encoder
from pipeline.features.sentences.encodings.fisher import JoinedFisher
from pipeline.features.sentences.encodings.mean_vector import MeanVector
from pipeline.features.sentences.encodings.tfidf import fit_tfidf
from pipeline.features.sentences.fisher import FisherVector
from pipeline.features.sentences.lemmas import lemmatiser
from pipeline.features.sentences.mixtures import fit_mixture

WORDS = ["a", "red", "dog", "dogs", "cat", "sat", "blue", "ball", "runs", "two", "men", "bowl"]
NAMES = ["mean_vector", "tfidf", "fisher"]
UNKNOWN = ["zebra", "yak"]
PCA_KEY = "sentences.fisher.pca"


def captions(count=40, seed=0):
    random = np.random.default_rng(seed)
    return [list(random.choice(WORDS, random.integers(1, 6))) for _ in range(count)]


def encoding(name):
    if name == "tfidf":
        return fit_tfidf(captions(), 8, lemmatiser("lemminflect", None), frozenset({"a"}))
    vectors = np.random.default_rng(1).standard_normal((len(WORDS), 5), dtype=np.float32)
    if name == "mean_vector":
        return MeanVector(WORDS, vectors)
    parts = {
        kind: FisherVector(WORDS, vectors, fit_mixture(vectors, kind, 2, 3, 0)[0])
        for kind in ("hglmm", "gmm")
    }
    return JoinedFisher(parts) if name == "joined" else parts["hglmm"]


def encoder(name, components=None):
    made = encoding(name)
    # captions without a known word do not count in the projection
    texts = [UNKNOWN, *captions(), []]
    projection = project(made, texts, components, "pca") if components else None
    return SentenceEncoder(name.replace("joined", "fisher"), made, projection)


@pytest.mark.parametrize("components", [None, 3])
@pytest.mark.parametrize("name", [*NAMES, "joined"])
def test_what_is_read_back_is_the_same_encoder(tmp_path, name, components):
    first = encoder(name, components)
    first.write(tmp_path / "one.h5")
    second = read_encoder(tmp_path / "one.h5")
    second.write(tmp_path / "two.h5")
    assert (tmp_path / "one.h5").read_bytes() == (tmp_path / "two.h5").read_bytes()
    new = [*captions(30, seed=5), UNKNOWN, ["dog", "yak"], []]
    found = second.encode(new)
    np.testing.assert_array_equal(found, first.encode(new))
    assert found.dtype == np.float32
    assert found.shape == (33, second.dim)
    assert second.dim == (components or first.encoding.dim)
    assert str(second) == str(first)
    assert second.name == first.name
    np.testing.assert_array_equal(second.encoding.known(new), first.encoding.known(new))


@pytest.mark.parametrize("name", NAMES)
def test_projected_rows_are_scikit_learns_and_zero_rows_stay_zero(name):
    projected, rows = encoder(name, 3), encoding(name).encode(captions())
    oracle = PCA(3, svd_solver="full").fit(rows[rows.any(axis=1)].astype(np.float64))
    new = [["dog", "sat"], UNKNOWN, ["red", "dogs", "dogs"], []]
    found = projected.encode(new)
    expected = oracle.transform(encoding(name).encode(new).astype(np.float64))
    signs = np.sign(np.sum(found[[0, 2]] * expected[[0, 2]], axis=0))
    np.testing.assert_allclose(found[[0, 2]], (expected * signs)[[0, 2]], atol=1e-5)
    assert not found[[1, 3]].any()
    assert np.abs(expected[1]).max() > 1e-2  # what the projection alone would make of zeros
    share = 100 * oracle.explained_variance_ratio_.sum()
    assert f"{share:.1f} % of the variance" in str(projected)


@pytest.mark.parametrize(
    ("texts", "components", "words"),
    [
        (captions(4), 4, "4 training captions with known words and 5 dimensions allow at most 3"),
        (captions(9), 6, "9 training captions with known words and 5 dimensions allow at most 5"),
    ],
)
def test_too_many_components(texts, components, words):
    said = refusal(project, encoding("mean_vector"), texts, components, PCA_KEY)
    assert f"{PCA_KEY} = {components}: {words} components" in said
    assert said.endswith(f"\nlower {PCA_KEY} or set it to none")


@pytest.mark.parametrize(
    "changes",
    [
        {"arrays/weights": np.ones(7)},
        {"settings": "{"},
        {"encoding": "tfidf"},
    ],
)
def test_parts_that_do_not_fit_each_other_are_refused(tmp_path, changes):
    """The digests are right: such a file was made by another program."""
    path = tmp_path / "encoder.h5"
    encoder("fisher", 3).write(path)
    file = GroupFile(path)
    attributes = dict(file.attributes)
    groups = {
        group: {name: file.array(group, name) for name in layouts}
        for group, layouts in file.layouts.items()
    }
    groups["words"]["words"] = file.texts("words", "words")
    for key, value in changes.items():
        group, _, dataset = key.rpartition("/")
        (groups[group] if group else attributes)[dataset] = value
    write_groups(path, groups, attributes)
    assert "not a sentence encoder" in refusal(read_encoder, path)
    write_groups(path, groups, attributes | {"encoding": "bert", "settings": "{}"})
    assert "'bert': allowed are" in refusal(read_encoder, path)
    write_groups(path, {"val": {"ranks": np.ones(3)}}, {"model": "vse"})
    assert "not a sentence encoder" in refusal(read_encoder, path)


def test_another_lemmatiser_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "encoder.h5"
    encoder("tfidf").write(path)
    monkeypatch.setattr(lemminflect, "__version__", "0.0.1")
    assert ", but here it is lemminflect 0.0.1" in refusal(read_encoder, path)
