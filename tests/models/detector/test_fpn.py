"""The FPN detector against torchvision's own, and what it promises about its regions."""

import re

import pytest
import torch
from torchvision.models.detection import fasterrcnn_resnet50_fpn
from torchvision.models.detection.roi_heads import fastrcnn_loss

from models.backbone.network import load_strict
from models.detector.fpn import (
    PUBLISHED,
    AttributePredictor,
    FPNDetector,
    FPNSizes,
    build_detector,
    current_names,
)

OBJECTS, ATTRIBUTES = ("circle", "star"), ("large", "red", "plain")
SMALL = {"channels": 8, "hidden": 16, "proposals": 12, "candidates": 30, "sampled": 8}


@pytest.fixture(scope="module")
def detector():
    torch.manual_seed(0)
    return build_detector("fpn_resnet18", OBJECTS, ATTRIBUTES, **SMALL).eval()


def picture(height, width, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (3, height, width), dtype=torch.uint8, generator=generator)


def target():
    return {
        "boxes": torch.tensor([[5.0, 8, 30, 33], [30, 30, 60, 62]]),
        "labels": torch.tensor([1, 2]),
        "attributes": torch.tensor([[1.0, 0, 0], [0, 1, 1]]),
    }


def test_regions_of_images_of_any_size(detector):
    sizes = [(64, 64), (48, 90), (64, 64), (33, 40)]
    outputs = detector.regions([picture(*size, seed) for seed, size in enumerate(sizes)])
    for (height, width), output in zip(sizes, outputs, strict=True):
        rows = len(output.boxes)
        assert 0 < rows <= SMALL["proposals"]
        assert output.features.shape == (rows, detector.region_dim)
        assert output.attribute_scores.shape == (rows, 3)
        assert (output.boxes >= 0).all()
        assert (output.boxes <= torch.tensor([width, height, width, height])).all()
        torch.testing.assert_close(output.object_scores.sum(1), torch.ones(rows))
        assert output.object_scores.shape == (rows, 3)
        assert (output.features >= 0).all()


def test_an_images_rows_do_not_depend_on_the_others(detector):
    one, *others = (picture(64, 64), picture(64, 64, 1), picture(50, 99, 2))
    alone = detector.regions([one])[0]
    for together in (detector.regions([one, *others])[0], detector.regions([*others, one])[2]):
        for part, expected in zip(together, alone, strict=True):
            torch.testing.assert_close(part, expected, atol=1e-4, rtol=1e-4)


def test_scaled_images_keep_boxes_in_their_own_pixels():
    torch.manual_seed(0)
    sizes = SMALL | {"short_side": 64, "long_side": 128}
    small, large = (build_detector("fpn_resnet18", OBJECTS, (), **sizes).eval() for _ in range(2))
    large.load_state_dict(small.state_dict())
    image = picture(64, 96)
    doubled = image.repeat_interleave(2, 1).repeat_interleave(2, 2)
    one, two = small.regions([image])[0], large.regions([doubled])[0]
    torch.testing.assert_close(two.boxes, 2 * one.boxes, atol=0.05, rtol=1e-3)
    assert two.attribute_scores.shape[1] == 0


def test_boxes_are_refined_by_the_best_class(detector):
    heads, seen = detector.roi_heads, {}
    keep = heads.box_roi_pool.register_forward_hook(lambda m, i, o: seen.update(x=o, boxes=i[1]))
    output = detector.regions([picture(64, 64)])[0]
    keep.remove()
    with torch.no_grad():
        features = heads.box_head(seen["x"])
        logits, offsets = heads.box_predictor(features)
    for row, proposal in enumerate(seen["boxes"][0]):
        best = int(logits[row, 1:].argmax()) + 1
        dx, dy, dw, dh = (
            offsets[row, 4 * best : 4 * best + 4] / torch.tensor([10, 10, 5, 5])
        ).tolist()
        x1, y1, x2, y2 = proposal.tolist()
        width, height = x2 - x1, y2 - y1
        x, y = (x1 + x2) / 2 + dx * width, (y1 + y2) / 2 + dy * height
        half = torch.tensor([width, height]) * torch.tensor([dw, dh]).exp() / 2
        middle = torch.tensor([x, y])
        expected = torch.cat([middle - half, middle + half]).clamp(0, 64)
        torch.testing.assert_close(output.boxes[row], expected, atol=1e-3, rtol=1e-4)
        label = torch.tensor([best])
        wanted = heads.attribute_predictor(features[row : row + 1], label).sigmoid()[0]
        torch.testing.assert_close(output.attribute_scores[row], wanted)
    assert torch.equal(output.features, features)


def test_loss_terms_are_torchvisions_and_the_attributes(detector, monkeypatch):
    """The attribute term against a loop over the sampled regions."""
    detector.train()
    heads, seen = detector.roi_heads, {}
    sample = heads.select_training_samples
    monkeypatch.setattr(
        heads, "select_training_samples", lambda *a: seen.setdefault("chosen", sample(*a))
    )
    hook = heads.box_head.register_forward_hook(lambda m, i, o: seen.update(features=o))
    torch.manual_seed(3)
    terms = detector.losses([picture(64, 64), picture(64, 64, 1)], [target(), target()])
    hook.remove()
    detector.eval()
    assert list(terms) == ["objectness", "proposal_box", "class", "box", "attributes"]
    _, matched, labels, offsets = seen["chosen"]
    expected = fastrcnn_loss(*heads.box_predictor(seen["features"]), labels, offsets)
    torch.testing.assert_close((terms["class"], terms["box"]), expected)
    total, count, row = 0.0, 0, 0
    for rows, classes in zip(matched, labels, strict=True):
        for place, label in zip(rows.tolist(), classes, strict=True):
            if label > 0:
                feature = seen["features"][row : row + 1]
                share = heads.attribute_predictor(feature, label[None]).sigmoid()[0]
                wanted = target()["attributes"][place]
                total -= (wanted * share.log() + (1 - wanted) * (1 - share).log()).sum()
                count += 1
            row += 1
    torch.testing.assert_close(terms["attributes"], total / count)
    sum(terms.values()).backward()
    assert detector.backbone.body.conv1.weight.grad.abs().sum() > 0


def test_targets_follow_scaled_images():
    """Twice the image with twice the boxes gives the same losses when both are scaled alike."""
    sizes = SMALL | {"short_side": 64, "long_side": 64}
    torch.manual_seed(0)
    detector = build_detector("fpn_resnet18", OBJECTS, ATTRIBUTES, **sizes)
    image, wanted = picture(64, 64), target()
    doubled = image.repeat_interleave(2, 1).repeat_interleave(2, 2)
    results = []
    for one, boxes in ((image, wanted["boxes"]), (doubled, 2 * wanted["boxes"])):
        torch.manual_seed(1)
        results.append(detector.losses([one] * 2, [wanted | {"boxes": boxes}] * 2))
    torch.testing.assert_close(*results, atol=1e-4, rtol=1e-3)


def test_an_attribute_depends_on_the_class():
    torch.manual_seed(0)
    head = AttributePredictor(width=16, classes=3, attributes=4)
    feature = torch.rand(1, 16)
    one, two = (head(feature, torch.tensor([label])) for label in (1, 2))
    assert one.shape == (1, 4)
    assert not torch.allclose(one, two)


def test_torchvisions_published_detector_gives_the_same_scores():
    """All 91 classes, real names and shapes; smaller images to save time."""
    torch.manual_seed(0)
    theirs = fasterrcnn_resnet50_fpn(weights=None, weights_backbone=None, min_size=64, max_size=96)
    theirs.eval()
    sizes = vars(PUBLISHED) | {"short_side": 64, "long_side": 96, "norm_eps": 1e-5}
    ours = FPNDetector("fpn_resnet50", [f"class {i}" for i in range(90)], (), FPNSizes(**sizes))
    state = theirs.state_dict()
    old = {n.replace("conv.0.0.", "conv.") if "rpn" in n else n: v for n, v in state.items()}
    old = {re.sub(r"(fpn.*\d)\.0\.(\w+)$", r"\1.\2", n): v for n, v in old.items()}
    assert {"rpn.head.conv.weight", "backbone.fpn.inner_blocks.0.weight"} <= old.keys()
    assert current_names(old).keys() == state.keys()  # the names of the file of 2019
    load_strict(ours, current_names(state))
    ours.eval()
    image = picture(50, 70)
    seen = {}
    for name, model in (("theirs", theirs), ("ours", ours)):
        model.roi_heads.box_predictor.register_forward_hook(
            lambda m, i, o, name=name: seen.update({name: (i[0], o[0])})
        )
    with torch.no_grad():
        theirs([image / 255])
    (output,) = ours.regions([image])
    assert seen["theirs"][0].std() > 0.03
    torch.testing.assert_close(seen["ours"], seen["theirs"], atol=3e-3, rtol=0)
    assert output.features.shape[1] == 1024
    assert output.object_scores.shape[1] == 91
