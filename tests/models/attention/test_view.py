"""What is seen of SCAN and DP-RNN in one pair: it must be what their similarity was made from."""

import pytest
import torch
from dp_rnn_cases import PAPER, enter
from torch.nn.functional import normalize

from models.dp_rnn.model import DPRNN, DPRNNConfig
from models.scan import SCAN, SCANConfig
from pipeline.features.split import Regions, Words

R, T = 5, 4  # with padding


def pair(regions, words):
    torch.manual_seed(0)
    counts, lengths = torch.tensor([regions]), torch.tensor([words])
    tokens = torch.randint(1, 9, (1, T)) * (torch.arange(T) < words)
    inside = torch.arange(R)[None, :, None] < regions
    features, positions = torch.randn(1, R, 5) * inside, torch.rand(1, R, 4) * inside
    return Regions(features, positions, counts), Words(tokens[:, :words], lengths)


def drawn(kind, **options):
    torch.manual_seed(4)
    defaults = {"word_dim": 4, "dim": 6} | (PAPER if kind is DPRNN else {})
    config = (DPRNNConfig if kind is DPRNN else SCANConfig)(**defaults | options)
    model = kind(config, image_dim=5, vocabulary_size=9).eval()
    for name, parameter in model.named_parameters():
        torch.nn.init.normal_(parameter, std=0.1 if "bias" in name else 1.5)
    return model


def from_weights(queries, contexts, weights):
    """Cosine of each query (Q, K) with its attended context, from weights (Q, C)."""
    return torch.cosine_similarity(queries, weights @ contexts, dim=1)


@pytest.mark.parametrize("direction", ["t2i", "i2t"])
@pytest.mark.parametrize(("regions", "words"), [(5, 4), (3, 2), (1, 1)])
def test_scan(direction, regions, words):
    model, (image, caption) = drawn(SCAN, direction=direction), pair(regions, words)
    view = model.attention(image, caption)
    with torch.no_grad():
        left, right = model.embed_images(image), model.embed_captions(caption)
        objects, said = left.vectors[0, :regions], right.vectors[0, :words]
        assert view.score == pytest.approx(model.score(left, right).item(), abs=1e-6)
    assert view.weights.shape == (words, regions)
    assert regions < 3 or view.weights.std() > 0.02  # even weights would hide mistakes
    if direction == "t2i":
        cosines = from_weights(said, objects, view.weights)
    else:
        cosines = from_weights(objects, said, view.weights.T)
    assert view.score == pytest.approx(cosines.mean().item(), abs=1e-5)
    assert view.order is None
    assert view.word_weights is None


@pytest.mark.parametrize("orientation", ["word", "object"])
@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("vectors", ["raw", "unit"])
@pytest.mark.parametrize(("regions", "words"), [(5, 4), (3, 2)])
def test_dp_rnn(orientation, recurrent, vectors, regions, words):
    model = drawn(DPRNN, orientation=orientation, vectors=vectors)
    sides = pair(regions, words)
    enter(model, "all" if recurrent else "matching")
    (tower,) = model.networks
    view = model.attention(*sides)
    with torch.no_grad():
        image, caption = model.embed_images(sides[0])[0], model.embed_captions(sides[1])[0]
        objects, said = image.vectors[0, :regions], caption.vectors[0, :words]
        if recurrent:
            # read in order by the library's own network, then put back where they came from
            order = view.order
            assert sorted(order.tolist()) == list(range(regions))
            both, _ = tower.recurrent.gru(objects[order][None])
            read = both.unflatten(-1, (2, -1)).mean(2)[0]
            read = read if vectors == "raw" else normalize(read, dim=1)
            objects = torch.empty_like(read).index_copy(0, order, read)
        else:
            assert view.order is None
        if orientation == "word":
            cosines = from_weights(said, objects, view.weights)
            shares = view.word_weights
            assert view.region_weights is None
        else:
            cosines = from_weights(objects, said, view.weights.T)
            shares = view.region_weights
            expected = tower.match.attention(objects[None], torch.tensor([regions]))[0]
            torch.testing.assert_close(shares, expected, rtol=0, atol=1e-6)
            assert view.word_weights is None
    assert view.weights.shape == (words, regions)
    assert regions < 3 or view.weights.std() > 0.02  # even weights would hide mistakes
    assert shares.sum().item() == pytest.approx(1, abs=1e-6)
    assert view.score == pytest.approx((cosines * shares).sum().item(), abs=1e-5)


def test_dp_rnn_of_both_shows_its_words_and_scores_as_a_whole():
    model, sides = drawn(DPRNN, orientation="both"), pair(4, 3)
    enter(model, "all")
    view = model.attention(*sides)
    with torch.no_grad():
        images, captions = model.embed_images(sides[0]), model.embed_captions(sides[1])
        score = model.score_selected(images, captions, torch.zeros(1, 1, dtype=torch.int64))
    assert view.score == pytest.approx(score.item(), abs=1e-6)
    assert torch.allclose(view.weights.sum(1), torch.ones(3), atol=1e-6)
    assert view.word_weights.std() > 0.01
    assert view.region_weights.shape == (4,)
    assert view.region_weights.sum().item() == pytest.approx(1, abs=1e-6)
    assert view.region_weights.std() > 0.01
    even = drawn(DPRNN, orientation="both", matching="scan")
    assert even.attention(*sides).word_weights is None
    assert even.attention(*sides).region_weights is None
