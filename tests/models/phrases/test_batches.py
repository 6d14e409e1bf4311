"""Pairs, batches, masks and hard negatives of phrases against plain loops."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from models.base import Model
from models.losses.knn_margin import KNNMargin
from models.phrases.data import PhrasePairs
from models.phrases.two_branch import (
    MinedBatches,
    MiningConfig,
    PhraseBatches,
    draw_negatives,
    find_hard_negatives,
)
from models.two_branch import StructureLoss
from pipeline.features.feature_file import FeatureFile, write_features
from pipeline.phrases.boxes import overlaps
from pipeline.runtime.errors import WorkbenchError

REGIONS, PHRASES, IMAGES, SLOTS = 40, 24, 8, 9


def random_pairs(seed=0):
    """A many-to-many relation; a region's vector begins with its number, a phrase's likewise."""
    rng = np.random.default_rng(seed)
    table = rng.random((REGIONS, PHRASES)) < 0.09
    table[np.arange(PHRASES), np.arange(PHRASES)] = True
    phrases, regions = np.nonzero(table.T)
    vectors = [torch.from_numpy(rng.normal(size=(n, 5)).astype("f4")) for n in (REGIONS, PHRASES)]
    for own in vectors:
        own[:, 0] = torch.arange(len(own))
    corners = rng.integers(0, 20, (REGIONS, 2))
    boxes = np.hstack([corners, corners + rng.integers(4, 12, (REGIONS, 2))]).astype("f4")
    return PhrasePairs(
        lambda rows, generator=None: vectors[0][rows],
        lambda rows, generator=None: vectors[1][rows],
        [f"image {n % IMAGES}" for n in range(REGIONS)],
        boxes,
        csr_matrix(table.astype(np.int8)),
        np.stack([regions, phrases], 1),
    )


def numbers(vectors):
    return vectors[:, 0].long().tolist()


@pytest.mark.parametrize("extra", [(0, 0), (1, 1), (1, 0)])
def test_a_batch_says_what_belongs_together(extra):
    data = random_pairs()
    table, seen = data.related.toarray() > 0, 0
    batches = PhraseBatches(data, 10, 0, *extra)
    found = list(batches.epoch(0))
    assert len(found) == batches.steps == -(-len(data.pairs) // 10)
    for batch in found:
        regions, phrases = numbers(batch.regions), numbers(batch.phrases)
        assert len(set(regions)) == len(regions)
        assert len(set(phrases)) == len(phrases)
        np.testing.assert_array_equal(batch.pairs, table[np.ix_(regions, phrases)])
        np.testing.assert_array_equal(batch.same, batch.pairs)
        alike = [[bool((table[a] & table[b]).any()) or a == b for b in regions] for a in regions]
        np.testing.assert_array_equal(batch.same_regions, alike)
        alike = [[bool((table[:, a] & table[:, b]).any()) for b in phrases] for a in phrases]
        np.testing.assert_array_equal(batch.same_phrases, alike)
        seen += int(batch.same_regions.sum()) - len(regions)
    assert seen


def test_regions_and_phrases_bring_one_more_of_each_other():
    data = random_pairs()
    table = data.related.toarray() > 0
    seeds = np.arange(0, len(data.pairs), 5)
    plain = PhraseBatches(data, 12, 0).rows(seeds, np.random.default_rng(0))
    regions, phrases = PhraseBatches(data, 12, 0, 1, 1).rows(seeds, np.random.default_rng(0))
    more_regions, more_phrases = set(regions) - set(plain[0]), set(phrases) - set(plain[1])
    assert more_regions
    assert more_phrases
    assert len(more_phrases) <= len(plain[0])
    assert len(more_regions) <= len(plain[1])
    assert all(table[region, list(plain[1])].any() for region in more_regions)
    assert all(table[list(plain[0]), phrase].any() for phrase in more_phrases)


def test_every_pair_is_a_seed_once_and_an_epoch_can_be_taken_up():
    data = random_pairs()
    batches = PhraseBatches(data, 10, 3, 1, 1)
    whole, rest = list(batches.epoch(2)), list(batches.epoch(2, 2))
    for one, other in zip(whole[2:], rest, strict=True):
        assert torch.equal(one.regions, other.regions)
        assert torch.equal(one.phrases, other.phrases)
    order = np.random.default_rng([3, 2]).permutation(len(data.pairs))
    for step, batch in enumerate(whole):
        own = data.pairs[order[step * 10 : step * 10 + 10]]
        assert set(own[:, 0]) <= set(numbers(batch.regions))
        assert set(own[:, 1]) <= set(numbers(batch.phrases))


def test_hard_negatives_are_negatives_of_their_own_phrase_alone(tmp_path):
    data = random_pairs()
    owners = np.repeat(np.arange(PHRASES), 4)
    vectors = np.zeros((1, len(owners), 5), np.float16)
    vectors[0, :, 0] = 1000 + np.arange(len(owners))
    write_features(tmp_path / "p.h5", ["image"], {"features": vectors}, {"model": "x"})
    batches = MinedBatches(data, 10, 0, proposals=FeatureFile(tmp_path / "p.h5"), sampled=3)
    batches.take(np.stack([np.zeros_like(owners), np.arange(len(owners)), owners], 1))
    batch = next(batches.epoch(0))
    regions, phrases = numbers(batch.regions), numbers(batch.phrases)
    hard = [place for place, number in enumerate(regions) if number >= 1000]
    assert len(hard) == 3 * len(phrases)
    assert hard[0] == len(regions) - len(hard)
    for place in hard:
        assert not batch.pairs[place].any()
        own = [phrases[n] for n in np.flatnonzero(~batch.same[place].numpy())]
        assert own == [owners[regions[place] - 1000]]


def test_the_loss_is_that_of_a_loop_over_triplets():
    torch.manual_seed(0)
    batch = next(PhraseBatches(random_pairs(), 12, 0, 1, 1).epoch(0))
    regions, phrases = (
        torch.nn.functional.normalize(torch.randn(n, 6, dtype=torch.float64))
        for n in batch.pairs.shape
    )
    options = {
        "image_to_sentence": 1.0,
        "sentence_to_image": 2.0,
        "image_image": 0.3,
        "sentence_sentence": 0.7,
    }
    loss = StructureLoss(KNNMargin(0.2, 3), 0.2, 3, **options)
    masks = batch.pairs, batch.same, batch.same_regions, batch.same_phrases
    wanted = 0.0
    for weight, ones, others, same in (
        (1.0, regions, phrases, batch.same),
        (2.0, phrases, regions, batch.same.T),
        (0.3, regions, regions, batch.same_regions),
        (0.7, phrases, phrases, batch.same_phrases),
    ):
        for a in range(len(ones)):
            for p in range(len(others)):
                if not same[a, p] or (ones is others and a == p):
                    continue
                near = (ones[a] - others[p]).norm()
                hinges = [
                    0.2 + near - (ones[a] - others[n]).norm()
                    for n in range(len(others))
                    if not same[a, n]
                ]
                wanted += weight * sum(sorted(max(h.item(), 0.0) for h in hinges)[-3:])
    assert loss.compare(regions, phrases, *masks).item() == pytest.approx(wanted, rel=1e-6)


class Plain(Model):
    """A model that compares the vectors themselves by their inner products."""

    device = torch.device("cpu")

    def __init__(self):
        super().__init__(None)

    def embed_images(self, images):
        return images

    embed_captions = index = embed_images


@pytest.fixture
def proposed(tmp_path):
    rng = np.random.default_rng(1)
    corners = rng.integers(0, 20, (IMAGES, SLOTS, 2))
    arrays = {
        "boxes": np.concatenate([corners, corners + 8], -1).astype("f4"),
        "features": rng.normal(size=(IMAGES, SLOTS, 5)).astype("f2"),
        "counts": rng.integers(3, SLOTS + 1, IMAGES).astype("i4"),
    }
    names = [f"image {n}" for n in reversed(range(IMAGES))]
    write_features(tmp_path / "p.h5", names, arrays, {"model": "x"})
    return FeatureFile(tmp_path / "p.h5")


def test_mined_proposals_are_nearer_than_the_truth_and_not_right(proposed):
    data, file = random_pairs(), proposed
    both = SimpleNamespace(train=data, proposals=proposed, seed=0)
    settings = MiningConfig(
        epochs=1, batch_size=8, negatives=10_000, sampled=1, overlap=0.5, lr=0.1
    )
    found = find_hard_negatives(Plain(), both, settings)
    table, wanted = data.related.toarray() > 0, []
    every, words = data.regions(np.arange(REGIONS)), data.phrases(np.arange(PHRASES))
    for name in np.unique(data.region_images):
        row = file.rows([name])[0]
        here = [r for r in range(REGIONS) if data.region_images[r] == name]
        for phrase in range(PHRASES):
            own = [r for r in here if table[r, phrase]]
            if not own:
                continue
            nearest = max(float(every[r] @ words[phrase]) for r in own)
            for slot in range(file.read([row], "counts")[0]):
                vector = torch.from_numpy(file.read([row])[0, slot]).float()
                box = file.read([row], "boxes")[0, slot : slot + 1]
                right = overlaps(box, data.boxes[own]).max() >= 0.5
                if float(vector @ words[phrase]) > nearest and not right:
                    wanted.append((phrase, vector.tolist()))
    batches = MinedBatches(data, 10, 0, proposals=proposed, sampled=1)
    batches.take(found)
    got = batches.vectors(np.arange(len(found))).tolist()
    assert sorted(zip(found[:, 2].tolist(), got, strict=True)) == sorted(wanted)
    fewer = find_hard_negatives(Plain(), both, settings.model_copy(update={"negatives": 2}))
    assert np.bincount(fewer[:, 2]).max() == 2 < np.bincount(found[:, 2]).max()


def test_nothing_to_mine_is_said():
    with pytest.raises(WorkbenchError, match="no proposal lies nearer"):
        draw_negatives(np.zeros((0, 3), int), 5, 0)
