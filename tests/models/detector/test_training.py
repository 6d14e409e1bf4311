"""The detector's training: interrupted anywhere, its loss terms and rates, and honest failure."""

import numpy as np
import pytest
import torch

from models.detector.data import DetectionBatches, LabelledImages
from models.detector.fpn import build_detector
from models.detector.metrics import GroundTruth
from models.detector.params import DetectorTrainingConfig
from models.detector.training import fit_detector, validate
from pipeline.runtime.errors import WorkbenchError
from pipeline.training.curve import curve_tsv
from pipeline.training.resume import ResumeFile

TRAINING = DetectorTrainingConfig(epochs=2, lr=0.002, warmup=2, clip=10.0)
SIZES = {"channels": 8, "hidden": 8, "layers": 2, "anchors": [[12.0], [20.0]], "proposals": 10}


class Squares(LabelledImages):
    def __init__(self, count, seed):
        generator = np.random.default_rng(seed)
        truths, self.pictures = [], []
        for _ in range(count):
            x, y = generator.integers(0, 18, 2)
            blue = generator.integers(2)
            picture = torch.full((3, 32, 32), 200, dtype=torch.uint8)
            picture[:, y : y + 14, x : x + 14] = torch.tensor([[[250]], [[0]], [[0]]]).roll(blue, 0)
            self.pictures.append(picture)
            box = torch.tensor([[x, y, x + 14, y + 14]], dtype=torch.float32)
            shades = torch.tensor([[1 - blue, blue]], dtype=torch.float32)
            truths.append(GroundTruth(box, torch.tensor([1]), shades))
        super().__init__(None, truths)

    def image(self, row):
        return self.pictures[row]


class StoppedError(Exception):
    """What ends a training in the middle."""


def built():
    torch.manual_seed(0)
    return build_detector("fpn_resnet18", ["square"], ["red", "blue"], **SIZES)


def trained(folder, part="", call=0):
    """Curve and weights; the training ends before a call of a part of the model, from 1."""
    model, seen = built(), []

    def stopping(*values):
        seen.append(1)
        if len(seen) == call:
            raise StoppedError
        return whole(*values)

    if part:
        whole = getattr(model, part)
        setattr(model, part, stopping)
    batches, resume = DetectionBatches(Squares(12, 0), 4, seed=1), ResumeFile(folder, "tiny", 0.0)
    history = fit_detector(model, batches, Squares(4, 1), TRAINING, resume)
    return curve_tsv(history), model.state_dict()


@pytest.fixture(scope="module")
def never(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("never"))


@pytest.mark.parametrize(("part", "call"), [("losses", 1), ("losses", 4), ("regions", 1)])
def test_interrupted_it_ends_with_the_same_bytes(never, tmp_path, part, call):
    with pytest.raises(StoppedError):
        trained(tmp_path, part, call)
    curve, weights = trained(tmp_path)
    assert curve == never[0]
    assert all(torch.equal(value, weights[name]) for name, value in never[1].items())


def test_the_curve_names_the_loss_terms_and_the_rate_falls(never):
    header, *rows = never[0].splitlines()
    terms = ["objectness", "proposal_box", "class", "box", "attributes"]
    judged = ["val_recall", "val_map", "val_attributes"]
    ends = ["lr", "best", "cap", "ended", "sha256"]
    assert header.split() == ["epoch", "loss", *(f"loss_{t}" for t in terms), *judged, *ends]
    values = [[float(value) for value in row.split("\t")[:-4]] for row in rows]
    assert values[1][1] == pytest.approx(sum(values[1][2:7]), rel=1e-4)
    # of the third and the sixth of 6 steps, after the warm-up
    assert [row[-1] for row in values] == pytest.approx([0.002 * 4 / 6, 0.002 / 6], rel=1e-4)


def fitted(model, folder, validation):
    batches = DetectionBatches(Squares(8, 0), 4, seed=1)
    return fit_detector(model, batches, validation, TRAINING, ResumeFile(folder, "x", 1e6))


def test_a_loss_that_is_not_finite_stops_the_training(tmp_path):
    model = built()
    torch.nn.init.constant_(model.roi_heads.attribute_predictor.scores.bias, float("nan"))
    with pytest.raises(
        WorkbenchError, match=r"not finite in epoch 1, by step 2: .*attributes\n.*lr"
    ):
        fitted(model, tmp_path, Squares(2, 1))


def test_no_validation_images_give_no_figures(tmp_path):
    assert validate(built(), Squares(0, 0), 4) == {}
    assert not any(name.startswith("val_") for name in fitted(built(), tmp_path, Squares(0, 0))[0])
