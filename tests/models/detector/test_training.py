"""The detector's training: kills at any point, the learning rate, and honest failure."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from killed_detector import POINTS, RECIPE, SIZES, Squares

from models.detector.data import DetectionBatches
from models.detector.fpn import build_detector
from models.detector.training import _Loop, fit_detector, validate
from pipeline.runtime.errors import WorkbenchError
from pipeline.training.resume import ResumeFile

HERE = Path(__file__).resolve().parents[2] / "support"


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("killed")
    subprocess.run(
        [sys.executable, HERE / "killed_detector.py", folder],
        check=True,
        env=os.environ | {"PYTHONPATH": str(HERE.parents[2]), "OMP_NUM_THREADS": "1"},
    )
    return folder


@pytest.mark.parametrize("point", POINTS[1:])
def test_killed_anywhere_it_ends_with_the_same_bytes(outcomes, point):
    for ending in ("tsv", "safetensors"):
        killed, never = (outcomes / f"{name}.{ending}" for name in (point, "never"))
        assert killed.read_bytes() == never.read_bytes()


def test_the_curve_names_the_loss_terms(outcomes):
    header, *rows = (outcomes / "never.tsv").read_text().splitlines()
    terms = ["objectness", "proposal_box", "class", "box", "attributes"]
    judged = ["val_recall", "val_map", "val_attributes"]
    assert header.split() == ["epoch", "loss", *(f"loss_{t}" for t in terms), *judged, "lr"]
    values = [float(value) for value in rows[1].split()]
    assert len(rows) == 2
    assert values[1] == pytest.approx(sum(values[2:7]), rel=1e-4)


@pytest.fixture
def loop(tmp_path):
    torch.manual_seed(0)
    model = build_detector("fpn_resnet18", ["square"], ["red", "blue"], **SIZES)
    batches = DetectionBatches(Squares(8, 0), 4, seed=1)
    return _Loop(model, batches, RECIPE, ResumeFile(tmp_path, "x", 1e6))


def test_the_learning_rate_rises_and_falls(loop):
    shares = []
    for epoch in (0, 1):
        for step in (0, 1):
            loop.epoch, loop.step = epoch, step
            shares.append(loop.lr_share())
    assert shares == pytest.approx([0.5 * 1, 0.75, 0.5, 0.25])


def test_a_loss_that_is_not_finite_stops_the_training(loop):
    torch.nn.init.constant_(loop.model.roi_heads.attribute_predictor.scores.bias, float("nan"))
    with pytest.raises(
        WorkbenchError, match=r"not finite in epoch 1, by step 2: .*attributes\n.*lr"
    ):
        fit_detector(loop.model, loop.batches, Squares(2, 1), RECIPE, loop.resume)


def test_no_validation_images_give_no_figures(loop):
    assert validate(loop.model, Squares(0, 0), 4, 0.2) == {}
