"""The dual path from pixels through `stages.train` and `stages.score`, as a user runs it."""

import shutil
from contextlib import chdir

import numpy as np
import pytest
import torch
from commands import succeed
from dual_path_runs import PLAIN, PSEUDO, RUN, losses, prepare, stage_1, stage_2, started
from PIL import Image
from rankings import rsum, rsum_of
from tiny_inputs import CLASSES, PATHS, SIDE, replace_images, write_coloured_images

from models.backbone.image_cnn import pixels_of
from models.dual_path.classes import read_pseudo_classes
from models.dual_path.model import DualPath
from pipeline.corpus.tables import load_images
from pipeline.features.data import Inputs
from pipeline.training.process_group import ProcessGroup
from pipeline.training.trainer import WINDOW
from stages.cluster_pseudo_classes import main as cluster


@pytest.fixture(scope="module")
def plain(world, tmp_path_factory):
    folder = shutil.copytree(world, tmp_path_factory.mktemp("plain"), dirs_exist_ok=True)
    return losses(folder, **PLAIN)


@pytest.fixture(scope="module")
def trained(world, tmp_path_factory):
    folder = shutil.copytree(world, tmp_path_factory.mktemp("trained"), dirs_exist_ok=True)
    RUN.train(folder)
    return folder


def test_both_stages_beat_chance_from_pixels(tmp_path):
    """Pictures of the same two colours are one group, as those of a person are."""
    counts = {"train": 75, "val": 15, "test": 15}
    write_coloured_images(tmp_path, counts, lambda name, number: f"{name[:3]}{number % 15}")
    RUN.set_params(tmp_path, phases=[stage_1(10), stage_2(3)], alignment="left")
    prepare(tmp_path)
    training = started(tmp_path)
    assert training.model.criterion["instance"].weight.shape == (15, 16)
    assert [phase.selects for phase in training.phases] == [False, True]
    RUN.run_training(tmp_path)
    assert RUN.curve(tmp_path)["phase"].tolist() == ["stage_1"] * 10 + ["stage_2"] * 3
    assert RUN.curve(tmp_path)["lr"].tolist() == [0.01] * 10 + [0.003] * 3
    errors = RUN.curve(tmp_path)[["image_error", "text_error"]]
    assert ((errors >= 0) & (errors <= 1)).all(axis=None)
    assert (errors.iloc[9] < errors.iloc[0] - 0.1).all()
    RUN.score(tmp_path)
    for split in ("val", "test"):
        scores = RUN.scores(tmp_path, split)
        generator = np.random.default_rng(0)
        shape = scores.scores.shape
        chance = [rsum(scores, generator.random(shape, np.float32)) for _ in range(50)]
        assert rsum_of(scores) > max(np.mean(chance) + 100, *chance)


def test_same_bytes_again_whatever_the_number_of_threads_that_decode(trained, folder):
    assert RUN.train(folder, training__workers=2) == RUN.results(trained)
    assert not list((folder / "data/.work").glob("train-*"))


def test_the_checkpoint_holds_the_network_and_no_classifier(trained):
    weights = RUN.checkpoint(trained).weights
    parts = {"image_cnn", "image_head", "text", "text_head", "image_standardise"}
    assert {name.split(".")[0] for name in weights} == parts | {"pixel_mean", "pixel_deviation"}
    architecture = RUN.checkpoint(trained).description.architecture
    assert architecture["image_layers"] == "layer1"
    assert (architecture["image_crop"], architecture["slots"]) == (SIDE, 12)
    assert "phases" in RUN.checkpoint(trained).description.params["dual_path"]


def test_stage_2_trains_the_image_cnn(folder):
    RUN.set_params(folder, phases=[stage_1(1), stage_2(1)])
    training = started(folder)
    model = training.model
    first, second = training.phases
    assert (first.name, second.name) == ("stage_1", "stage_2")
    assert (first.ranks, second.ranks) == (False, True)  # what may collapse is watched
    before = {name: value.clone() for name, value in model.weights().items()}
    model.train()
    model.enter(second)
    optimiser = torch.optim.Adam(model.parameters(), second.lr)
    with chdir(folder):
        for batch in second.batches.epoch(1):
            optimiser.zero_grad()
            model.batch_loss(batch, second, ProcessGroup()).value.backward()
            optimiser.step()
    after = model.weights()
    same = {name for name, value in before.items() if torch.equal(value, after[name])}
    assert same == {
        "pixel_mean",
        "pixel_deviation",
        "image_standardise.mean",
        "image_standardise.scale",
    }


def test_pixels_are_squashed_and_normalised_as_the_network_of_the_features(tmp_path):
    """Images twice as wide as high; scores of the cached features are met from pixels."""
    write_coloured_images(tmp_path)
    table = tmp_path / PATHS["images"]
    wide = {
        number: Image.open(tmp_path / path).resize((2 * SIDE, SIDE))
        for number, path in enumerate(load_images(table)["path"])
    }
    replace_images(table, tmp_path, wide, (2 * SIDE, SIDE))
    own = {"image_features__resize": "squash", "image_features__normalisation": "caffe"}
    RUN.set_params(tmp_path, **own)
    prepare(tmp_path)
    RUN.train(tmp_path, **own, phases=[stage_1(1, "pixels")], flip=False)
    trained = RUN.checkpoint(tmp_path)
    sizes = trained.description.architecture
    assert (sizes["image_resizing"], sizes["image_normalisation"]) == ("squash", "caffe")
    model = DualPath.from_checkpoint(trained, "dual_path")
    with chdir(tmp_path):
        data = DualPath.open_data(model.config, Inputs(**RUN.paths(tmp_path)))
        pixels = model.scored_split(data, "test").images(np.arange(9))
        assert data.images.is_to_be_loaded  # from pixels no feature is read
        square = Image.open("test4.png").convert("RGB").resize((SIDE, SIDE), 2)
        bgr = np.asarray(square)[..., ::-1].transpose(2, 0, 1)
        np.testing.assert_array_equal(pixels[4], bgr)
        with torch.inference_mode():
            found = model.image_features(pixels)
            shown = torch.from_numpy(bgr.astype(np.float32))
            shown -= torch.tensor([103.939, 116.779, 123.68]).view(3, 1, 1)
            torch.testing.assert_close(found[4], model.image_cnn(shown[None])[0])
        expected = data.split("test").images(np.arange(9))
        torch.testing.assert_close(found, expected, rtol=2e-3, atol=float(expected.max()) / 500)
        with torch.inference_mode():
            query = model.embed_images(pixels_of(sizes)(Image.open("test4.png").convert("RGB")))
            vectors = model.index(model.embed_images(pixels))
        torch.testing.assert_close(model.index(query)[0], vectors[4], rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "value"),
    [
        ("alignment", "left"),
        ("instance", "sum"),
        ("sampled_classes", 3),
        ("margin", 0.3),
        ("loss", "max_margin"),
        ("training__optimiser", "sgd"),
        ("training__weight_decay", 0.1),
        ("text_pool", "mean"),
        ("flip", True),
        ("crop", SIDE - 8),
        ("word_vectors", "pretrained"),
        ("standardise_images", False),
    ],
)
def test_what_is_read_decides_the_training(folder, plain, change, value):
    assert losses(folder, **(PLAIN | {change: value})) != plain


def test_a_phase_may_have_a_ranking_loss_of_its_own(folder, plain):
    phases = [stage_1(1), stage_2(1, loss="sum_margin")]
    RUN.train(folder, **PLAIN, loss="max_margin", phases=phases)
    assert RUN.curve(folder)["loss"].tolist() == plain
    phases = [stage_1(1), stage_2(1, loss="max_margin")]
    RUN.train(folder, **PLAIN, loss="sum_margin", phases=phases)
    of_phase = RUN.curve(folder)["loss"].tolist()
    assert of_phase != plain
    assert of_phase == losses(folder, **PLAIN, loss="max_margin")
    RUN.set_params(folder, **PLAIN, phases=[stage_1(1, loss="hinge")])
    assert "dual_path.phases.0.loss = 'hinge': allowed are infonce" in RUN.refused(folder)


def test_classes_are_those_of_the_file(folder):
    own = {"pseudo_classes__source": "kmeans", "pseudo_classes__k": 5}
    RUN.set_params(folder, **own, phases=[stage_1(1), stage_2(1)])
    succeed(cluster, folder, *PSEUDO)
    classes = read_pseudo_classes(folder / CLASSES)
    assert len(classes) == 5
    training = started(folder)
    assert training.model.criterion["instance"].weight.shape == (5, 16)
    for phase in training.phases:
        assert phase.batches.labels.tolist() == classes.classes.tolist()
        assert phase.batches.groups.tolist() != classes.classes.tolist()
    RUN.run_training(folder)
    assert np.isfinite(RUN.curve(folder)["loss"]).all()


def test_stage_1_ends_when_it_has_converged(folder):
    """No epochs lower the loss by all of it, so it ends as soon as it is looked at."""
    RUN.set_params(folder, phases=[stage_1(2 * WINDOW + 5, stop_below=1.0), stage_2(2)])
    message = RUN.run_training(folder)
    assert f"phase stage_1 has converged after {2 * WINDOW} epochs" in message
    assert RUN.curve(folder)["phase"].tolist() == ["stage_1"] * 2 * WINDOW + ["stage_2"] * 2
    assert RUN.curve(folder)["lr"].tolist() == [0.01] * 2 * WINDOW + [0.003] * 2
