"""Fisher vectors of several mixtures against their literal concatenation."""

import numpy as np
import pytest

from pipeline.runtime.errors import WorkbenchError
from pipeline.sentences.encoder import SentenceEncoder, read_encoder
from pipeline.sentences.encodings.fisher import JoinedFisher
from pipeline.sentences.fisher import TILE, FisherVector
from pipeline.sentences.mixtures import Mixture, fit_mixture
from pipeline.storage.groups import GroupFile, write_groups

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


def test_two_are_their_concatenation_at_unit_length(parts):
    joined, texts = JoinedFisher(parts), captions()
    found = joined.encode(texts)
    literal = np.concatenate([one.encode(texts) for one in parts.values()], axis=1, dtype=float)
    norms = np.linalg.norm(literal, axis=1, keepdims=True)
    expected = np.divide(literal, norms, out=np.zeros_like(literal), where=norms > 0)
    assert (found.shape, found.dtype) == ((len(texts), 32), np.float32)
    assert joined.dim == 32
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert not found[-2:].any()
    np.testing.assert_array_equal(joined.known(texts), parts["gmm"].known(texts))


def test_order_is_that_of_the_names(parts):
    texts = captions()
    turned = JoinedFisher(dict(reversed(parts.items()))).encode(texts)
    found = JoinedFisher(parts).encode(texts)
    np.testing.assert_array_equal(turned, np.roll(found, 16, axis=1))


def test_a_part_whose_gradients_cancel_leaves_the_other_at_unit_length():
    flat = np.zeros((1, 1), bool)
    shape = {name: np.ones((1, 1)) for name in ("variance", "median", "scale")}
    model = Mixture("gmm", np.ones(1), np.zeros((1, 1)), **shape, laplacian=flat)
    vectors = np.array([[1], [-1]], np.float32)  # of both the gradients cancel
    one, other = (
        FisherVector(["a", "b"], vectors, model),
        FisherVector(["a", "b"], 2 * vectors, model),
    )
    assert not one.encode([["a", "b"]]).any()
    found = JoinedFisher({"gmm": one, "hglmm": other}).encode([["a", "b"]])
    np.testing.assert_allclose(np.linalg.norm(found), 1, rtol=1e-6)


def test_one_alone_is_itself_and_its_file_is_the_same(parts):
    alone, texts = JoinedFisher({"hglmm": parts["hglmm"]}), captions()
    assert alone.encode(texts).tobytes() == parts["hglmm"].encode(texts).tobytes()
    state, own = alone.state(), parts["hglmm"].state()
    assert (state.settings, state.words, list(state.arrays)) == (
        own.settings,
        own.words,
        list(own.arrays),
    )


@pytest.mark.parametrize("kinds", [KINDS, KINDS[::-1], KINDS[1:]])
def test_a_file_gives_the_same_bytes_again(parts, kinds, tmp_path):
    made = SentenceEncoder("fisher", JoinedFisher({kind: parts[kind] for kind in kinds}), None)
    made.write(tmp_path / "one.h5")
    again = read_encoder(tmp_path / "one.h5")
    again.write(tmp_path / "two.h5")
    assert (tmp_path / "one.h5").read_bytes() == (tmp_path / "two.h5").read_bytes()
    assert again.encode(captions()).tobytes() == made.encode(captions()).tobytes()


@pytest.mark.parametrize("block", [1, 5, TILE])
def test_rows_do_not_depend_on_the_block(parts, block):
    joined, texts = JoinedFisher(parts), captions()
    cut = [joined.encode(texts[start : start + block]) for start in range(0, len(texts), block)]
    assert np.concatenate(cut).tobytes() == joined.encode(texts).tobytes()


@pytest.mark.parametrize(
    "change",
    [
        lambda arrays, attributes: arrays.pop("gmm.mean"),
        lambda arrays, attributes: arrays.update({"lmm.mean": np.ones((2, 4))}),
        lambda arrays, attributes: arrays.update({"mean": np.ones((2, 4))}),
        lambda arrays, attributes: arrays.update({"gmm.vectors": np.ones((9, 4), np.float32)}),
        lambda arrays, attributes: attributes.update(settings='{"kinds": []}'),
        lambda arrays, attributes: attributes.update(settings='{"kinds": ["gmm"]}'),
        lambda arrays, attributes: attributes.update(settings='{"kinds": 3}'),
        lambda arrays, attributes: attributes.update(settings='{"kind": "gmm"}'),
    ],
)
def test_files_whose_parts_do_not_fit_are_refused(parts, change, tmp_path):
    path = tmp_path / "encoder.h5"
    SentenceEncoder("fisher", JoinedFisher(parts), None).write(path)
    file = GroupFile(path)
    arrays = {name: file.array("arrays", name) for name in file.names("arrays")}
    groups = {"arrays": arrays, "words": {"words": file.texts("words", "words")}}
    attributes = dict(file.attributes)
    change(arrays, attributes)
    write_groups(path, groups, attributes)
    with pytest.raises(WorkbenchError, match=r"encoder\.h5|10 words, but vectors"):
        read_encoder(path)
