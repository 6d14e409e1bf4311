"""Fisher vectors of several mixtures against their literal concatenation."""

import numpy as np
import pytest

from pipeline.sentences.encoder import SentenceEncoder, read_encoder
from pipeline.sentences.encodings.fisher import JoinedFisher
from pipeline.sentences.fisher import TILE, FisherVector
from pipeline.sentences.mixtures import Mixture, fit_mixture

WORDS = list("abcdefghij")
KINDS = ["gmm", "hglmm"]


def part(kind, scale=1.0):
    vectors = np.random.default_rng(1).standard_normal((len(WORDS), 4), dtype=np.float32) * scale
    return FisherVector(WORDS, vectors, fit_mixture(vectors, kind, 2, 3, 0)[0])


@pytest.fixture
def parts():
    return {"gmm": part("gmm"), "hglmm": part("hglmm", 10.0)}


def captions(count=2 * TILE + 3):
    random = np.random.default_rng(2)
    found = [list(random.choice([*WORDS, "zebra"], random.integers(1, 6))) for _ in range(count)]
    return [*found, ["zebra"], []]


def test_a_part_whose_gradients_cancel_leaves_the_other_at_unit_length():
    flat = np.zeros((1, 1), bool)
    shape = {name: np.ones((1, 1)) for name in ("variance", "median", "scale")}
    model = Mixture("gmm", np.ones(1), np.zeros((1, 1)), **shape, laplacian=flat)
    vectors = np.array([[1], [-1]], np.float32)  # of both the gradients cancel
    one, other = (FisherVector(["a", "b"], scale * vectors, model) for scale in (1, 2))
    assert not one.encode([["a", "b"]]).any()
    found = JoinedFisher({"gmm": one, "hglmm": other}).encode([["a", "b"]])
    np.testing.assert_allclose(np.linalg.norm(found), 1, rtol=1e-6)


@pytest.mark.parametrize("kinds", [KINDS, KINDS[::-1], KINDS[1:]])
def test_a_file_gives_the_same_bytes_again(parts, kinds, tmp_path):
    made = SentenceEncoder("fisher", JoinedFisher({kind: parts[kind] for kind in kinds}), None)
    made.write(tmp_path / "one.h5")
    again = read_encoder(tmp_path / "one.h5")
    again.write(tmp_path / "two.h5")
    assert (tmp_path / "one.h5").read_bytes() == (tmp_path / "two.h5").read_bytes()
    assert again.encode(captions()).tobytes() == made.encode(captions()).tobytes()
    if len(kinds) == 1:
        assert again.encode(captions()).tobytes() == parts[kinds[0]].encode(captions()).tobytes()
