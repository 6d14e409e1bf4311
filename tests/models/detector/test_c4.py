"""The C4 detector against a literal form written with loops from the paper's network."""

import math

import pytest
import torch
from c4_cases import SMALL, small
from torch.nn import functional as F
from torchvision.ops import box_iou, nms, roi_pool

from models.detector.c4 import CHUNK, C4Detector, C4Sizes, ProposalNetwork, cell_anchors, decode
from pipeline.runtime.errors import WorkbenchError


def image(height: int = 75, width: int = 130, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (3, height, width), generator=generator, dtype=torch.uint8)


def literal_conv(state, name, maps, stride=1, padding=0, dilation=1):
    maps = F.conv2d(maps, state[f"{name}.weight"], None, stride, padding, dilation)
    norm = [
        state[f"{name}.norm.{part}"] for part in ("running_mean", "running_var", "weight", "bias")
    ]
    return F.batch_norm(maps, *norm, training=False, eps=1e-5)


def literal_stage(state, name, maps, blocks, stride, dilation):
    for block in range(blocks):
        at, step = f"{name}.{block}", stride if block == 0 else 1
        inner = F.relu(literal_conv(state, f"{at}.conv1", maps, step))
        inner = F.relu(literal_conv(state, f"{at}.conv2", inner, 1, dilation, dilation))
        inner = literal_conv(state, f"{at}.conv3", inner)
        if block == 0:
            maps = literal_conv(state, f"{at}.shortcut", maps, step)
        maps = F.relu(inner + maps)
    return maps


def literal_anchors(rows: int, columns: int) -> list[list[float]]:
    """Ratio by ratio, scale by scale, rounded as py-faster-rcnn does from a 16 x 16 window."""
    sides = [(23, 12), (16, 16), (11, 22)]
    return [
        [16 * at + 7.5 + sign * (s * side - 1) / 2 for sign in (-1, 1) for at, side in pairs]
        for y in range(rows)
        for x in range(columns)
        for w, h in sides
        for pairs in [((x, w), (y, h))]
        for s in (4, 8, 16, 32)
    ]


def overlap(a, b) -> float:
    """Intersection over union of boxes whose last pixel belongs to them."""
    width = max(0.0, min(a[2], b[2]) - max(a[0], b[0]) + 1)
    height = max(0.0, min(a[3], b[3]) - max(a[1], b[1]) + 1)
    areas = [(box[2] - box[0] + 1) * (box[3] - box[1] + 1) for box in (a, b)]
    return width * height / (sum(areas) - width * height)


def literal_proposals(network: C4Detector, maps, height, width, scale) -> list[list[float]]:
    state, sizes = network.state_dict(), network.sizes
    at = "proposal_generator.rpn_head."
    hidden = F.relu(F.conv2d(maps, state[at + "conv.weight"], state[at + "conv.bias"], padding=1))
    logits, deltas = (
        F.conv2d(hidden, state[f"{at}{name}.weight"], state[f"{at}{name}.bias"])[0]
        for name in ("objectness_logits", "anchor_deltas")
    )
    rows, columns = maps.shape[-2:]
    found = []
    for number, box in enumerate(literal_anchors(rows, columns)):
        place, anchor = divmod(number, 12)
        y, x = divmod(place, columns)
        pair = torch.stack([logits[anchor, y, x], logits[12 + anchor, y, x]])
        dx, dy, dw, dh = deltas[4 * anchor : 4 * anchor + 4, y, x].tolist()
        w, h = box[2] - box[0] + 1, box[3] - box[1] + 1
        cx, cy = box[0] + w / 2 + dx * w, box[1] + h / 2 + dy * h
        w, h = w * math.exp(dw), h * math.exp(dh)
        moved = [cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2]
        limits = [width - 1, height - 1, width - 1, height - 1]
        moved = [min(max(value, 0.0), limit) for value, limit in zip(moved, limits, strict=True)]
        if min(moved[2] - moved[0], moved[3] - moved[1]) + 1 >= 16 * scale:
            found.append((float(pair.softmax(0)[1]), moved))
    found = sorted(found, key=lambda entry: -entry[0])[: sizes.candidates]
    kept: list[list[float]] = []
    for _, box in found:
        if all(overlap(box, other) <= 0.7 for other in kept):
            kept.append(box)
    return kept[: sizes.proposals]


def literal_regions(network: C4Detector, picture: torch.Tensor):
    state, sizes = network.state_dict(), network.sizes
    mean = torch.tensor([102.9801, 115.9465, 122.7717]).view(3, 1, 1)
    pixels = picture[[2, 1, 0]].float() - mean
    scale = min(sizes.short_side / min(pixels.shape[1:]), sizes.long_side / max(pixels.shape[1:]))
    height, width = (round(side * scale) for side in pixels.shape[1:])
    pixels = F.interpolate(pixels[None], (height, width), mode="bilinear", align_corners=False)
    maps = F.relu(literal_conv(state, "backbone.stem.conv1", pixels, 2, 3))
    maps = F.max_pool2d(maps, 3, 2, 0, ceil_mode=True)
    for number, stride in ((2, 1), (3, 2), (4, 2)):
        name = f"backbone.res{number}"
        maps = literal_stage(state, name, maps, sizes.blocks[number - 2], stride, 1)
    boxes = torch.tensor(literal_proposals(network, maps, height, width, scale))
    cells = roi_pool(maps, [boxes], 14, 1 / 16)
    features = literal_stage(state, "roi_heads.res5", cells, sizes.blocks[3], 1, 2).mean((2, 3))
    at = "roi_heads.box_predictor."

    def linear(name: str, values: torch.Tensor) -> torch.Tensor:
        return values @ state[f"{at}{name}.weight"].T + state[f"{at}{name}.bias"]

    logits = linear("cls_score", features)
    joined = torch.cat([features, state[at + "cls_embed.weight"][logits.argmax(1)]], 1)
    attributes = linear("attr_linear2", F.relu(linear("attr_linear1", joined))).softmax(1)
    return boxes / scale, features, logits.softmax(1), attributes[:, 1:]


@pytest.mark.parametrize("size", [(75, 130), (130, 75), (60, 190)])  # short side, then long side
def test_equals_the_literal_form(size: tuple[int, int]) -> None:
    network, picture = small(), image(*size)
    with torch.no_grad():
        expected = literal_regions(network, picture)
    found = network.regions([picture])[0]
    assert len(found.boxes) == SMALL["proposals"]
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)
    assert found.features.std(0).max() > 1e-3  # regions differ, or the comparison says little


def test_cell_anchors_are_those_of_the_published_listing() -> None:
    # py-faster-rcnn's generate_anchors for scales 8, 16, 32, as it prints them.
    listing = [
        *([-84, -40, 99, 55], [-176, -88, 191, 103], [-360, -184, 375, 199]),
        *([-56, -56, 71, 71], [-120, -120, 135, 135], [-248, -248, 263, 263]),
        *([-36, -80, 51, 95], [-80, -168, 95, 183], [-168, -344, 183, 359]),
    ]
    found = cell_anchors().view(3, 4, 4)[:, 1:].reshape(9, 4)
    assert found.tolist() == listing


def test_decoding_limits_growth() -> None:
    box = torch.tensor([[0.0, 0, 15, 15]])
    moved = decode(box, torch.tensor([[0.5, 0.0, 50.0, 0.0]]))
    torch.testing.assert_close(moved, torch.tensor([[16 - 500.0, 0, 16 + 500, 16]]))


def test_suppression_counts_the_last_pixel() -> None:
    boxes = torch.tensor([[0.0, 0, 15, 15], [0, 0, 15, 11], [0, 0, 10, 15]])
    scores = torch.tensor([0.9, 0.8, 0.7])
    network = ProposalNetwork(1, C4Sizes(hidden=1, candidates=10, proposals=10, smallest=1))
    # 16 x 12 of 16 x 16 pixels are 0.75; without the last pixel 15 x 11 of 15 x 15 are 0.733.
    assert network.best(boxes, scores, 1).tolist() == boxes[[0, 2]].tolist()
    network.iou = 0.74
    assert box_iou(boxes[:1], boxes[1:2]).item() < 0.74
    assert len(nms(boxes, scores, 0.74)) == 3
    assert network.best(boxes, scores, 1).tolist() == boxes[[0, 2]].tolist()
    assert network.best(boxes, scores, 12).tolist() == boxes[:1].tolist()
    network.smallest = 13
    assert len(network.best(boxes, scores, 17)) == 0


def test_boxes_are_inside_the_image_and_rows_are_independent() -> None:
    network = small(proposals=CHUNK + 20, candidates=600, proposal_iou=0.95)
    pictures = [image(40, 61, 1), image(300, 200, 2), image(40, 61, 3)]
    together = network.regions(pictures)
    for picture, output in zip(pictures, together, strict=True):
        alone = network.regions([picture])[0]
        assert all(torch.equal(a, b) for a, b in zip(alone, output, strict=True))
        assert (output.boxes[:, :2] >= 0).all()
        assert (output.boxes[:, 2:] <= torch.tensor(picture.shape[:0:-1])).all()
        assert (output.boxes[:, 2:] > output.boxes[:, :2]).all()
        torch.testing.assert_close(output.object_scores.sum(1), torch.ones(len(output.boxes)))
    assert max(len(output.boxes) for output in together) > CHUNK


def test_shapes_without_attributes_and_without_proposals() -> None:
    network = small(attributes=0, smallest=1e6)
    found = network.regions([image()])[0]
    shapes = [tuple(part.shape) for part in found]
    assert shapes == [(0, 4), (0, network.region_dim), (0, 6), (0, 0)]
    assert not any("attr" in name or "embed" in name for name in network.state_dict())


def test_proposals_that_are_not_finite() -> None:
    broken = small()
    broken.proposal_generator.rpn_head.anchor_deltas.bias.data.fill_(torch.nan)
    with pytest.raises(WorkbenchError, match="not finite"):
        broken.regions([image()])
