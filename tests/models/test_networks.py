"""What holds for every model that a batch of pairs trains."""

import pytest
import torch
from losses import pair_loss

from models.scan import SCAN, SCANConfig
from models.two_branch import TwoBranch, TwoBranchConfig
from models.vse import VSE, VSEConfig
from models.vse_infinity import VSEInfinity, VSEInfinityConfig
from pipeline.features.split import Regions, Words

generator = torch.Generator().manual_seed(1)
VECTORS, SENTENCES = (torch.randn(6, width, generator=generator) for width in (9, 7))
PARTS = [torch.rand(6, 5, width, generator=generator) for width in (9, 4)]
REGIONS = Regions(*PARTS, torch.tensor([5, 1, 3, 2, 5, 4]))
WORDS = Words(torch.randint(1, 20, (6, 4), generator=generator), torch.tensor([4, 1, 3, 2, 4, 4]))
WIDE = {"image_dim": 9, "vocabulary_size": 20}
BRANCHES = {"image_dim": 9, "sentence_dim": 7}


def vse(**options):
    return VSE(VSEConfig(word_dim=7, hidden=5, dim=8, **options), **WIDE)


def scan(**options):
    return SCAN(SCANConfig(word_dim=7, dim=8, position_gate=True, **options), **WIDE)


def two_branch(**options):
    return TwoBranch(TwoBranchConfig(dim=5, dropout=0.0, **options), **BRANCHES)


CASES = {
    "vse": (vse, VECTORS, WORDS),
    "scan t2i": (lambda: scan(direction="t2i", pooling="mean"), REGIONS, WORDS),
    "scan i2t": (lambda: scan(direction="i2t", pooling="lse"), REGIONS, WORDS),
    "gpo": (lambda: vse(text_pool="gpo"), VECTORS, WORDS),
    "vse infinity": (
        lambda: VSEInfinity(VSEInfinityConfig(word_dim=7, dim=8), **WIDE),
        REGIONS,
        WORDS,
    ),
    "two branches": (lambda: two_branch(hidden=12), VECTORS, SENTENCES),
    "without batch norm": (lambda: two_branch(hidden=12, batch_norm=False), VECTORS, SENTENCES),
    "linear": (lambda: two_branch(branches="linear"), VECTORS, SENTENCES),
}


@pytest.fixture(params=CASES)
def network_and_inputs(request):
    make, *inputs = CASES[request.param]
    torch.manual_seed(0)
    return make(), inputs


def scores_of(network, inputs):
    return network.score(network.embed_images(inputs[0]), network.embed_captions(inputs[1]))


def test_every_weight_learns(network_and_inputs):
    network, inputs = network_and_inputs
    pair_loss("sum_margin", 0.5)(scores_of(network, inputs), torch.arange(6)).backward()
    for name, value in network.named_parameters():
        assert value.grad is not None, name
        assert value.grad.isfinite().all(), name
        assert value.grad.abs().max() > 1e-6, name


def test_results_are_float32_inside_autocast(network_and_inputs):
    network, inputs = network_and_inputs
    exact = scores_of(network, inputs)
    with torch.autocast("cpu", torch.bfloat16):
        reduced = scores_of(network, inputs)
    torch.testing.assert_close(reduced, exact, rtol=0, atol=0.05)
