"""SCAN and DP-RNN through `stages.train`, `stages.score` and `stages.evaluate`."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from commands import succeed
from model_runs import DP_RNN, SCAN, SHORTLIST
from tiny_inputs import IMAGES, REGIONS, SLOTS, WORDS, write_regions, write_vocabulary

from models.dp_rnn.network import DPRNN
from models.scan.network import SCAN as Network
from pipeline.corpus.tables import in_split, load_captions
from pipeline.corpus.vocabulary import Vocabulary
from pipeline.inputs.regions import RegionRows
from pipeline.storage.features import FeatureFile
from stages.extract_region_features import main as extract_stage
from vse_workbench.commands.export_regions import main as export_stage

MODELS = ("scan", "dp_rnn")
RUNS = {"scan": SCAN, "dp_rnn": DP_RNN}
LONG = {"scan": 20, "dp_rnn": {"matching": 15, "recurrent": 2, "all": 6}}


@pytest.mark.parametrize("model", MODELS)
def test_learns_what_captions_say(folder, model):
    """A random R@1 among 9 images is 11 %; the metrics say which of them were looked at."""
    changes = {"training__epochs": LONG[model], "training__lr_step": 50, "dim": 16}
    RUNS[model].train(folder, loss="sum_margin", **changes)
    metrics = json.loads(RUNS[model].evaluate(folder))
    assert metrics["naive"]["t2i"]["r1"] > 33
    assert metrics["naive"]["i2t"]["r1"] > 33
    assert metrics["naive"]["rsum"] > 430
    assert metrics.get("shortlist") == (SHORTLIST if model == "dp_rnn" else None)
    scores = RUNS[model].scores(folder).scores
    in_full = SHORTLIST if model == "dp_rnn" else IMAGES["test"]
    assert ((scores >= -1).sum(0) == in_full).all()


def built(folder, model, kind):
    """The trained network, and functions from an image's or caption's id to its inputs."""
    network = RUNS[model].checkpoint(folder).build(kind)
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


@pytest.mark.parametrize("direction", ["t2i", "i2t"])
def test_scores_in_the_file_are_the_models(folder, direction):
    SCAN.train(folder, direction=direction, pooling="lse", position_gate=True)
    SCAN.score(folder)
    network, image, caption = built(folder, "scan", Network)
    for split in ("val", "test"):
        scores = SCAN.scores(folder, split)
        check_ids(folder, scores, split)
        with torch.inference_mode():
            one_by_one = [
                [network(*image(i), *caption(c)).item() for c in scores.caption_ids]
                for i in scores.image_ids
            ]
        np.testing.assert_allclose(scores.scores, one_by_one, atol=1e-5)


@pytest.mark.parametrize("orientation", ["both", "object"])
def test_scores_of_the_shortlist_are_the_recurrent_ones(folder, orientation):
    DP_RNN.train(folder, orientation=orientation)
    DP_RNN.score(folder)
    network, image, caption = built(folder, "dp_rnn", DPRNN)
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


@pytest.mark.parametrize("model", MODELS)
def test_other_inputs_than_those_of_the_training_are_refused(trained, model):
    write_regions(trained, params='{"boxes": 36}', weights_sha256="c" * 64)
    message = RUNS[model].not_scored(trained)
    assert 'features params {"boxes": 36} (trained with {})' in message
    assert "features weights sha256 cccc" in message
    write_regions(trained)
    write_vocabulary(trained, WORDS[::-1])
    assert "does not fit its inputs: vocabulary sha256" in RUNS[model].not_scored(trained)


def test_options_of_other_models_are_refused(trained):
    message = SCAN.not_scored(trained, "--shortlist", "3")
    assert "model 'scan' does not take the option --shortlist" in message
    message = replace(DP_RNN, scoring=()).not_scored(trained)
    assert "model 'dp_rnn' needs the option --shortlist" in message
    message = SCAN.not_scored(trained, "--keep", "embeddings")
    assert "model 'scan' does not take the option --keep" in message


def test_regions_written_for_scan_and_read_again_give_the_same_metrics(trained):
    direct = SCAN.results(trained), SCAN.evaluate(trained)
    tables = ["--images", "corpus/images.parquet", "--captions", "corpus/captions.parquet"]
    kind = ["--format", "scan_npy", "--output", "exported"]
    succeed(export_stage, trained, REGIONS, *kind, *tables)
    imported = {"regions__source": "scan_npy", "regions__path": "exported"}
    imported |= {"regions__boxes": "adaptive", "regions__max": SLOTS, "regions__min": 1}
    SCAN.set_params(trained, **imported)
    succeed(extract_stage, trained, *tables, "--output", "back.h5")
    SCAN.run_training(trained, features="back.h5")
    again = SCAN.results(trained), SCAN.evaluate(trained, features="back.h5")
    assert again[1] == direct[1]
    assert again[0][1] == direct[0][1]
    assert FeatureFile(trained / "back.h5").attributes["has_boxes"] == 0


def test_without_recurrence_only_the_matching_is_trained_and_nothing_is_selected(folder):
    DP_RNN.train(folder, recurrent=False)
    curve = (folder / "out/dp_rnn.tsv").read_text().splitlines()[1:]
    assert [line.split("\t")[1] for line in curve] == ["matching"] * 3
    weights = DP_RNN.checkpoint(folder).weights
    assert not any(".recurrent." in name for name in weights)
    assert not bool(weights["recurrence"])
    metrics = json.loads(DP_RNN.evaluate(folder))
    assert "shortlist" not in metrics
    assert (np.abs(DP_RNN.scores(folder).scores) <= 1).all()
