"""The sampler of the two-branch network against counting by hand."""

from collections import Counter

import numpy as np
import pytest
import torch
from clone import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st
from numbered_split import numbered_split

from models.two_branch import Members, NeighbourBatches, TwoBranchConfig
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.yaml_text import read_yaml


def numbered(described, groups):
    """A split whose image i is the vector [i], and whose caption j is [j]."""

    def vectors(rows, generator=None):
        return torch.from_numpy(rows)[:, None].float()

    return numbered_split(described, groups, vectors, vectors)


def content(batch):
    return [side[:, 0].long().tolist() for side in (batch.images, batch.captions)]


@st.composite
def corpora(draw):
    """Groups of images (some without captions) and which image each caption describes."""
    groups = draw(st.lists(st.sampled_from("abcde"), min_size=2, max_size=8))
    described = draw(st.lists(st.integers(0, len(groups) - 1), min_size=2, max_size=30))
    if len({groups[image] for image in described}) < 2:
        described[0], described[-1] = 0, 1
        groups[0], groups[1] = "a", "b"
    return described, groups


@given(corpora(), st.integers(1, 9), st.integers(0, 99), st.integers(0, 2), st.integers(0, 2))
@settings(max_examples=40)
def test_batches_are_what_they_promise(corpus, size, seed, extra_captions, extra_images):
    described, groups = corpus
    group_of = [groups[image] for image in described]
    batches = NeighbourBatches(numbered(*corpus), size, seed, extra_captions, extra_images)
    seeds_seen, produced = [], list(batches.epoch(3))
    for step, batch in enumerate(produced):
        images, captions = content(batch)
        assert len(batch) == len(captions) == len(set(captions))
        assert len(images) == len(set(images))
        seeds = captions[: min(size, len(described) - step * size)]
        seeds_seen += seeds
        if len({group_of[caption] for caption in seeds}) == 1:  # one of another group is added
            seeds = captions[: len(seeds) + 1]
        seed_images = {described[caption] for caption in seeds}
        assert seed_images <= set(images)
        assert len({groups[image] for image in seed_images}) >= 2
        images_of = Counter(groups[image] for image in seed_images)
        captions_of = Counter(group_of[caption] for caption in seeds)
        assert Counter(groups[image] for image in images) == {
            group: min(groups.count(group), count + extra_images)
            for group, count in images_of.items()
        }
        assert Counter(group_of[caption] for caption in captions) == {
            group: min(group_of.count(group), count + extra_captions * images_of[group])
            for group, count in captions_of.items()
        }
        same = batch.image_groups[:, None] == batch.caption_groups[None]
        assert same.tolist() == [[groups[i] == group_of[c] for c in captions] for i in images]
    assert len(produced) == batches.steps
    assert len(seeds_seen) == len(set(seeds_seen))
    alone = size > 1 and len(described) % size == 1
    assert len(seeds_seen) == len(described) - alone


@given(corpus=corpora(), size=st.integers(1, 9), first=st.integers(0, 40))
@settings(max_examples=20)
def test_an_interrupted_epoch_continues_with_the_same_batches(corpus, size, first):
    whole = NeighbourBatches(numbered(*corpus), size, 1).epoch(2)
    rest = NeighbourBatches(numbered(*corpus), size, 1).epoch(2, first)
    assert list(map(content, rest)) == list(map(content, whole))[first:]


def test_draws_follow_from_seed_and_epoch_alone():
    split = numbered(np.repeat(np.arange(20), 5), [f"g{i}" for i in range(20)])

    def drawn(seed, epoch):
        return list(map(content, NeighbourBatches(split, 7, seed).epoch(epoch)))

    assert drawn(1, 2) == drawn(1, 2)
    assert drawn(1, 2) != drawn(1, 3)
    assert drawn(1, 2) != drawn(2, 2)


@pytest.mark.parametrize("images", [0.0, 0.1])
@pytest.mark.parametrize("sentences", [0.0, 0.2])
def test_neighbours_come_only_for_the_terms_that_compare_them(images, sentences):
    """Section 2.2: without the structure terms a batch is 15 random pairs and nothing else."""
    groups = np.repeat(list("abcdefghij"), 3)  # of three images each, with five captions each
    split = numbered(np.repeat(np.arange(30), 5), groups.tolist())
    section = read_yaml(ROOT / "params.yaml")["two_branch"]
    section["weights"] |= {"image_image": images, "sentence_sentence": sentences}
    config = TwoBranchConfig.model_validate(section)
    for batch in NeighbourBatches(split, 15, 3, config.extra_captions, config.extra_images).epoch(
        0
    ):
        rows, captions = content(batch)
        sampled, brought = captions[:15], captions[15:]
        pairs = {caption // 5 for caption in sampled}
        more = Counter(groups[row] for row in set(rows) - pairs)
        shown = Counter(groups[row] for row in pairs)
        assert bool(brought) == bool(sentences)
        assert {groups[caption // 5] for caption in brought} <= shown.keys()
        assert more == {name: 1 for name in shown if images and shown[name] < 3}


def test_members_are_drawn_evenly_and_never_when_taken():
    members = Members(np.array([0, 1, 0, 0, 1, 0, 2, 0]), 3)
    rng = np.random.default_rng(0)
    counts = Counter()
    for _ in range(2000):
        rows = members.draw(np.array([0, 2]), np.array([2, 1]), np.array([2, 6]), rng)
        assert len(set(rows.tolist())) == 2
        counts.update(rows.tolist())
    assert counts.keys() == {0, 3, 5, 7}
    assert all(abs(count - 1000) < 100 for count in counts.values())  # 4.5 standard deviations


@pytest.mark.parametrize(
    ("described", "groups", "message"),
    [
        ([0], "ab", "1 training captions: at least 2"),
        ([0, 2, 0], "aba", r"all 3 training captions belong to one group \(a\)"),
    ],
)
def test_nothing_to_tell_apart(described, groups, message):
    with pytest.raises(WorkbenchError, match=message):
        NeighbourBatches(numbered(described, groups), 4, 0)


@pytest.mark.parametrize(
    ("images", "across", "within"), [(29_000, 2969, 3062), (113_287, 2992, 3016)]
)
def test_batches_of_the_recipes_have_about_as_many_neighbours_as_pairs(images, across, within):
    """The numbers of docs/papers/two_branch.md: what `reduction: mean` divides each term by."""
    described = np.repeat(np.arange(images), 5)
    split = numbered(described, [str(image) for image in range(images)])
    batch = next(NeighbourBatches(split, 1500, 0, extra_captions=1, extra_images=0).epoch(1))
    pairs = batch.image_groups[:, None] == batch.caption_groups[None]
    neighbours = batch.caption_groups[:, None] == batch.caption_groups[None]
    assert int(pairs.sum()) == pytest.approx(across, abs=20)
    assert int(neighbours.sum()) - len(batch) == pytest.approx(within, abs=40)
