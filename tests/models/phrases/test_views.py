"""Boxes and vectors from views agree with the networks' own code, one image at a time."""

import numpy as np
import pytest
import torch
from torchvision.ops import roi_align

from models.backbone.network import BackboneError, classifier, cut
from models.detector.fpn import build_detector
from models.phrases.proposals import C4View, FPNView, NetworkView, scaled_input, vgg_head


@pytest.fixture(scope="module")
def images():
    torch.manual_seed(0)
    sizes = [(48, 64), (64, 48), (48, 64)]
    return [torch.randint(0, 256, (3, *size), dtype=torch.uint8) for size in sizes]


FPN = {"channels": 8, "hidden": 16, "layers": 2, "anchors": [[12.0], [24.0]], "proposals": 9}
FPN |= {"short_side": 96, "long_side": 200}
C4 = {"width": 4, "blocks": [1, 1, 1, 1], "hidden": 8, "proposals": 6, "smallest": 1.0}
C4 |= {"short_side": 64, "long_side": 128}
DETECTORS = [(FPNView, "fpn_resnet18", FPN), (C4View, "c4_resnet101", C4)]


@pytest.mark.parametrize(("kind", "name", "sizes"), DETECTORS)
def test_proposals_have_the_vectors_of_their_boxes_and_of_the_regions(images, kind, name, sizes):
    """Refined boxes apart, `regions` describes the same proposals."""
    torch.manual_seed(0)
    made = build_detector(name, ["a", "b"], ["c"], **sizes).eval()
    with torch.inference_mode():
        view = kind(made, images)
        found = view.proposals()
        again = view.features([own.boxes for own in found])
        alone = kind(made, images[1:2]).proposals()[0]
        known = made.regions(images)[0]
    for own, features, image in zip(found, again, images, strict=True):
        assert len(own.boxes) > 3
        assert (own.scores.diff() <= 0).all()
        torch.testing.assert_close(own.features, features, rtol=1e-4, atol=1e-5)
        limit = torch.tensor([image.shape[2], image.shape[1]] * 2) + 1e-3
        assert ((own.boxes >= 0) & (own.boxes <= limit)).all()
    torch.testing.assert_close(alone.boxes, found[1].boxes, rtol=1e-4, atol=1e-3)
    order = (1 - known.object_scores[:, 0]).argsort(descending=True, stable=True)
    torch.testing.assert_close(known.features[order], found[0].features, rtol=1e-4, atol=1e-5)


def test_boxes_are_pooled_from_the_maps_of_a_network(images):
    backbone, width = cut(classifier("resnet18", 0), ["layer1", "layer2"], "mean", 64)
    mean, std = torch.zeros(3, 1, 1), torch.ones(3, 1, 1)
    inputs = [scaled_input(image, 64, 0, mean, std, bgr=False) for image in images]
    assert [tuple(i.shape) for i in inputs] == [(3, 64, 85), (3, 85, 64), (3, 64, 85)]
    boxes = torch.tensor([[4.0, 6, 40, 30], [0, 0, 48, 48]])
    with torch.inference_mode():
        view = NetworkView(backbone, None, inputs, [(64, 48), (48, 64), (64, 48)])
        found = view.features([boxes, boxes[:1], boxes[:0]])
        maps = backbone.graph(inputs[0][None])
        wanted = []
        for node in backbone.nodes:
            across, down = maps[node].shape[-1] / 64, maps[node].shape[-2] / 48
            own = boxes * torch.tensor([across, down, across, down])
            wanted.append(roi_align(maps[node], [own], 7, 1.0, 2, aligned=True).mean((2, 3)))
    assert [tuple(part.shape) for part in found] == [(2, width), (1, width), (0, width)]
    torch.testing.assert_close(found[0], torch.cat(wanted, 1))


@pytest.mark.parametrize(
    ("given", "long_side", "scaled"),
    [
        ((50, 80), 100, (60, 96)),  # the short side decides
        ((50, 100), 100, (50, 100)),  # the long side decides
        ((100, 50), 100, (100, 50)),
        ((40, 200), 100, (20, 100)),
        ((50, 100), 0, (60, 120)),  # no limit
    ],
)
def test_the_longer_side_is_limited_as_in_fast_rcnn(given, long_side, scaled):
    image = torch.zeros(3, *given, dtype=torch.uint8)
    mean, std = torch.zeros(3, 1, 1), torch.ones(3, 1, 1)
    found = scaled_input(image, 60, long_side, mean, std, bgr=False)
    assert tuple(found.shape[1:]) == scaled


def test_channels_turn_for_networks_of_caffe():
    image = torch.tensor(np.arange(3 * 4 * 4).reshape(3, 4, 4), dtype=torch.uint8)
    mean, std = torch.zeros(3, 1, 1), torch.full((3, 1, 1), 1 / 255)
    found = scaled_input(image, 4, 0, mean, std, bgr=True)
    torch.testing.assert_close(found, image.flip(0).float())


def test_a_vgg_takes_boxes_through_its_own_layers():
    """A box of the whole image has fc7 of its last map, pooled to 7 x 7 cells by RoIAlign."""
    network = classifier("vgg11", 0)
    head = vgg_head(network, ["features.19"])
    backbone, _ = cut(network, ["features.19"], "mean", 64)
    image = torch.rand(3, 64, 96)
    box = torch.tensor([[0.0, 0, 96, 64]])
    with torch.inference_mode():
        found = NetworkView(backbone, head, [image], [(96, 64)]).features([box])[0]
        last = network.features[:20](image[None])
        cells = roi_align(last, [torch.tensor([[0.0, 0, 6, 4]])], 7, 1.0, 2, aligned=True)
        wanted = network.classifier[:5](cells.flatten(1))
    assert found.shape == (1, 4096)
    torch.testing.assert_close(found, wanted)
    with pytest.raises(BackboneError, match=r"takes layers \[features.19\]"):
        vgg_head(network, ["features.20"])
    with pytest.raises(BackboneError, match="torchvision's VGG"):
        vgg_head(classifier("resnet18", 0), ["layer4"])
