"""SCAN and DP-RNN through `stages.train`, `stages.score` and `stages.evaluate`."""

import json

import numpy as np
import pytest
import torch
from region_runs import (
    MODELS,
    SHORTLIST,
    checkpoint,
    evaluate,
    fail,
    score_command,
    set_params,
    succeed,
    train,
)
from tiny_inputs import IMAGES, REGIONS, SLOTS, WORDS, write_inputs, write_regions, write_vocabulary

from models.dp_rnn.network import DPRNN
from models.scan.network import SCAN
from pipeline.corpus.tables import in_split, load_captions
from pipeline.corpus.vocabulary import Vocabulary
from pipeline.inputs.regions import RegionRows
from pipeline.scores.file import read_scores
from pipeline.storage.features import FeatureFile
from stages.export_regions import main as export_stage
from stages.extract_region_features import main as extract_stage
from stages.score import main as score_stage


@pytest.fixture
def folder(tmp_path):
    write_inputs(tmp_path)
    write_regions(tmp_path)
    return tmp_path


LONG = {"scan": 20, "dp_rnn": {"matching": 15, "recurrent": 2, "all": 6}}


@pytest.mark.parametrize("model", MODELS)
def test_learns_what_captions_say(folder, model):
    """A random R@1 among 9 images is 11 %; the metrics say which of them were looked at."""
    changes = {"training__epochs": LONG[model], "training__lr_step": 50, "dim": 16}
    train(folder, model, loss="sum_margin", **changes)
    metrics = json.loads(evaluate(folder, model))
    assert metrics["naive"]["t2i"]["r1"] > 33
    assert metrics["naive"]["i2t"]["r1"] > 33
    assert metrics["naive"]["rsum"] > 430
    assert metrics.get("shortlist") == (SHORTLIST if model == "dp_rnn" else None)
    scores = read_scores(folder / f"out/{model}.h5", "test").scores
    in_full = SHORTLIST if model == "dp_rnn" else IMAGES["test"]
    assert ((scores >= -1).sum(0) == in_full).all()


def built(folder, model, kind):
    """The trained network, and functions from an image's or caption's id to its inputs."""
    network = checkpoint(folder, model).build(kind)
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
    train(folder, "scan", direction=direction, pooling="lse", position_gate=True)
    succeed(score_stage, folder, *score_command("scan"))
    network, image, caption = built(folder, "scan", SCAN)
    for split in ("val", "test"):
        scores = read_scores(folder / "out/scan.h5", split)
        check_ids(folder, scores, split)
        with torch.inference_mode():
            one_by_one = [
                [network(*image(i), *caption(c)).item() for c in scores.caption_ids]
                for i in scores.image_ids
            ]
        np.testing.assert_allclose(scores.scores, one_by_one, atol=1e-5)


@pytest.mark.parametrize("orientation", ["both", "object"])
def test_scores_of_the_shortlist_are_the_recurrent_ones(folder, orientation):
    train(folder, "dp_rnn", orientation=orientation)
    succeed(score_stage, folder, *score_command("dp_rnn"))
    network, image, caption = built(folder, "dp_rnn", DPRNN)
    scores = read_scores(folder / "out/dp_rnn.h5", "test")
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
def test_other_inputs_than_those_of_the_training_are_refused(folder, model):
    train(folder, model)
    write_regions(folder, params='{"boxes": 36}', weights_sha256="c" * 64)
    message = fail(score_stage, folder, *score_command(model))
    assert 'features params {"boxes": 36} (trained with {})' in message
    assert "features weights sha256 cccc" in message
    write_regions(folder)
    write_vocabulary(folder, WORDS[::-1])
    message = fail(score_stage, folder, *score_command(model))
    assert "does not fit its inputs: vocabulary sha256" in message
    assert not (folder / f"out/{model}.h5").exists()


def test_the_option_shortlist_belongs_to_dp_rnn(folder):
    train(folder, "scan")
    message = fail(score_stage, folder, *score_command("scan"), "--shortlist", "3")
    assert "model 'scan' does not take the option --shortlist" in message
    train(folder, "dp_rnn")
    message = fail(score_stage, folder, *score_command("dp_rnn")[:-2])
    assert "model 'dp_rnn' needs the option --shortlist" in message


def test_regions_written_for_scan_and_read_again_give_the_same_metrics(folder):
    direct = train(folder, "scan"), evaluate(folder, "scan")
    tables = ["--images", "corpus/images.parquet", "--captions", "corpus/captions.parquet"]
    kind = ["--format", "scan_npy", "--output", "exported"]
    succeed(export_stage, folder, REGIONS, *kind, *tables)
    imported = {"regions__source": "scan_npy", "regions__path": "exported"}
    imported |= {"regions__boxes": "adaptive", "regions__max": SLOTS, "regions__min": 1}
    set_params(folder, "scan", **imported)
    succeed(extract_stage, folder, *tables, "--output", "back.h5")
    again = train(folder, "scan", "back.h5", **imported), evaluate(folder, "scan", "back.h5")
    assert again[1] == direct[1]
    assert again[0][1] == direct[0][1]
    assert FeatureFile(folder / "back.h5").attributes["has_boxes"] == 0


@pytest.mark.parametrize("orientation", ["word", "object"])
def test_one_orientation_is_one_network(folder, orientation):
    train(folder, "dp_rnn", orientation=orientation)
    towers = {name.split(".")[1] for name in checkpoint(folder, "dp_rnn").weights if "." in name}
    assert towers == {orientation}
    assert json.loads(evaluate(folder, "dp_rnn"))["shortlist"] == SHORTLIST


def test_without_recurrence_only_the_matching_is_trained_and_nothing_is_selected(folder):
    train(folder, "dp_rnn", recurrent=False)
    curve = (folder / "out/dp_rnn.tsv").read_text().splitlines()[1:]
    assert [line.split("\t")[1] for line in curve] == ["matching"] * 3
    weights = checkpoint(folder, "dp_rnn").weights
    assert not any(".recurrent." in name for name in weights)
    assert not bool(weights["recurrence"])
    metrics = json.loads(evaluate(folder, "dp_rnn"))
    assert "shortlist" not in metrics
    assert (np.abs(read_scores(folder / "out/dp_rnn.h5", "test").scores) <= 1).all()
