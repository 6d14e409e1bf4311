"""SCAN and DP-RNN through `stages.score` and `stages.evaluate`."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from model_runs import DP_RNN, SCAN, SHORTLIST
from tiny_inputs import IMAGES, REGIONS, write_regions

from models.dp_rnn.network import DPRNN
from models.scan.network import SCAN as Network
from pipeline.corpus.tables import in_split, load_captions
from pipeline.corpus.vocabulary import Vocabulary
from pipeline.inputs.regions import RegionRows
from pipeline.storage.features import FeatureFile

SHORT = {"matching": 1, "recurrent": 1, "all": 0}


def built(folder, run, kind):
    """The trained network, and functions from an image's or caption's id to its inputs."""
    network = run.checkpoint(folder).build(kind)
    regions, words = FeatureFile(folder / REGIONS), Vocabulary.load(folder / "vocabulary")
    captions = load_captions(folder / "corpus/captions.parquet").set_index("caption_id")["tokens"]

    def image(name):
        one = RegionRows(regions, [name])(np.array([0]))
        count = int(one.counts)  # without the padding
        return one.features[:, :count], one.positions[:, :count], one.counts

    def caption(name):
        ids = words.encode(captions[name])
        return torch.tensor([ids]), torch.tensor([len(ids)])

    return network, image, caption


def check_ids(folder, scores, split):
    table = in_split(load_captions(folder / "corpus/captions.parquet"), split)
    assert list(scores.caption_ids) == table["caption_id"].tolist()
    assert list(scores.caption_image_ids) == table["image_id"].tolist()
    assert list(scores.image_ids) == [f"{split}{i}" for i in range(IMAGES[split])]


def test_scores_in_the_file_are_the_models(folder):
    """The checkpoint says which form of the network it is."""
    options = {"direction": "i2t", "pooling": "lse", "position_gate": True}
    SCAN.train(folder, **options, training__epochs=1, training__warmup_epochs=0)
    SCAN.score(folder)
    network, image, caption = built(folder, SCAN, Network)
    for split in ("val", "test"):
        scores = SCAN.scores(folder, split)
        check_ids(folder, scores, split)
        with torch.inference_mode():
            one_by_one = [
                [network(*image(i), *caption(c)).item() for c in scores.caption_ids]
                for i in scores.image_ids
            ]
        np.testing.assert_allclose(scores.scores, one_by_one, atol=1e-5)


def test_scores_of_the_shortlist_are_the_recurrent_ones(folder):
    DP_RNN.train(folder, orientation="object", training__epochs=SHORT)
    DP_RNN.score(folder)
    network, image, caption = built(folder, DP_RNN, DPRNN)
    scores = DP_RNN.scores(folder)
    check_ids(folder, scores, "test")
    first = torch.zeros(1, 1, dtype=torch.long)
    with torch.inference_mode():
        pictures = [network.embed_images(*image(name)) for name in scores.image_ids]
        for column, name in enumerate(scores.caption_ids):
            text = network.embed_captions(*caption(name))
            vector = network.caption_vectors(text)[0]
            early = [float(network.image_vectors(one)[0] @ vector) for one in pictures]
            chosen = np.argsort(early)[-SHORTLIST:]
            expected = [network.score(one, text).item() - 2 for one in pictures]
            for row in chosen:
                expected[row] = network.score_selected(pictures[row], text, first).item()
            np.testing.assert_allclose(scores.scores[:, column], expected, atol=1e-5)


def test_other_regions_than_those_of_the_training_are_refused(trained):
    write_regions(trained, params='{"boxes": 36}', weights_sha256="c" * 64)
    message = SCAN.not_scored(trained)
    assert 'features params {"boxes": 36} (trained with {})' in message
    assert "features weights sha256 cccc" in message


def test_options_of_other_models_are_refused(trained):
    message = SCAN.not_scored(trained, "--shortlist", "3")
    assert "model 'scan' does not take the option --shortlist" in message
    message = replace(DP_RNN, scoring=()).not_scored(trained)
    assert "model 'dp_rnn' needs the option --shortlist" in message
    message = SCAN.not_scored(trained, "--keep", "embeddings")
    assert "model 'scan' does not take the option --keep" in message


def test_without_recurrence_only_the_matching_is_trained_and_a_shortlist_is_an_option(folder):
    DP_RNN.train(folder, recurrent=False, training__epochs=SHORT | {"all": 1})
    assert DP_RNN.curve(folder)["phase"].tolist() == ["matching"] * 2
    weights = DP_RNN.checkpoint(folder).weights
    assert not any(".recurrent." in name for name in weights)
    assert not bool(weights["recurrence"])
    metrics = json.loads(DP_RNN.evaluate(folder))
    assert "shortlist" not in metrics
    before = DP_RNN.scores(folder).scores
    assert (np.abs(before) <= 1).all()
    metrics = json.loads(replace(DP_RNN, scoring=(*DP_RNN.scoring, "--cut")).evaluate(folder))
    scores = DP_RNN.scores(folder)
    kept = scores.scores >= -1
    assert (kept.sum(0) == SHORTLIST).all()
    np.testing.assert_array_equal(scores.scores, np.where(kept, before, before - 2))
    true = np.equal.outer(scores.image_groups, scores.caption_groups) & kept
    held = {"i2t": 100 * true.any(1).mean(), "t2i": 100 * true.any(0).mean()}
    assert metrics["shortlist"] == SHORTLIST
    assert metrics["naive"]["in_shortlist"] == pytest.approx(held, abs=1e-4)
