"""What every sentence encoding promises, fitted as its stage fits it: a caption's vector is its
own, what is written is read back, and equal inputs give equal bytes.

An encoding that is added is tested with its default settings, or with those in `SMALL`.
"""

import importlib.util

import numpy as np
import pandas as pd
import pytest
from text_networks import write_text_network
from tiny_inputs import PATHS, WORDS, write_vocabulary

from pipeline.features.sentences.encoder import fit_encoder, read_encoder
from pipeline.features.sentences.encodings import ENCODINGS
from pipeline.features.sentences.params import SentencesConfig

SMALL = {
    "fisher": {"centres": 2, "ica": 4, "iterations": 3, "pca": "none"},
    "tfidf": {"lemmatiser": "none", "pca": "none"},
    "transformer": {"model": "network", "batch_size": 3},
}
NEEDS = {"transformer": "sentence_transformers"}  # packages of an extra
UNKNOWN = ["犬", "猫"]


def captions(count, seed):
    random = np.random.default_rng(seed)
    return [list(random.choice(WORDS, random.integers(1, 6))) for _ in range(count)]


TRAINING = captions(60, 0)
NEW = [*captions(30, 1), UNKNOWN, [*TRAINING[0], *UNKNOWN], ["猫"]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encodings")
    write_vocabulary(folder, WORDS)
    if importlib.util.find_spec("sentence_transformers"):
        write_text_network(folder / "network", WORDS)
    return folder


def fitted(folder, name):
    values = dict(SMALL.get(name, {}))
    if "model" in values:
        values["model"] = str(folder / values["model"])
    kinds = SentencesConfig.model_fields
    section = {name: kinds[name].annotation(**values)} if name in kinds else {}
    settings = SentencesConfig(encoding=name, **section)
    rows = {"caption_id": map(str, range(len(TRAINING))), "tokens": TRAINING, "split": "train"}
    return fit_encoder(settings, folder / PATHS["text"], pd.DataFrame(rows), seed=0)


@pytest.fixture(params=list(ENCODINGS))
def encoder(request, folder):
    name = request.param
    if name in NEEDS:
        pytest.importorskip(NEEDS[name], reason="the extra `text` is not installed")
    return fitted(folder, name)


def test_a_caption_s_vector_is_its_own(encoder):
    """Whatever stands beside it; zeros without a known word, and unknown words do not count."""
    vectors, known = encoder.encode(NEW), encoder.encoding.known(NEW)
    assert vectors.shape == (len(NEW), encoder.dim)
    assert vectors.dtype == np.float32
    assert np.isfinite(vectors).all()
    assert known.shape == (len(NEW),)
    assert [count == 0 for count in known] == [words in (UNKNOWN, ["猫"]) for words in NEW]
    assert [not row.any() for row in vectors] == [count == 0 for count in known]
    for row, words in zip(vectors, NEW, strict=True):
        np.testing.assert_allclose(encoder.encode([words])[0], row, rtol=1e-4, atol=2e-6)
    np.testing.assert_allclose(encoder.encode([TRAINING[0]])[0], vectors[-2], rtol=1e-4, atol=2e-6)
    assert len(np.unique(vectors.round(4), axis=0)) > 10  # it tells captions apart


def test_what_is_read_back_gives_the_same_bytes(encoder, tmp_path):
    encoder.write(tmp_path / "one.h5")
    again = read_encoder(tmp_path / "one.h5")
    again.write(tmp_path / "two.h5")
    assert (tmp_path / "one.h5").read_bytes() == (tmp_path / "two.h5").read_bytes()
    np.testing.assert_array_equal(again.encode(NEW), encoder.encode(NEW))
    np.testing.assert_array_equal(again.encoding.known(NEW), encoder.encoding.known(NEW))
    assert (again.name, again.dim, again.layer) == (encoder.name, encoder.dim, encoder.layer)


def test_equal_captions_and_settings_give_equal_bytes(encoder, folder, tmp_path):
    encoder.write(tmp_path / "one.h5")
    fitted(folder, encoder.name).write(tmp_path / "two.h5")
    assert (tmp_path / "one.h5").read_bytes() == (tmp_path / "two.h5").read_bytes()
