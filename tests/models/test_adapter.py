"""The adapter and the towers it begins with: on pairs whose right map is known, and behind a CLIP
of random weights in the real format."""

import re

import numpy as np
import pytest
import torch
from commands import fail
from corpora import write_corpus
from model_runs import ModelRuns
from text_networks import write_clip
from tiny_inputs import PATHS, SENTENCES, write_image_features

from models.adapter import Adapter, AdapterConfig
from models.base import Model
from pipeline.evaluation.score_file import SplitScores
from pipeline.features.feature_file import FeatureFile, write_features
from pipeline.training.curve import validation_columns
from stages.score import main as score_stage
from stages.train import main as train_stage

DIM = 8
COUNTS = {"train": 400, "val": 60, "test": 60}
LINEAR = {"branches": "linear", "loss": "sum_margin"}
LINEAR |= {"training": {"epochs": 30, "batch_size": 50, "lr": 0.02, "lr_step": 20}}
ADAPTER = ModelRuns("adapter", {"text": SENTENCES}, LINEAR)
ZERO_SHOT = ModelRuns("zero_shot", {"text": SENTENCES}, {"loss": "sum_margin"})
CCA = ModelRuns("cca", {"text": SENTENCES}, {"dim": DIM, "regularisation": 1e-4})


def write_pairs(folder, turn, noise=0.4):
    """Images of drawn vectors with a caption each: the image's vector turned, and some noise."""
    generator = np.random.default_rng(5)
    names = [(f"{split}{n}", split) for split, count in COUNTS.items() for n in range(count)]
    images = [(name, f"{name}.jpg", split, name, 32, 32, "0" * 64) for name, split in names]
    captions = [(f"{name}#0", name, split, "a dog", ["a", "dog"]) for name, split in names]
    write_corpus(folder / "corpus", images, captions)
    shown = generator.normal(size=(len(names), DIM))
    told = shown @ turn + noise * generator.normal(size=shown.shape)
    write_image_features(folder, [name for name, _ in names], shown.astype(np.float32))
    write_captions(folder, [row[0] for row in captions], told.astype(np.float32))
    return shown, told


def write_captions(folder, ids, vectors):
    described = {"model": "tfidf", "layer": "none", "weights_sha256": "d" * 64, "params": "{}"}
    write_features(
        folder / SENTENCES, ids, {"features": vectors}, described | {"corpus_sha256": "e" * 64}
    )


def a_rotation():
    turn, _ = np.linalg.qr(np.random.default_rng(6).normal(size=(DIM, DIM)))
    return turn


@pytest.fixture(scope="module")
def turned(tmp_path_factory):
    """Pairs whose sides differ by a rotation, and both sides' vectors."""
    folder = tmp_path_factory.mktemp("turned")
    return folder, *write_pairs(folder, a_rotation())


@pytest.fixture(scope="module")
def agreeing(tmp_path_factory):
    """Pairs whose sides are equal but for noise: zero-shot is as good as any map."""
    folder = tmp_path_factory.mktemp("agreeing")
    write_pairs(folder, np.eye(DIM), noise=0.8)
    return folder


def rsum_of(run, folder):
    run.score(folder)
    return validation_columns(run.scores(folder))["val_rsum"]


def rsum_of_least_squares(shown, told):
    """The test rsum of cosines behind the map that solves the training pairs best."""
    train, test = slice(COUNTS["train"]), slice(-COUNTS["test"], None)
    best, *_ = np.linalg.lstsq(shown[train], told[train], rcond=None)
    sides = [shown[test] @ best, told[test]]
    left, right = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in sides)
    ids = list(map(str, range(COUNTS["test"])))
    scores = SplitScores((left @ right.T).astype(np.float32), ids, ids, ids, ids)
    return validation_columns(scores)["val_rsum"]


def test_it_finds_the_rotation_that_least_squares_and_cca_find(turned):
    folder, shown, told = turned
    for run in (ZERO_SHOT, ADAPTER, CCA):
        run.train(folder)
    by_squares, by_cca = rsum_of_least_squares(shown, told), rsum_of(CCA, folder)
    assert min(by_squares, by_cca) > 500
    assert rsum_of(ZERO_SHOT, folder) < 150
    assert rsum_of(ADAPTER, folder) > max(by_squares, by_cca) - 15
    curve = ADAPTER.curve(folder)
    assert list(curve["epoch"]) == list(range(31))
    assert ADAPTER.checkpoint(folder).description.epoch > 0


def test_exact_pairs_reach_all_or_stay_there(tmp_path):
    """Captions that are their images turned, and captions that are their images."""
    write_pairs(tmp_path, a_rotation(), noise=0.0)
    ADAPTER.train(tmp_path)
    assert rsum_of(ADAPTER, tmp_path) > 595
    assert ADAPTER.checkpoint(tmp_path).description.epoch > 0
    write_pairs(tmp_path, np.eye(DIM), noise=0.0)
    ADAPTER.train(tmp_path, training={"epochs": 2, "batch_size": 50, "lr": 0.02, "lr_step": 9})
    assert rsum_of(ADAPTER, tmp_path) == 600
    assert ADAPTER.checkpoint(tmp_path).description.epoch == 0


def test_its_two_maps_are_that_rotation(turned):
    """A pair of captions' and images' maps B and A scores x A' B y: to the angle, least squares."""
    folder, shown, told = turned
    weights = ADAPTER.weights(folder)
    scale = ADAPTER.checkpoint(folder).description.architecture["scale"]
    maps = [
        np.eye(DIM) + scale * weights[f"{side}_map.0.weight"].numpy()
        for side in ("image", "sentence")
    ]
    found = maps[0].T @ maps[1]
    best, *_ = np.linalg.lstsq(shown, told, rcond=None)
    likeness = (found * best).sum() / np.linalg.norm(found) / np.linalg.norm(best)
    assert likeness > 0.95
    assert abs((np.eye(DIM) * best).sum()) / np.linalg.norm(best) / DIM**0.5 < 0.5  # from far away


@pytest.mark.parametrize("branches", ["linear", "nonlinear"])
def test_before_the_first_step_it_is_zero_shot_to_the_bit(agreeing, branches):
    """And where its training makes everything worse, that is kept."""
    ZERO_SHOT.train(agreeing)
    ZERO_SHOT.score(agreeing)
    worse = {"epochs": 2, "batch_size": 50, "lr": 30.0, "lr_step": 9, "clip": 0.0}
    ADAPTER.train(agreeing, branches=branches, training=worse)
    ADAPTER.score(agreeing)
    description = ADAPTER.checkpoint(agreeing).description
    assert description.epoch == 0
    curve = ADAPTER.curve(agreeing)
    assert list(curve["phase"]) == ["start", "sum_margin", "sum_margin"]
    assert description.val_rsum == pytest.approx(curve["val_rsum"].max(), abs=1e-3)
    kept, plain = (run.scores(agreeing) for run in (ADAPTER, ZERO_SHOT))
    assert np.array_equal(kept.matrix, plain.matrix)


def test_length_of_a_vector_plays_no_part():
    torch.manual_seed(0)
    model = Adapter(AdapterConfig(hidden=5), DIM, DIM).eval()
    for weights in model.parameters():
        torch.nn.init.normal_(weights)
    vectors = torch.randn(4, DIM)
    once, longer = (model.index(model.embed_images(scale * vectors)) for scale in (1, 50))
    torch.testing.assert_close(once, longer, rtol=0, atol=1e-6)
    assert not model.embed_captions(torch.zeros(1, DIM)).any()


def test_towers_of_unequal_width_are_refused(turned, tmp_path):
    folder, _, told = turned
    ids = FeatureFile(folder / SENTENCES).ids
    wider = tmp_path / "wider.h5"
    write_features(wider, ids, {"features": np.hstack([told, told]).astype(np.float32)}, {})
    says = "image.h5 has 8 numbers an image, .*wider.h5 16 a caption: two towers of one space"
    for run in (ADAPTER, ZERO_SHOT):
        run.set_params(folder)
        assert_matches(says, fail(train_stage, folder, *run.training_command(text=str(wider))))
    ADAPTER.train(folder, training={"epochs": 1, "batch_size": 50, "lr": 0.01, "lr_step": 9})
    command = ADAPTER.scoring_command(text=str(wider))
    assert_matches(says, fail(score_stage, folder, *command))


def assert_matches(pattern, message):
    assert re.search(pattern, message), message
    assert "Traceback" not in message


def test_behind_a_clip_of_random_weights(tmp_path):
    """Both towers in the real format: before training, the cosines that the library gives."""
    pytest.importorskip("sentence_transformers", reason="the extra `text` is not installed")
    from transformers import CLIPModel

    write_pairs(tmp_path, np.eye(DIM))
    network = CLIPModel.from_pretrained(write_clip(tmp_path / "clip") / "0_CLIPModel").eval()
    count = sum(COUNTS.values())
    generator = torch.Generator().manual_seed(0)
    colours = torch.randn(count, 3, 2, 2, generator=generator)
    pixels = torch.nn.functional.interpolate(colours, 32)
    letters = network.config.text_config.vocab_size - 2
    words = torch.randint(letters, (count, 5), generator=generator)
    words[:, -1] = network.config.text_config.eos_token_id
    with torch.inference_mode():
        output = network(input_ids=words, pixel_values=pixels)
        library = (output.logits_per_image / network.logit_scale.exp()).numpy()
    ids = FeatureFile(tmp_path / PATHS["features"]).ids
    write_image_features(tmp_path, ids, output.image_embeds.numpy())
    write_captions(tmp_path, FeatureFile(tmp_path / SENTENCES).ids, output.text_embeds.numpy())
    test = slice(-COUNTS["test"], None)
    ADAPTER.set_params(tmp_path)
    made = ADAPTER.prepared(tmp_path)
    ZERO_SHOT.train(tmp_path)
    ZERO_SHOT.score(tmp_path)
    found = made.model.score_split(made.data.split("test")), ZERO_SHOT.scores(tmp_path)
    for scores in found:
        np.testing.assert_allclose(scores.matrix, library[test, test], atol=1e-5)
    assert library.std() > 1e-3


def test_tables_are_told_what_it_began_as(agreeing):
    """In its score file and in its metrics; no other model's have that."""
    assert Model.BEGINS_AS is None
    ADAPTER.train(agreeing, training={"epochs": 1, "batch_size": 50})
    assert b'"begins_as": "zero_shot"' in ADAPTER.evaluate(agreeing)
    ZERO_SHOT.train(agreeing)
    assert b"begins_as" not in ZERO_SHOT.evaluate(agreeing)
