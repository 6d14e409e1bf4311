"""The detector's training: kills at any point, its loss terms, and honest failure."""

import pytest
import torch
from forked import run_script
from killed_detector import POINTS, SIZES, TRAINING, Squares

from models.detector.data import DetectionBatches
from models.detector.fpn import build_detector
from models.detector.training import fit_detector, validate
from pipeline.runtime.errors import WorkbenchError
from pipeline.training.resume import ResumeFile


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("killed")
    run_script("killed_detector.py", folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS[1:])
def test_killed_anywhere_it_ends_with_the_same_bytes(outcomes, point):
    for ending in ("tsv", "safetensors"):
        killed, never = (outcomes / f"{name}.{ending}" for name in (point, "never"))
        assert killed.read_bytes() == never.read_bytes()


@pytest.mark.slow
def test_the_curve_names_the_loss_terms(outcomes):
    header, *rows = (outcomes / "never.tsv").read_text().splitlines()
    terms = ["objectness", "proposal_box", "class", "box", "attributes"]
    judged, ends = ["val_recall", "val_map", "val_attributes"], ["lr", "sha256"]
    assert header.split() == ["epoch", "loss", *(f"loss_{t}" for t in terms), *judged, *ends]
    values = [float(value) for value in rows[1].split()[:-1]]
    assert len(rows) == 2
    assert values[1] == pytest.approx(sum(values[2:7]), rel=1e-4)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return build_detector("fpn_resnet18", ["square"], ["red", "blue"], **SIZES)


def fitted(model, folder, validation):
    batches = DetectionBatches(Squares(8, 0), 4, seed=1)
    return fit_detector(model, batches, validation, TRAINING, ResumeFile(folder, "x", 1e6))


def test_the_learning_rate_of_each_step_rises_and_falls(model, tmp_path):
    rates, step = [], torch.optim.AdamW.step

    class Watched(torch.optim.AdamW):
        def step(self, *arguments):
            rates.append(self.param_groups[0]["lr"])
            return step(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.optim, "AdamW", Watched)
        fitted(model, tmp_path, Squares(0, 0))
    shares = [0.5 * 1, 0.75, 0.5, 0.25]
    assert rates == pytest.approx([share * TRAINING.lr for share in shares])


def test_a_loss_that_is_not_finite_stops_the_training(model, tmp_path):
    torch.nn.init.constant_(model.roi_heads.attribute_predictor.scores.bias, float("nan"))
    with pytest.raises(
        WorkbenchError, match=r"not finite in epoch 1, by step 2: .*attributes\n.*lr"
    ):
        fitted(model, tmp_path, Squares(2, 1))


def test_no_validation_images_give_no_figures(model, tmp_path):
    assert validate(model, Squares(0, 0), 4) == {}
    assert not any(name.startswith("val_") for name in fitted(model, tmp_path, Squares(0, 0))[0])
