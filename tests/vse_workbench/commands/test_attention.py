"""`vse attention`, and what scoring keeps for the report: real models on a small
corpus, with regions that are there or lack their boxes."""

import shutil

import numpy as np
import pytest
import torch
from commands import invoke
from PIL import Image
from tiny_inputs import IMAGES, ROOT, WORDS, write_inputs, write_params

from models.attention.scoring import score_pairs
from models.dp_rnn.network import DPRNN
from models.scan.network import SCAN
from pipeline.attention.pairs import choose_pairs, read_attention
from pipeline.corpus.tables import load_captions, load_images
from pipeline.inputs.files import Inputs
from pipeline.inputs.regions import RegionInputs
from pipeline.regions.file import ImageRegions, packed
from pipeline.runtime.graph import stage_paths
from pipeline.scores.file import write_scores
from pipeline.storage.checkpoint import Description, read_checkpoint, write_checkpoint
from pipeline.storage.features import write_features
from stages.record_attention import main as record_attention
from vse_workbench.commands.attention import main

SIZES = {"image_dim": 5, "vocabulary_size": len(WORDS) + 2, "word_dim": 6, "dim": 7}
INPUTS = ("images", "captions", "features", "text")
KINDS = {"scan": SCAN, "dp_rnn": DPRNN}


def paths(model):
    return stage_paths("score", (*INPUTS, "checkpoint"), model)


def put_regions(**attributes):
    """Three regions an image, two in every third."""
    rng, ids = np.random.default_rng(0), load_images(paths("scan")["images"])["image_id"].tolist()
    found = []
    for number in range(len(ids)):
        count = 2 if number % 3 == 0 else 3
        boxes = np.sort(rng.uniform(0, 32, (count, 2, 2)), 1).reshape(count, 4).astype(np.float32)
        features = rng.normal(size=(count, 5)).astype(np.float32)
        found.append(ImageRegions((32, 32), boxes, features))
    described = {"model": "made", "weights_sha256": "c" * 64, "has_boxes": 1} | attributes
    write_features(paths("scan")["features"], ids, packed(found, 3, 5), described)


def put_model(model):
    files = paths(model)
    inputs = RegionInputs(Inputs(**{name: files[name] for name in INPUTS})).identity
    torch.manual_seed(0)
    network = KINDS[model](**SIZES)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter)
    if model == "dp_rnn":
        network.enter_phase("all")
    description = Description(
        model=model, architecture=SIZES, params={}, inputs=inputs, epoch=1, val_rsum=1.0
    )
    write_checkpoint(files["checkpoint"], network.state_dict(), description)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder as after `dvc repro`, as far as pictures of attention need it."""
    monkeypatch.chdir(tmp_path)
    write_inputs(tmp_path)
    write_params(tmp_path, dual_path__word_dim=6)
    shutil.copy(ROOT / "dvc.yaml", tmp_path)
    (tmp_path / "data").mkdir()
    for name in ("corpus", "vocabulary"):
        (tmp_path / name).rename(tmp_path / "data" / name)
    for split, count in IMAGES.items():
        for number in range(count):
            Image.new("RGB", (32, 32), (200, 9 * number, 40)).save(f"{split}{number}.jpg")
    put_regions()
    for model in KINDS:
        put_model(model)
    return tmp_path


@pytest.mark.parametrize("model", KINDS)
def test_any_caption_and_image_of_the_test_split_is_drawn(folder, model):
    for arguments in ([], ["--image", "test0"], ["--image", "test3"]):
        command = [model, "--caption", "test0#0", *arguments, "--output", "out.png"]
        code, said = invoke(main, folder, *command)
        assert code == 0, said
        shown = arguments[1] if arguments else "test0"
        assert f"out.png: {model}, image {shown}, caption test0#0" in said
        with Image.open("out.png") as picture:
            pixels = np.array(picture).astype(int)
        ground = [200, 9 * int(shown[-1]), 40]
        assert (np.abs(pixels - ground).sum(2) < 20).sum() > 10000  # the image itself
    again = (folder / "out.png").read_bytes()
    invoke(main, folder, *command)
    assert (folder / "out.png").read_bytes() == again


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["scan", "--caption", "train0#0"], "caption 'train0#0': not in the split"),
        (["scan", "--caption", "test0#0", "--image", "train0"], "image 'train0': not in the split"),
        (["vse", "--caption", "test0#0"], "model 'vse' has no attention; dp_rnn, scan have"),
        (["gpt", "--caption", "test0#0"], "model 'gpt': allowed are cca, dp_rnn,"),
        (["scan", "--caption", "test0#0", "--output", "out.jpg"], "written as .png"),
    ],
)
def test_what_cannot_be_drawn(folder, arguments, words):
    code, said = invoke(main, folder, "--output", "out.png", *arguments)
    assert code == 1
    assert words in said
    assert said.startswith("error: ")
    assert not (folder / "out.png").exists()


def test_parts_that_do_not_fit(folder):
    command = ["scan", "--caption", "test0#0", "--output", "out.png"]
    put_regions(has_boxes=0)
    put_model("scan")
    code, said = invoke(main, folder, *command)
    assert (code, "a picture of attention needs the boxes" in said) == (1, True)
    put_regions(weights_sha256="d" * 64)
    code, said = invoke(main, folder, *command)
    assert (code, "does not fit its inputs: features weights sha256" in said) == (1, True)
    paths("scan")["checkpoint"].unlink()
    assert invoke(main, folder, *command)[0] == 1


def test_what_is_kept_for_the_report(folder):
    files = paths("scan")
    checkpoint = read_checkpoint(files.pop("checkpoint"), "scan")
    inputs, device = Inputs(**files), torch.device("cpu")
    kept = ["--checkpoint", paths("scan")["checkpoint"], "--scores", folder / "scan.h5"]
    command = ["scan", *kept, *(word for k, v in files.items() for word in (f"--{k}", v))]
    split = RegionInputs(inputs).split("test")
    scores = score_pairs(checkpoint.build(SCAN), split, device)
    write_scores(folder / "scan.h5", {"test": scores}, {"model": "scan"})
    write_params(folder, seed=7)
    for name in ("one.h5", "two.h5"):
        assert invoke(record_attention, folder, *command, "--output", name)[0] == 0
    assert (folder / "one.h5").read_bytes() == (folder / "two.h5").read_bytes()
    found, captions = read_attention("one.h5"), load_captions(inputs.captions)
    words = captions.set_index("caption_id")["tokens"]
    assert len(found) == len(choose_pairs(scores, 7)) > 4
    for pair in found:
        own = pair.attention
        row, column = scores.image_ids.index(own.image_id), scores.caption_ids.index(own.caption_id)
        assert own.score == pytest.approx(scores.scores[row, column], abs=1e-5)
        assert own.words == list(words[own.caption_id])
        assert pair.place == 1 + (scores.scores[:, column] > scores.scores[row, column]).sum()
        assert np.allclose(own.weights.sum(1), 1, atol=1e-5)
    put_regions(has_boxes=0)
    assert invoke(record_attention, folder, *command, "--output", "none.h5")[0] == 0
    assert read_attention("none.h5") == []
