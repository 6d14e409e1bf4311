"""Attention as plain numbers: the right pair, words and boxes; the file; which pairs are chosen."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from corpora import write_corpus
from ranking_cases import a_split
from tiny_inputs import write_vocabulary

from pipeline.corpus.vocabulary import Vocabulary
from pipeline.features.data import CaptionWords, ImageRegions, Inputs, RetrievalData
from pipeline.features.feature_file import write_features
from pipeline.features.regions.file import ImageRegions as FoundRegions
from pipeline.features.regions.file import pad_regions
from pipeline.report.attention_pairs import (
    EXAMPLES,
    FAILURES,
    PairAttention,
    RankedPair,
    choose_pairs,
    read_attention,
    record_attention,
    write_attention,
)
from pipeline.report.attention_reader import AttentionReader, shown_words
from pipeline.runtime.errors import WorkbenchError

COUNTS = [2, 4, 1]


def region_split(folder):
    """Three images of 40 x 20 with 2, 4 and 1 regions; four captions of 2, 1, 3 and 2 words."""
    rng = np.random.default_rng(0)
    found = []
    for count in COUNTS:
        corners = np.sort(rng.uniform(size=(count, 2, 2)), 1) * [40, 20]
        boxes = corners.reshape(count, 4).astype(np.float32)
        found.append(FoundRegions((40, 20), boxes, rng.normal(size=(count, 3)).astype(np.float32)))
    write_features(folder / "r.h5", ["a", "b", "c"], pad_regions(found, 4, 3), {"has_boxes": 1})
    ids = ["c", "a", "b"]  # not in the order of the file
    images = [(name, f"{name}.jpg", "test", name, 40, 20, "0" * 64) for name in ids]
    said = {"x": "red cat", "y": "dog", "z": "red cat dog", "w": "odd red"}
    owners = dict(zip(said, "bcab", strict=True))
    captions = [(name, owners[name], "test", text, text.split()) for name, text in said.items()]
    write_corpus(folder, images, captions)
    write_vocabulary(folder, ["red", "cat", "dog"])
    files = Inputs(
        images=folder / "images.parquet",
        captions=folder / "captions.parquet",
        features=folder / "r.h5",
        text=folder / "vocabulary",
    )
    data = RetrievalData(files, ImageRegions(files.features), CaptionWords(files.text))
    return data, dict(zip("abc", found, strict=True))


def seen(image, caption):
    """A stand-in for a model's view: numbers that tell which inputs it was given."""
    (features, positions, counts), (tokens, lengths) = image, caption
    words, regions = int(lengths[0]), int(counts[0])
    assert features.shape[0] == positions.shape[0] == tokens.shape[0] == 1
    weights = tokens[0, :words, None] * features[0, :regions, 0]
    return SimpleNamespace(
        score=float(positions.sum()),
        weights=weights,
        word_weights=None,
        region_weights=None,
        order=None,
    )


def test_a_reader_gives_the_numbers_of_the_pair_that_is_asked_for(tmp_path):
    data, regions = region_split(tmp_path)
    read = AttentionReader(seen, data, "test", torch.device("cpu"))
    found = read("b", "z")
    assert (found.image_id, found.caption_id) == ("b", "z")
    assert found.words == ["red", "cat", "dog"]
    assert read("b", "w").words == ["(odd)", "red"]
    assert found.size == (40, 20)
    assert np.array_equal(found.boxes, regions["b"].boxes)
    first = regions["b"].features[:, 0]
    assert np.allclose(found.weights, np.outer([2, 3, 4], first))
    assert read("c", "y").weights.shape == (1, 1)
    asked = read.of_words("b", ["cat", "zebra"])
    assert (asked.image_id, asked.words) == ("b", ["cat", "(zebra)"])
    assert np.allclose(asked.weights, np.outer([3, 1], first))
    assert [read.image_of(caption) for caption in "xyzw"] == ["b", "c", "a", "b"]
    for ids in (("nobody", "z"), ("b", "nobody")):
        with pytest.raises(WorkbenchError, match="'nobody': not in the split"):
            read(*ids)


@pytest.mark.parametrize("markers", [(), ("<start>", "<end>")])
def test_words_are_shown_for_every_id_the_model_reads(markers):
    tokens = ("<pad>", "<unk>", *markers, "red", "cat")
    vocabulary = Vocabulary(tokens, (0,) * len(tokens), bool(markers))
    said = ["red", "zebra", "cat", "<unk>"]
    shown = shown_words(said, vocabulary)
    assert len(shown) == len(vocabulary.encode(said))
    assert shown == [*markers[:1], "red", "(zebra)", "cat", "(<unk>)", *markers[1:]]


def made_scores(signal=0.3, groups=None):
    scores = a_split(images=8, captions=(3,), signal=signal)
    return scores if groups is None else replace(scores, image_groups=groups)


def test_chosen_pairs_are_true_ones_and_the_hardest_wrong_ones():
    scores = made_scores()
    chosen = choose_pairs(scores, seed=5)
    assert chosen == choose_pairs(scores, seed=5)
    assert [c.caption_id for c in chosen] != [c.caption_id for c in choose_pairs(scores, seed=6)]
    assert len(chosen) == 2 * (EXAMPLES + FAILURES)
    assert len({c.caption_id for c in chosen}) == EXAMPLES + FAILURES
    for true, wrong in zip(chosen[::2], chosen[1::2], strict=True):
        column = scores.caption_ids.index(true.caption_id)
        own = scores.scores[:, column]
        row, other = (scores.image_ids.index(c.image_id) for c in (true, wrong))
        assert scores.caption_image_ids[column] == true.image_id
        assert (true.is_true, wrong.is_true) == (True, False)
        assert true.place == 1 + (own > own[row]).sum()
        assert wrong.place == 1 + (own > own[other]).sum()
        assert own[other] == max(own[n] for n in range(len(own)) if n != row)
    assert [c.place for c in chosen[-1:]] == [1]


def test_a_wrong_image_is_of_another_group_and_there_may_be_no_failure():
    groups = ["p", "q"] * 4
    chosen = choose_pairs(made_scores(groups=groups), seed=0)
    group = dict(zip(made_scores().image_ids, groups, strict=True))
    for true, wrong in zip(chosen[::2], chosen[1::2], strict=True):
        assert group[true.image_id] != group[wrong.image_id]
    assert len(choose_pairs(made_scores(signal=9), seed=0)) == 2 * EXAMPLES
    assert len(choose_pairs(a_split(images=1), seed=0)) == 2
    tied = made_scores()
    tied.scores[:] = 0.5  # ties count against the model, as in the ranks
    assert {(c.place, c.is_true) for c in choose_pairs(tied, 0)} == {(1, False), (8, True)}


def made_pair(ordered=True, words=("red", "cat", "red"), regions=2, **changes):
    rng = np.random.default_rng(1)
    values = {
        "image_id": "a",
        "caption_id": "x",
        "words": list(words),
        "score": 0.25,
        "weights": rng.uniform(size=(len(words), regions)).astype(np.float32),
        "boxes": np.tile(np.array([4, 2, 20, 10], np.float32), (regions, 1)),
        "size": (40, 20),
        "word_weights": np.full(len(words), 0.25, np.float32) if ordered else None,
        "region_weights": np.full(regions, 0.5, np.float32) if ordered else None,
        "order": np.arange(regions)[::-1].copy() if ordered else None,
    }
    return PairAttention(**(values | changes))


def test_a_file_gives_back_what_was_written(tmp_path):
    kinds = [(True, 2), (True, 0), (False, 2), (False, 0)]
    pairs = [RankedPair(made_pair(order, regions=count), 3, False) for order, count in kinds]
    pairs += [RankedPair(made_pair(words=("a",)), n, True) for n in range(1, 12)]
    for name in ("one.h5", "two.h5"):
        write_attention(tmp_path / name, pairs, {"model": "scan"})
    assert (tmp_path / "one.h5").read_bytes() == (tmp_path / "two.h5").read_bytes()
    found = read_attention(tmp_path / "one.h5")
    assert [(p.place, p.is_true) for p in found] == [(p.place, p.is_true) for p in pairs]
    for new, old in zip(found, pairs, strict=True):
        for name, value in vars(old.attention).items():
            again = getattr(new.attention, name)
            assert np.array_equal(again, value) if value is not None else again is None, name


def test_a_model_without_attention_has_a_file_without_pairs(tmp_path):
    record_attention(tmp_path / "a.h5", None, made_scores(), 0, {"model": "vse"})
    assert read_attention(tmp_path / "a.h5") == []
    asked = []

    def read(image, caption):
        asked.append((image, caption))
        return made_pair(image_id=image, caption_id=caption)

    record_attention(tmp_path / "b.h5", read, made_scores(), 0, {"model": "scan"})
    found = read_attention(tmp_path / "b.h5")
    chosen = choose_pairs(made_scores(), 0)
    assert asked == [(c.image_id, c.caption_id) for c in chosen]
    assert [(p.place, p.is_true) for p in found] == [(c.place, c.is_true) for c in chosen]
