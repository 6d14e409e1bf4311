"""VSE-infinity against one image and one caption at a time, and what is left out in training."""

import pytest
import torch
from models.vse_infinity.network import VSEInfinity, thinned
from torch.nn import functional

from models.layers.sets import POOLS

COUNTS, LENGTHS = torch.tensor([5, 1, 3, 0, 5, 4]), torch.tensor([4, 1, 3, 2, 4, 4])


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(1)
    features = torch.randn(6, 5, 9, generator=generator)
    tokens = torch.randint(1, 20, (6, 4), generator=generator)
    return features, torch.zeros(6, 5, 4), COUNTS, tokens, LENGTHS


def build(**settings):
    torch.manual_seed(0)
    return VSEInfinity(9, 20, 7, 8, **settings)


@pytest.mark.parametrize("image_mlp", [True, False])
@pytest.mark.parametrize("pool", POOLS)
def test_equals_one_image_and_one_caption_at_a_time(batch, pool, image_mlp):
    network = build(image_mlp=image_mlp, image_pool=pool, text_pool=pool, drop_words=0.5).eval()
    features, _, counts, tokens, lengths = batch
    rows, columns = [], []
    for image, caption, count, length in zip(features, tokens, counts, lengths, strict=True):
        regions = image[:count]
        vectors = regions @ network.projection.weight.T + network.projection.bias
        if image_mlp:
            first, norm, _, last = network.perceptron
            hidden = (regions @ first.weight.T - norm.running_mean) * norm.weight
            hidden = hidden / (norm.running_var + norm.eps).sqrt() + norm.bias
            vectors = vectors + hidden.relu() @ last.weight.T + last.bias
        pooled = torch.zeros(8)
        if count:
            pooled = network.image_pool(vectors[None], count[None])[0]
        rows.append(functional.normalize(pooled, dim=0))
        words = network.text(caption[None, :length], length[None])
        columns.append(functional.normalize(network.text_pool(words, length[None])[0], dim=0))
    expected = torch.stack(rows) @ torch.stack(columns).T
    torch.testing.assert_close(network(*batch), expected, rtol=0, atol=1e-5)
    assert not network(*batch)[3].any()  # an image without regions is similar to nothing


def test_a_share_of_every_set_is_left_out_and_one_item_stays():
    torch.manual_seed(0)
    counts = torch.tensor([10, 1, 3, 0] * 500)
    items = torch.arange(1, 11).expand(2000, -1) * (torch.arange(10) < counts[:, None])
    for share in (0.2, 0.99):
        kept, left = thinned(items, counts, share)
        assert torch.equal(left > 0, counts > 0)
        kept = kept * (torch.arange(kept.shape[1]) < left[:, None])
        for own, before, after in zip(kept, counts, left, strict=True):
            some = own[:after].tolist()
            assert sorted(set(some) & set(range(1, before + 1))) == some  # each once, in order
        places = torch.bincount(kept[::4].flatten(), minlength=11)[1:] / 500
        torch.testing.assert_close(
            places, torch.full((10,), max(1 - share, 0.1)), rtol=0, atol=0.06
        )
    assert thinned(items, counts, 0.0)[0] is items
