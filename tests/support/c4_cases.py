"""Small weights of the bottom-up detector, in both layouts that others publish."""

import torch

from models.detector.c4 import C4Detector

PREDICTOR = "roi_heads.box_predictor."
RPN = "proposal_generator.rpn_head."
SMALL = {"width": 4, "blocks": (1, 2, 1, 1), "hidden": 8, "embedding": 3, "attribute_hidden": 5}
SMALL |= {"proposals": 12, "short_side": 90, "long_side": 140}


def small() -> C4Detector:
    torch.manual_seed(0)
    network = C4Detector([f"o{i}" for i in range(5)], [f"a{i}" for i in range(4)], **SMALL).eval()
    for name, value in network.state_dict().items():
        if "norm" in name:
            value.uniform_(0.5, 1.5)
        elif name.startswith((RPN + "anchor", RPN + "objectness")):
            value.normal_(std=0.01)
    head = network.proposal_generator.rpn_head.objectness_logits
    head.weight.data[:12], head.bias.data[:12] = 0, 0  # airsplay's layout has no such rows
    return network


def to_airsplay(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The converters' way, row by row: Caffe's order of anchors and classes to detectron2's."""
    made = dict(state)
    for kind in ("weight", "bias"):
        logits = state[f"{RPN}objectness_logits.{kind}"][12:]
        deltas = state[f"{RPN}anchor_deltas.{kind}"]
        anchors = [ratio * 4 + scale for scale in range(4) for ratio in range(3)]
        made[f"{RPN}objectness_logits.{kind}"] = torch.stack([logits[a] for a in anchors])
        rows = [deltas[4 * a + value] for a in anchors for value in range(4)]
        made[f"{RPN}anchor_deltas.{kind}"] = torch.stack(rows)
    names = {
        "cls_score.weight": ("cls_score.weight", True),
        "cls_score.bias": ("cls_score.bias", True),
        "cls_embed.weight": ("cls_embedding.weight", True),
        "attr_linear1.weight": ("fc_attr.weight", False),
        "attr_linear1.bias": ("fc_attr.bias", False),
        "attr_linear2.weight": ("attr_score.weight", True),
        "attr_linear2.bias": ("attr_score.bias", True),
    }
    for ours, (theirs, background) in names.items():
        value = made.pop(PREDICTOR + ours)
        made[PREDICTOR + theirs] = torch.cat([value[1:], value[:1]]) if background else value
    made[PREDICTOR + "bbox_pred.weight"] = torch.zeros(20, 128)
    made[PREDICTOR + "bbox_pred.bias"] = torch.zeros(20)
    return made
