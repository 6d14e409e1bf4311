"""The two-branch network against its layers written out, and what it does with odd rows."""

import pytest
import torch
from losses import structure_loss
from torch.nn import functional

from models.two_branch import TwoBranch, TwoBranchConfig

LINEAR = {"branches": "linear"}
PLAIN = {"hidden": 12, "batch_norm": False}
FULL = {"hidden": 12}
VARIANTS = pytest.mark.parametrize("sizes", [LINEAR, PLAIN, FULL], ids=["linear", "plain", "full"])


def network(sizes, dropout=0.0):
    torch.manual_seed(0)
    return TwoBranch(TwoBranchConfig(dim=5, dropout=dropout, **sizes), image_dim=9, sentence_dim=7)


def embedded(model, images, captions):
    """Unit rows of both sides."""
    return model.index(model.embed_images(images)), model.index(model.embed_captions(captions))


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(1)
    return torch.randn(6, 9, generator=generator), torch.randn(8, 7, generator=generator)


def written_out(model, name, rows):
    """Sections 2.1 and 3.1 in training mode, layer by layer."""
    weights = {
        key.removeprefix(f"{name}."): value
        for key, value in model.state_dict().items()
        if key.startswith(f"{name}.")
    }
    hidden = torch.relu(rows @ weights["0.weight"].T + weights["0.bias"])
    last = hidden @ weights["3.weight"].T
    centred = last - last.mean(0)
    normal = centred / ((centred**2).mean(0) + 1e-5).sqrt()
    scaled = normal * weights["4.weight"] + weights["4.bias"]
    return scaled / scaled.norm(dim=1, keepdim=True)


def test_equals_the_layers_written_out(batch):
    model = network(FULL)
    with torch.no_grad():  # so that no factor is 1 and no shift 0
        for branch in (model.image_branch, model.sentence_branch):
            branch[4].weight.uniform_(0.5, 2)
            branch[4].bias.uniform_(-1, 1)
    images, captions = embedded(model, *batch)
    for name, found, rows in (
        ("image_branch", images, batch[0]),
        ("sentence_branch", captions, batch[1]),
    ):
        torch.testing.assert_close(found, written_out(model, name, rows), rtol=0, atol=1e-5)


def test_linear_variant_is_one_layer_and_l2(batch):
    """Section 3.2: only the first layers, immediately followed by L2 normalisation."""
    model = network(LINEAR)
    assert [type(layer).__name__ for layer in model.image_branch] == ["Linear"]
    layer = model.sentence_branch[0]
    expected = functional.normalize(batch[1] @ layer.weight.T + layer.bias, dim=1)
    torch.testing.assert_close(embedded(model, *batch)[1], expected)


def test_dropout_acts_in_training_only(batch):
    model = network(PLAIN, dropout=0.5)
    assert not torch.equal(model.embed_images(batch[0]), model.embed_images(batch[0]))
    model.eval()
    assert torch.equal(model.embed_images(batch[0]), model.embed_images(batch[0]))


@VARIANTS
def test_a_sentence_without_known_words_still_has_a_direction(sizes, batch):
    """Its vector is zero; an undefined direction would have a gradient of 1e12."""
    model = network(sizes)
    vectors = batch[1].clone()
    vectors[3] = 0
    images, captions = embedded(model, batch[0], vectors)
    torch.testing.assert_close(captions[3].norm(), torch.ones(()))
    structure_loss("sum_margin", 0.5)(
        images, captions, torch.arange(6) % 4, torch.arange(8) % 4
    ).backward()
    assert max(p.grad.abs().max() for p in model.parameters()) < 1e3
