"""What holds for the network of every model that a batch of pairs trains."""

from functools import partial

import pytest
import torch
from losses import pair_loss
from models.scan.network import SCAN
from models.vse.network import VSE
from models.vse_infinity.network import VSEInfinity

from models.two_branch.network import TwoBranch

generator = torch.Generator().manual_seed(1)
VECTORS, SENTENCES = (torch.randn(6, width, generator=generator) for width in (9, 7))
REGIONS = [torch.rand(6, 5, width, generator=generator) for width in (9, 4)]
REGIONS.append(torch.tensor([5, 1, 3, 2, 5, 4]))
WORDS = torch.randint(1, 20, (6, 4), generator=generator), torch.tensor([4, 1, 3, 2, 4, 4])
gated_scan = partial(SCAN, 9, 20, 7, 8, position_gate=True)
two_branch = partial(TwoBranch, 9, 7, dim=5, dropout=0.0)
CASES = {
    "vse": (partial(VSE, 9, 20, 7, 5, 8), VECTORS, *WORDS),
    "scan t2i": (partial(gated_scan, direction="t2i", pooling="mean"), *REGIONS, *WORDS),
    "scan i2t": (partial(gated_scan, direction="i2t", pooling="lse"), *REGIONS, *WORDS),
    "gpo": (partial(VSE, 9, 20, 7, 5, 8, text_pool="gpo"), VECTORS, *WORDS),
    "vse infinity": (partial(VSEInfinity, 9, 20, 7, 8), *REGIONS, *WORDS),
    "two branches": (partial(two_branch, hidden=12), VECTORS, SENTENCES),
    "without batch norm": (partial(two_branch, hidden=12, batch_norm=0), VECTORS, SENTENCES),
    "linear": (partial(two_branch, hidden=0), VECTORS, SENTENCES),
}


@pytest.fixture(params=CASES)
def network_and_inputs(request):
    make, *inputs = CASES[request.param]
    torch.manual_seed(0)
    return make(), inputs


def scores_of(network, inputs):
    found = network(*inputs)
    return found if isinstance(found, torch.Tensor) else found[0] @ found[1].T


def test_every_weight_learns(network_and_inputs):
    network, inputs = network_and_inputs
    pair_loss("sum_margin", 0.5)(scores_of(network, inputs), torch.arange(6)).backward()
    for name, value in network.named_parameters():
        assert value.grad is not None, name
        assert value.grad.isfinite().all(), name
        assert value.grad.abs().max() > 1e-6, name


def test_results_are_float32_inside_autocast(network_and_inputs):
    network, inputs = network_and_inputs
    exact = network(*inputs)
    with torch.autocast("cpu", torch.bfloat16):
        reduced = network(*inputs)
    torch.testing.assert_close(reduced, exact, rtol=0, atol=0.05)
