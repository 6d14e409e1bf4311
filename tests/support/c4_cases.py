"""Small weights of the bottom-up detector, in both layouts that others publish."""

import math

import torch

from models.detector.c4 import C4Detector, NormedConv

PREDICTOR = "roi_heads.box_predictor."
RPN = "proposal_generator.rpn_head."
SMALL = {"width": 4, "blocks": (1, 2, 1, 2), "hidden": 8, "embedding": 3, "attribute_hidden": 5}
SMALL |= {"candidates": 60, "proposals": 9, "short_side": 90, "long_side": 140}


def small(objects: int = 5, attributes: int = 4, **sizes: object) -> C4Detector:
    """With weights that tell regions apart."""
    names = [f"o{i}" for i in range(objects)], [f"a{i}" for i in range(attributes)]
    torch.manual_seed(0)
    network = C4Detector(*names, **{**SMALL, **sizes}).eval()
    generator = torch.Generator().manual_seed(7)
    for module in network.modules():
        if isinstance(module, NormedConv):
            for name in ("weight", "bias", "running_mean", "running_var"):
                getattr(module.norm, name).uniform_(0.5, 1.5, generator=generator)
        elif isinstance(module, torch.nn.Conv2d | torch.nn.Linear):
            spread = 2 / math.sqrt(module.weight[0].numel())
            module.weight.data.normal_(std=spread, generator=generator)
            module.bias.data.normal_(std=0.1, generator=generator)
    network.proposal_generator.rpn_head.anchor_deltas.weight.data *= 0.02
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
