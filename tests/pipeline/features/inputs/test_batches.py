"""Pairs, padding and the order of training."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from commands import refusal
from corpora import write_corpus
from hypothesis import given, settings
from hypothesis import strategies as st
from numbered_split import numbered_split

from pipeline.corpus.vocabulary import Vocabulary
from pipeline.features import data as inputs_data
from pipeline.features.data import (
    ImageRows,
    ImageVectors,
    Inputs,
    RetrievalData,
    WordRows,
    open_vectors,
)
from pipeline.features.feature_file import write_features
from pipeline.features.split import PairBatches, fitting_pairs
from pipeline.runtime.errors import WorkbenchError

CAPTIONS = st.lists(st.lists(st.integers(1, 50), min_size=1, max_size=9), min_size=1, max_size=12)


def numbered(described, groups):
    """A split whose image i is the vector [i] and whose caption j is the word j + 1."""
    words = WordRows([[j + 1] for j in range(len(described))])

    def images(rows, generator=None):
        return torch.from_numpy(rows)[:, None].float()

    return numbered_split(described, groups, images, words)


@given(CAPTIONS, st.data())
@settings(max_examples=100)
def test_padding_equals_the_loop(captions, data):
    rows = data.draw(st.lists(st.integers(0, len(captions) - 1), min_size=1, max_size=8))
    tokens, lengths = WordRows(captions)(np.array(rows))
    width = max(len(captions[row]) for row in rows)
    expected = [captions[row] + [0] * (width - len(captions[row])) for row in rows]
    assert tokens.tolist() == expected
    assert lengths.tolist() == [len(captions[row]) for row in rows]


@given(
    described=st.lists(st.integers(0, 4), min_size=2, max_size=40),
    size=st.integers(2, 9),
    seed=st.integers(0, 99),
)
@settings(max_examples=60)
def test_an_epoch_holds_every_pair_once(described, size, seed):
    groups = ["a", "b", "a", "c", "d"]
    batches = PairBatches(numbered(described, groups), size, seed)
    seen = []
    for batch in batches.epoch(0):
        assert 2 <= len(batch) <= size
        for image, word, group in zip(
            batch.images, batch.captions.ids, batch.image_groups, strict=True
        ):
            caption = int(word[0]) - 1
            assert described[caption] == int(image[0])
            same = [groups[int(i[0])] == groups[int(image[0])] for i in batch.images]
            assert (batch.image_groups == group).tolist() == same
            seen.append(caption)
    assert len(seen) == len(set(seen))
    left_out = len(described) - len(seen)
    assert left_out == (1 if len(described) % size == 1 else 0)
    assert len(list(batches.epoch(0))) == batches.steps


@given(fits=st.lists(st.lists(st.integers(0, 5)), min_size=6, max_size=6), seed=st.integers(0, 99))
def test_what_fits_is_related(fits, seed):
    """Image 5 is of another split: its id is passed over."""
    described = [0, 1, 2, 3, 4, 4]
    split = numbered(described, list("abcde"))
    lists = pd.Series([[f"i{image}" for image in images] for images in fits])
    split = replace(split, fits=fitting_pairs(split.image_ids, lists))
    known = [{image for image in images if image < 5} for images in fits]
    for batch in PairBatches(split, 3, seed).epoch(0):
        rows = [int(image[0]) for image in batch.images]
        columns = [int(word[0]) - 1 for word in batch.captions.ids]
        if any(known):
            expected = [[row in known[column] for column in columns] for row in rows]
            assert batch.related.tolist() == expected
        else:
            assert batch.related is None


def test_order_follows_from_seed_and_epoch_alone():
    split = numbered(range(20), [f"g{i}" for i in range(20)])

    def order(seed, epoch, first=0):
        batches = PairBatches(split, 3, seed).epoch(epoch, first)
        return [batch.captions.ids.flatten().tolist() for batch in batches]

    np.random.seed(0)  # noqa: NPY002
    torch.manual_seed(0)
    first = order(1, 2)
    np.random.seed(9)  # noqa: NPY002
    torch.manual_seed(9)
    assert order(1, 2) == first
    assert order(1, 2, first=4) == first[4:]
    assert order(1, 3) != first
    assert order(2, 2) != first


def test_a_single_pair_cannot_be_trained_on():
    assert "1 training captions" in refusal(PairBatches, numbered([0], ["g"]), 4, 0)


def image_rows(**splits):
    return [(name, f"{name}.jpg", own, name, 8, 8, "0" * 64) for name, own in splits.items()]


@pytest.fixture
def tables(tmp_path):
    """Two training images, the second with two captions, and one validation image."""
    captions = [
        ("a0", "a", "train", "x", ["red", "square"]),
        ("b0", "b", "train", "x", ["red"]),
        ("b1", "b", "train", "x", ["blue", "odd", "red"]),
        ("v0", "v", "val", "x", ["red"]),
    ]
    write_corpus(tmp_path, image_rows(a="train", b="train", v="val"), captions)
    return tmp_path


class OwnWords:
    """Captions as word ids of a vocabulary that is in no file."""

    def source(self, table):
        vocabulary = Vocabulary(("<pad>", "<unk>", "red", "blue", "square"), (0, 1, 4, 1, 1), False)
        return WordRows([vocabulary.encode(words) for words in table["tokens"]])


def read(folder, name):
    tables = Inputs(
        images=folder / "images.parquet",
        captions=folder / "captions.parquet",
        features=folder / "image.h5",
        text=folder,
    )
    return RetrievalData(tables, ImageVectors(tables.features), OwnWords()).split(name)


def write_vectors(folder, ids):
    values = np.arange(len(ids) * 3, dtype=np.float16).reshape(len(ids), 3)
    write_features(folder / "image.h5", ids, {"features": values}, {"model": "toy"})
    return dict(zip(ids, values.tolist(), strict=True))


def test_pairs_come_from_tables_and_features(tables):
    values = write_vectors(tables, ["v", "b", "a"])
    split = read(tables, "train")
    assert (split.image_ids, split.caption_ids) == (["a", "b"], ["a0", "b0", "b1"])
    batch = PairBatches(split, 4, 0).batch(np.array([2, 0]))
    assert batch.images.tolist() == [values["b"], values["a"]]
    assert batch.images.dtype == torch.float32
    assert batch.captions.ids.tolist() == [[3, 1, 2], [2, 4, 0]]
    assert batch.captions.lengths.tolist() == [3, 2]
    assert batch.image_groups.tolist() == batch.caption_groups.tolist() == [1, 0]


def test_moments_are_those_of_the_chosen_images(tmp_path, monkeypatch):
    """numpy over all rows at once; large means would cost a one-pass form its digits."""
    values = np.random.default_rng(0).normal(3000, 0.5, (50, 4)).astype(np.float32)
    ids = [f"i{n}" for n in range(50)]
    write_features(tmp_path / "image.h5", ids, {"features": values}, {"model": "toy"})
    chosen = [3, 7, 8, 20, 21, 49, 0]
    source = ImageRows(open_vectors(tmp_path / "image.h5"), [ids[n] for n in chosen])
    exact = values[chosen].astype(np.float64)
    for block in (2, 3, 100):
        monkeypatch.setattr(inputs_data, "VECTOR_BLOCK", block)
        mean, deviation = source.moments()
        np.testing.assert_allclose(mean, exact.mean(0), rtol=1e-6)
        np.testing.assert_allclose(deviation, exact.std(0), rtol=1e-5)


def test_caption_of_an_image_in_another_split(tables):
    write_vectors(tables, ["v", "a", "b"])
    captions = [(f"{name}0", name, "train", "x", ["red"]) for name in ("a", "v")]
    write_corpus(tables, image_rows(a="train", v="val"), captions)
    with pytest.raises(WorkbenchError, match=r"1 captions of split 'train' .* not in .*: v0"):
        read(tables, "train")
