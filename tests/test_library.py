"""Settings and arguments of the library's classes that are not allowed."""

import numpy as np
import pytest
import torch

from vse_workbench import (
    FisherVector,
    InstanceLoss,
    PairLoss,
    fit_mixture,
    loss_class,
    pool_cosines,
)

RANKING = loss_class("sum_margin")(margin=0.2)
ROWS = np.eye(4, 2, dtype=np.float32)
MIXTURE = fit_mixture(ROWS, "gmm", centres=1, iterations=1, seed=0)[0]
ENCODER = FisherVector(list("abcd"), ROWS, MIXTURE)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: PairLoss(RANKING, "max"), "reduction 'max': allowed are sum and mean"),
        (lambda: InstanceLoss(2, 2, "both"), "instance 'both': allowed are separate and sum"),
        (lambda: loss_class("knn_margin")(margin=0.2, k=0), "k = 0: must be a whole number from 1"),
        (lambda: pool_cosines(torch.ones(1, 1, 1), torch.ones(1), "max", 6.0), "pooling 'max'"),
        (lambda: fit_mixture(ROWS, "gmn", 1, 1, 0), "kind 'gmn': allowed are gmm, lmm, hglmm"),
        (lambda: ENCODER.encode("red"), "captions must be lists of words"),
        (lambda: ENCODER.encode(["red", "a dog"]), "captions must be lists of words"),
    ],
)
def test_a_value_that_is_not_allowed_is_an_error(call, message):
    with pytest.raises(ValueError, match=message):
        call()
