"""The dual path: one vector from features and from pixels, and parts that stay as they are."""

import pytest
import torch
from dual_path_runs import network

from models.backbone.network import classifier, cut
from models.dual_path.model import PARTS, DualPath, DualPathConfig


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(1)
    return (
        torch.randint(0, 256, (6, 3, 32, 32), generator=generator, dtype=torch.uint8),
        torch.randint(0, 11, (6, 8), generator=generator),
    )


def step(model, batch, lr=0.1):
    """One step on all weights with momentum and decay, as training takes it."""
    optimiser = torch.optim.SGD(model.parameters(), lr, momentum=0.9, weight_decay=0.1)
    for _ in range(2):
        optimiser.zero_grad()
        images, captions = batch
        (model.embed_images(images) * model.embed_captions(captions)).sum().backward()
        optimiser.step()


def test_cached_features_and_pixels_train_the_same_with_a_frozen_image_cnn(batch):
    """Stage I on cached features is stage I on pixels; dropout draws the same."""
    losses = []
    for cached in (False, True):
        model = network(dropout=0.5)
        model.train_parts(["text", "words", "image_head"])
        images = model.image_features(batch[0]) if cached else batch[0]
        torch.manual_seed(3)
        step(model, (images, batch[1]))
        losses.append(torch.cat([value.flatten() for value in model.state_dict().values()]))
    torch.testing.assert_close(losses[0], losses[1], rtol=1e-4, atol=1e-5)


def test_evaluation_averages_the_mirror_image_and_training_does_not(batch):
    pixels = batch[0]
    model = network(dropout=0.0, flip=True).train()
    assert not torch.allclose(
        model.embed_images(pixels), model.embed_images(pixels.flip(-1)), atol=1e-3
    )
    single = network(dropout=0.0, flip=False).eval()
    single.load_state_dict(model.state_dict())
    mean = (single.embed_images(pixels) + single.embed_images(pixels.flip(-1))) / 2
    model.eval()
    torch.testing.assert_close(model.embed_images(pixels), mean)
    torch.testing.assert_close(model.embed_images(pixels.flip(-1)), mean)


def part_of(name):
    if name.startswith("text.words"):
        return "words"
    return "text" if name.startswith("text") else name.split(".")[0]


@pytest.mark.parametrize("part", PARTS)
def test_a_frozen_part_does_not_change(batch, part):
    """Neither weights nor the statistics of batch norms, whatever train() is called."""
    model = network()
    model.train_parts(set(PARTS) - {part})
    model.train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    step(model, batch)
    changed = {
        part_of(name)
        for name, value in model.state_dict().items()
        if not torch.equal(value, before[name])
    }
    assert changed == set(PARTS) - {part}


@pytest.mark.parametrize(
    ("name", "layer", "width"),
    [("resnet152", "pool5", 2048), ("vgg19", "fc7", 4096), ("vgg19", "pool5", 512)],
)
def test_the_image_networks_of_the_papers(name, layer, width):
    """Their shapes, without memory, in training mode and with gradients for every weight."""
    config = DualPathConfig(word_dim=300, text_cnn="resnet50", text_width=64, hidden=2048, dim=2048)
    image = {"image_model": name, "image_layers": layer, "image_pool": "mean"}
    image |= {"image_resize": 256, "image_crop": 224, "image_dim": width}
    with torch.device("meta"):
        _, found = cut(classifier(name, 0), [layer], "mean", 224)
        model = DualPath(config, vocabulary_size=20, **image).train()
        images = model.embed_images(torch.zeros(2, 3, 224, 224, dtype=torch.uint8))
        captions = model.embed_captions(torch.zeros(2, 32, dtype=torch.int64))
    assert (found, images.shape, captions.shape) == (width, (2, 2048), (2, 2048))
    (images * captions).sum().backward()
    assert all(value.grad is not None for value in model.parameters())
