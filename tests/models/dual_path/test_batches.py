"""Batches by image: every image once, its own captions, the same whenever they are made."""

import threading

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from models.dual_path.model import ImageBatches
from models.dual_path.text import SlotRows
from pipeline.features.split import Split
from pipeline.runtime.errors import WorkbenchError


class Jittered:
    """Image i is the vector [i, 0], and in training [i, what the generator drew]."""

    def __call__(self, rows, generator=None):
        drawn = np.zeros(len(rows)) if generator is None else generator.random(len(rows))
        return torch.from_numpy(np.stack([rows, drawn], 1))


def numbered(described, groups, images=None):
    """A split whose image i is the vector [i, ...] and whose caption j is the word j + 1."""
    described = np.asarray(described)
    return Split(
        image_ids=[f"i{i}" for i in range(len(groups))],
        image_groups=list(groups),
        caption_ids=[f"c{j}" for j in range(len(described))],
        described=described,
        images=images or Jittered(),
        captions=SlotRows([[j + 1] for j in range(len(described))], 4),
    )


def batches_of(split, size, seed):
    """Batches whose classes are the groups."""
    return ImageBatches(split, size, seed, split.groups)


@given(
    described=st.lists(st.integers(0, 4), max_size=30).map(lambda rows: [*rows, 0, 1, 3, 4]),
    size=st.integers(2, 7),
    seed=st.integers(0, 99),
)
@settings(max_examples=30)
def test_an_epoch_holds_every_image_once_with_a_caption_of_its_own(described, size, seed):
    """Image 2 may have no caption and then takes one of image 0, which is of its group."""
    groups = ["a", "b", "a", "c", "d"]
    batches = batches_of(numbered(described, groups), size, seed)
    seen = []
    for batch in batches.epoch(0):
        assert 2 <= len(batch) <= size
        assert torch.equal(batch.labels, batch.image_groups)
        for image, slots, group in zip(
            batch.images, batch.captions, batch.caption_groups, strict=True
        ):
            picture, caption = int(image[0]), int(slots.sum()) - 1
            own = picture if picture in described else 0
            assert described[caption] == own
            assert groups[picture] == sorted(set(groups))[group]
            seen.append(picture)
    assert len(seen) == len(set(seen)) == 5 - (5 % size == 1)
    assert len(list(batches.epoch(0))) == batches.steps


def contents(batches, epoch, first=0):
    return [
        [part.tolist() for part in (batch.images, batch.captions, batch.image_groups, batch.labels)]
        for batch in batches.epoch(epoch, first)
    ]


def test_everything_random_follows_from_seed_epoch_and_step():
    split = numbered([*range(20), *range(20)], [f"g{i}" for i in range(20)])
    whole = contents(batches_of(split, 3, 1), 2)
    np.random.seed(9)  # noqa: NPY002
    torch.manual_seed(9)
    again = batches_of(split, 3, 1)
    assert contents(again, 2) == whole
    assert contents(again, 2, first=4) == whole[4:]
    assert contents(again, 3) != whole
    assert contents(batches_of(split, 3, 2), 2) != whole


def test_no_two_steps_and_not_the_order_draw_the_same():
    """numpy takes the seeds [s, e] and [s, e, 0] for one."""
    split = numbered(range(40), [f"g{i}" for i in range(40)])
    drawn = [row[1] for batch in contents(batches_of(split, 4, 1), 0) for row in batch[0]]
    assert len(set(drawn)) == 40
    first = np.random.default_rng([1, 0]).random(8)[4:]
    assert drawn[:4] != first.tolist()


def test_captions_are_equally_likely_and_drawn_anew():
    split = numbered([0] * 5 + [1], ["a", "b"])
    batches = batches_of(split, 2, 0)
    words = [
        int(row.sum())
        for epoch in range(2000)
        for batch in batches.epoch(epoch)
        for row, group in zip(batch.captions, batch.caption_groups, strict=True)
        if group == 0
    ]
    counts = np.bincount(words, minlength=6)[1:]
    assert len(counts) == 5
    assert chisquare(counts).pvalue > 0.01


def test_pseudo_classes_go_with_their_images():
    split = numbered(range(6), [f"g{i}" for i in range(6)])
    labels = np.array([2, 0, 2, 1, 1, 0])
    batches = ImageBatches(split, 4, 0, labels)
    for batch in batches.epoch(0):
        assert batch.labels.tolist() == labels[batch.images[:, 0].long()].tolist()
        assert batch.image_groups.tolist() == batch.images[:, 0].long().tolist()
        moved = batch.to(torch.device("cpu"))
        assert torch.equal(moved.labels, batch.labels)


def test_an_error_in_the_thread_is_raised_and_an_epoch_may_be_left():
    class Broken(Jittered):
        def __call__(self, rows, generator=None):
            raise WorkbenchError("cannot be decoded")

    groups = [f"g{i}" for i in range(20)]
    with pytest.raises(WorkbenchError, match="cannot be decoded"):
        next(batches_of(numbered(range(20), groups, Broken()), 2, 0).epoch(0))
    before = threading.active_count()
    epoch = batches_of(numbered(range(20), groups), 2, 0).epoch(0)
    next(epoch)
    assert threading.active_count() == before + 1
    epoch.close()
    assert threading.active_count() == before


def test_too_little_to_train_on():
    with pytest.raises(WorkbenchError, match="1 training images"):
        batches_of(numbered([0], ["a"]), 2, 0)
    with pytest.raises(WorkbenchError, match="2 groups of training images have no caption: b, d"):
        batches_of(numbered([0, 2], ["a", "b", "c", "d"]), 2, 0)
