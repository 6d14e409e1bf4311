"""The two-branch network behind an image CNN: what it computes, trains, keeps and refuses."""

import shutil
from contextlib import chdir

import numpy as np
import pytest
import torch
from commands import fail, succeed
from fine_tuning_runs import PHASE, RUN, extracted, prepare
from PIL import Image
from rankings import rsum_of
from tiny_inputs import NETWORK, PATHS, SENTENCES, SIDE, replace_images

from models.backbone.network import read_network, write_network
from models.two_branch import TwoBranch, TwoBranchConfig
from pipeline.corpus.tables import load_images
from pipeline.features.checkpoint import write_checkpoint
from pipeline.features.weights import read_weights
from pipeline.training.process_group import ProcessGroup
from stages.check_params import main as check_params
from vse_workbench import Embedder
from vse_workbench.commands.export_image_network import main as export
from vse_workbench.export.folder import write_config, write_folder
from vse_workbench.export.onnx import open_sides
from vse_workbench.search.embedder import QueryEmbedder

CPU = torch.device("cpu")
SLOW = {"training__lr": 0.0001}  # of the first phase, so that the second is better
SEEN = {
    "centre": {},
    "ten_crop": {"views": "ten_crop", "pool": "mean", "layers": ["layer1", "layer2"]},
    "flip": {"views": "flip", "resize": "squash", "normalisation": "caffe", "pool": "max"},
}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("world")
    prepare(folder)
    return folder


@pytest.fixture(scope="module")
def tuned(world, tmp_path_factory):
    folder = shutil.copytree(world, tmp_path_factory.mktemp("tuned"), dirs_exist_ok=True)
    RUN.train(folder, **SLOW)
    assert RUN.checkpoint(folder).description.epoch > 2
    RUN.score(folder)
    return folder


@pytest.mark.parametrize("seen", SEEN)
def test_an_image_cnn_that_was_not_trained_gives_the_embeddings_of_cached_features(folder, seen):
    """Of images twice as wide as high."""
    table = folder / PATHS["images"]
    paths = enumerate(load_images(table)["path"])
    wide = {n: Image.open(folder / path).resize((2 * SIDE, SIDE)) for n, path in paths}
    replace_images(table, folder, wide, (2 * SIDE, SIDE))
    own = {f"image_features__{key}": value for key, value in SEEN[seen].items()}
    extracted(folder, **own)
    pixels_agree_with_features(folder)


def test_a_network_of_timm_is_tuned_at_the_size_that_it_takes(folder):
    own = {"image_features__model": "timm/test_vit", "image_features__layers": ["token"]}
    own |= {"image_features__size": None}
    extracted(folder, **own)
    said = RUN.refused(folder)
    assert "two_branch.fine_tuning.crop = 28: the network of image_features does not take" in said
    assert len(said.splitlines()) == 2
    RUN.set_params(folder, **own, fine_tuning=PHASE | {"resize": 160, "crop": 160})
    pixels_agree_with_features(folder)


def pixels_agree_with_features(folder):
    """To the float16 of the cache; gradients reach the first layer of the image CNN."""
    job = RUN.prepared(folder)
    model, data = job.model, job.data
    with chdir(folder):
        found = model.score_split(model.scored_split(data, "val"))
        expected = model.score_split(data.split("val"))
    np.testing.assert_allclose(found.image_embeddings, expected.image_embeddings, atol=2e-3)
    np.testing.assert_array_equal(found.caption_embeddings, expected.caption_embeddings)
    assert np.ptp(expected.image_embeddings, axis=0).max() > 0.1
    objective(job, first_batch(job, folder)).backward()
    assert next(model.image_cnn.parameters()).grad.any()


def first_batch(job, folder):
    with chdir(folder):
        return next(iter(job.phases[-1].batches.epoch(0)))


def objective(job, batch):
    phase = job.phases[-1]
    job.model.train()
    job.model.enter(phase)
    return job.model.batch_loss(batch, phase, ProcessGroup()).value


def test_the_loss_goes_back_through_the_whole_image_cnn(folder):
    """Against the parts one by one: the network of the features as its file has it, on pixels
    normalised by hand, a network of vectors behind it. Batch norms keep their statistics."""
    RUN.set_params(folder, dropout=0.0, branches="linear")
    job = RUN.prepared(folder)
    network, batch = job.model, first_batch(job, folder)
    assert batch.images.shape[1:] == (3, SIDE - 4, SIDE - 4)
    before = {name: value.clone() for name, value in network.image_cnn.state_dict().items()}
    loss = objective(job, batch)
    loss.backward()
    image_cnn = read_network(folder / NETWORK).backbone.requires_grad_(True)
    sizes = {name: job.architecture[name] for name in ("image_dim", "sentence_dim")}
    behind = TwoBranch(network.config, **sizes)
    weights = network.state_dict()
    behind.load_state_dict({name: weights[name] for name in behind.state_dict()})
    mean, deviation = torch.tensor([[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]])[..., None, None]
    shown = torch.stack([(image / 255 - mean) / deviation for image in batch.images])
    images = behind.index(behind.embed_images(image_cnn(shown)))
    captions = behind.index(behind.embed_captions(batch.captions))
    ranking = network.criterion["ranking"]
    expected = ranking(images, captions, batch.image_groups, batch.caption_groups, batch.related)
    expected.backward()
    torch.testing.assert_close(loss, expected)
    slow = dict(image_cnn.named_parameters())
    for name, weight in network.image_cnn.named_parameters():
        assert weight.grad.any(), name
        largest = float(slow[name].grad.abs().max())
        torch.testing.assert_close(weight.grad, slow[name].grad, rtol=1e-3, atol=1e-3 * largest)
    torch.optim.Adam(job.model.parameters()).step()
    moved = {n for n, v in network.image_cnn.state_dict().items() if not torch.equal(v, before[n])}
    assert moved == set(slow)


def test_the_first_phase_is_that_of_a_training_without_the_second(world, tuned, tmp_path):
    shutil.copytree(world, tmp_path, dirs_exist_ok=True)
    RUN.train(tmp_path, **SLOW, fine_tuning__epochs=0)
    plain, both = RUN.curve(tmp_path), RUN.curve(tuned)
    assert both["phase"].tolist() == [*plain["phase"], "fine_tuning", "fine_tuning"]
    assert both["lr"].tolist() == [0.0001, 0.0001, 0.003, 0.003]
    kept = ["loss", "val_rsum", "val_spread"]
    np.testing.assert_array_equal(plain[kept], both[kept][:2])
    described = RUN.checkpoint(tmp_path).description
    assert "fine_tuning" not in described.params["two_branch"]
    assert {name for name in described.architecture if name.startswith("image")} == {"image_dim"}
    assert "workers" not in RUN.checkpoint(tuned).description.params["two_branch"]["fine_tuning"]


def test_the_best_epoch_of_both_phases_is_kept(folder):
    """At a rate that destroys what was learnt: one of the first, the network as it was."""
    RUN.train(folder, fine_tuning__epochs=1, fine_tuning__lr=10.0)
    trained = RUN.checkpoint(folder)
    assert trained.description.epoch < 3
    _, before, _ = read_weights(folder / NETWORK, "image network", 1)
    for name, value in before.items():
        assert torch.equal(trained.weights[f"image_cnn.{name}"], value), name


def test_the_second_phase_is_validated_as_it_is_scored(tuned):
    """By the tuned network and not by the cached features of the one before."""
    described = RUN.checkpoint(tuned).description
    assert RUN.curve(tuned)["phase"][described.epoch - 1] == "fine_tuning"
    assert rsum_of(RUN.scores(tuned, "val")) == pytest.approx(described.val_rsum, rel=1e-5)


def test_the_tuned_network_scores_answers_and_travels(tuned):
    """All of it sees pixels; a query is embedded as the image of the corpus was."""
    trained, scores = RUN.checkpoint(tuned), RUN.scores(tuned)
    network = TwoBranch.from_checkpoint(trained, "two_branch")
    paths = load_images(tuned / PATHS["images"]).set_index("image_id")["path"]
    pictures = [Image.open(tuned / paths[name]).convert("RGB") for name in scores.image_ids]
    pixels = torch.from_numpy(np.stack([np.asarray(one).transpose(2, 0, 1) for one in pictures]))
    with torch.inference_mode():
        expected = network.index(network.embed_images(pixels)).numpy()
    np.testing.assert_allclose(scores.image_embeddings, expected, atol=1e-6)
    files = {"features": tuned / PATHS["features"], "text": tuned / SENTENCES}
    files |= {name: tuned / "absent" for name in ("image_network", "encoder")}
    found = QueryEmbedder("two_branch", files, trained, CPU).of_image(pictures[4]).vector
    np.testing.assert_allclose(found, expected[4], atol=1e-6)
    tower = open_sides("two_branch", trained)["image"]
    np.testing.assert_allclose(tower.module(pixels).detach().numpy(), expected, atol=1e-6)
    assert tower.inputs["images"].shape == (2, 3, SIDE, SIDE)


def test_an_export_leaves_out_the_network_that_the_tuned_one_was(tuned, tmp_path):
    files = {"checkpoint": tuned / "out/two_branch.safetensors", "image_network": tuned / NETWORK}
    files |= {"features": tuned / PATHS["features"], "text": tuned / SENTENCES}
    files |= {"encoder": tuned / NETWORK}  # not opened
    config = write_folder(tmp_path / "o", files, RUN.checkpoint(tuned))
    write_config(tmp_path / "o", config)
    assert set(config["files"]) == {"checkpoint", "features", "text", "encoder"}
    found = Embedder.load(tmp_path / "o").images([tuned / "test4.png"])
    scores = RUN.scores(tuned)
    place = list(scores.image_ids).index("test4")
    np.testing.assert_allclose(found[0], scores.image_embeddings[place], atol=1e-6)


def test_the_tuned_image_network_can_be_taken_out(tuned, tmp_path):
    trained = RUN.checkpoint(tuned)
    succeed(export, tuned, "out/two_branch.safetensors", "--output", tmp_path / "t.safetensors")
    _, state, _ = read_weights(tmp_path / "t.safetensors", "state dict", 1)
    assert torch.equal(state["conv1.weight"], trained.weights["image_cnn.graph.conv1.weight"])
    plain = ({}, TwoBranch(TwoBranchConfig(dim=2), image_dim=3, sentence_dim=3).state_dict())
    described = trained.description.model_copy(update={"architecture": plain[0]})
    write_checkpoint(tmp_path / "plain.safetensors", plain[1], described)
    said = fail(export, tmp_path, "plain.safetensors", "--output", "o.safetensors")
    assert "plain.safetensors: two_branch has no image network of its own" in said


def test_what_cannot_be_tuned_is_refused(folder):
    RUN.set_params(folder)
    write_network(folder / NETWORK, None)
    said = RUN.refused(folder)
    assert "two_branch.fine_tuning need the network, which needs photographs" in said
    RUN.set_params(folder, fine_tuning__crop=SIDE + 1)
    said = fail(check_params, folder, "--output", "params.ok")
    assert "two_branch.fine_tuning.crop = 33: must not exceed two_branch.fine_tuning.resize" in said
    assert not (folder / "out").exists()
