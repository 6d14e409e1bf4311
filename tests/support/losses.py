"""Ranking losses by name for tests: as models make them, and the loops they are held against."""

import importlib
import inspect
import math

import torch

from models.losses import PairLoss
from models.ranking import LOSSES, loss_class, make_loss, settings_of
from models.two_branch import StructureLoss

# Every loss is given all settings and reads its own; the logarithm is exact in float32.
TEMPERATURE = math.exp(-1.25)


def pair_loss(name, margin=0.2, k=2, reduction="sum", temperature=TEMPERATURE):
    """In evaluation mode, in which random_margin draws the same negatives again."""
    loss = make_loss(name, margin=margin, k=k, temperature=temperature)
    return PairLoss(loss, reduction).eval()


def structure_loss(name, margin, k=50, structure_k=50, reduction="sum", **weights):
    ranking = make_loss(name, margin=margin, k=k, temperature=TEMPERATURE).double().eval()
    return StructureLoss(ranking, margin, structure_k, **weights, reduction=reduction)


def slow_direction(name, scores, pairs, negatives, margin, k, temperature=TEMPERATURE):
    """A loss of one direction by the reference in its file; lists of lists in, a float out."""
    reference = importlib.import_module(LOSSES.module(name)).reference
    given = {"margin": margin, "k": k, "temperature": temperature}
    defaults = {key: setting.default for key, setting in settings_of(name).items()}
    asked = ["margin"] * takes_margin(name) + list(defaults)
    return reference(scores, pairs, negatives, **{key: (defaults | given)[key] for key in asked})


def takes_margin(name):
    return "margin" in inspect.signature(loss_class(name)).parameters


def slow_pairs(scores, groups, name, margin=0.2, k=2, reduction="sum", computed=None):
    size = len(groups)
    pairs = [[row == column for column in range(size)] for row in range(size)]
    negatives = [
        [a != b and (computed is None or bool(computed[i][j])) for j, b in enumerate(groups)]
        for i, a in enumerate(groups)
    ]
    total = slow_direction(name, scores, pairs, negatives, margin, k)
    total += slow_direction(name, transposed(scores), pairs, transposed(negatives), margin, k)
    return total / size if reduction == "mean" else total


def transposed(rows):
    return [list(column) for column in zip(*rows, strict=True)]


def l2_normalise(count, width, generator, dtype=torch.float64):
    rows = torch.randn(count, width, generator=generator, dtype=torch.float64)
    return torch.nn.functional.normalize(rows, dim=1).to(dtype)
