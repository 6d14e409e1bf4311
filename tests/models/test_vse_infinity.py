"""VSE-infinity against one image and one caption at a time, and what is left out in training."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from models.layers.sets import POOLS
from models.vse_infinity import ThinnedBatches, VSEInfinity, VSEInfinityConfig, drop_items
from pipeline.features.data import WordRows
from pipeline.features.split import Regions, Split, Words

COUNTS, LENGTHS = torch.tensor([5, 1, 3, 0, 5, 4]), torch.tensor([4, 1, 3, 2, 4, 4])


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(1)
    features = torch.randn(6, 5, 9, generator=generator)
    tokens = torch.randint(1, 20, (6, 4), generator=generator)
    return Regions(features, torch.zeros(6, 5, 4), COUNTS), Words(tokens, LENGTHS)


def build(**settings):
    torch.manual_seed(0)
    config = VSEInfinityConfig(word_dim=7, dim=8, **settings)
    return VSEInfinity(config, image_dim=9, vocabulary_size=20)


@pytest.mark.parametrize("image_mlp", [True, False])
@pytest.mark.parametrize("pool", POOLS)
def test_equals_one_image_and_one_caption_at_a_time(batch, pool, image_mlp):
    network = build(image_mlp=image_mlp, image_pool=pool, text_pool=pool, drop_words=0.5).eval()
    (features, _, counts), (tokens, lengths) = batch
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
    scores = network.score(network.embed_images(batch[0]), network.embed_captions(batch[1]))
    torch.testing.assert_close(scores, expected, rtol=0, atol=1e-5)
    assert not scores[3].any()  # an image without regions is similar to nothing


def test_a_share_of_every_set_is_left_out_and_one_item_stays():
    counts = torch.tensor([10, 1, 3, 0] * 500)
    items = torch.arange(1, 11).expand(2000, -1) * (torch.arange(10) < counts[:, None])
    for share in (0.2, 0.99):
        kept, left = drop_items(items, counts, share, np.random.default_rng(0))
        assert torch.equal(left > 0, counts > 0)
        kept = kept * (torch.arange(kept.shape[1]) < left[:, None])
        for own, before, after in zip(kept, counts, left, strict=True):
            some = own[:after].tolist()
            assert sorted(set(some) & set(range(1, before + 1))) == some  # each once, in order
        places = torch.bincount(kept[::4].flatten(), minlength=11)[1:] / 500
        torch.testing.assert_close(
            places, torch.full((10,), max(1 - share, 0.1)), rtol=0, atol=0.06
        )
    assert drop_items(items, counts, 0.0, np.random.default_rng(0))[0] is items


def thin_split():
    """Eight images with five regions each, whose features are their numbers."""
    features = torch.arange(1.0, 41).view(8, 5, 1)

    def images(rows, generator=None):
        return Regions(features[rows], torch.zeros(len(rows), 5, 4), torch.full((len(rows),), 5))

    names = [str(number) for number in range(8)]
    words = WordRows([[number + 1] * 4 for number in range(8)])
    return Split(names, names, names, np.arange(8), images, words)


def test_what_is_left_out_follows_from_seed_epoch_and_step():
    """So that a training that was interrupted goes on with the same sets."""

    def epoch_of(number, first=0, seed=3):
        sampler = ThinnedBatches(thin_split(), 3, seed, drop_regions=0.4, drop_words=0.4)
        return list(sampler.epoch(number, first))

    def kept(batch):
        regions, words = batch.images, batch.captions
        rows = zip(regions.features[..., 0], regions.counts, words.lengths, strict=True)
        return [(own[:count].tolist(), int(length)) for own, count, length in rows]

    whole = [kept(batch) for batch in epoch_of(1)]
    assert [kept(batch) for batch in epoch_of(1, first=1)] == whole[1:]
    assert whole not in ([kept(batch) for batch in epoch_of(*other)] for other in ((0,), (1, 0, 4)))
    flat = [pair for batch in whole for pair in batch]
    assert {len(regions) for regions, _ in flat} & {2, 3, 4}
    for regions, _ in flat:  # of the right image, in their order
        assert regions == sorted(regions)
        assert len({int(number - 1) // 5 for number in regions}) == 1
