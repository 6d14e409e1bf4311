"""Weights of the bottom-up detector as others publish them, brought into C4Detector's layout.

Two PyTorch conversions of Anderson et al.'s Caffe weights circulate; both name the ResNet as
detectron2 does (`backbone.stem.conv1.norm.weight`, `backbone.res4.22.conv3.weight`):

- MILVLG/bottom-up-attention.pytorch (bua-caffe-frcn-r101*.pth): background and "no attribute"
  first, two objectness logits per anchor (all background logits first), anchors of a place by
  ratio, then by scale. C4Detector uses its names and this order.
- airsplay/py-bottom-up-attention (faster_rcnn_from_caffe*.pkl): background and "no attribute"
  last, one objectness logit per anchor, detectron2's anchors by scale, then by ratio. Its anchors
  are centred half a stride off Caffe's (its issue 1); here Caffe's are used for both.

Box refinement (`bbox_pred`) is left out of both: the published features are those of proposals.
"""

import re
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from models.backbone.network import BackboneError
from models.detector.c4 import MEAN, RATIOS, SCALES

ANCHORS = len(RATIOS) * len(SCALES)
RPN = "proposal_generator.rpn_head."
PREDICTOR = "roi_heads.box_predictor."
UNUSED = re.compile(
    r".*\.num_batches_tracked|.*anchor_generator\.cell_anchors\.\d+"
    r"|roi_heads\.box_predictor\.bbox_pred\.(weight|bias)"
)
RENAMED = {"cls_embedding": "cls_embed", "fc_attr": "attr_linear1", "attr_score": "attr_linear2"}


def to_c4(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A public conversion's state dict under C4Detector's names and in its order of rows, without
    prefix (`module.`, `model.`), counters, anchors and box refinement. BackboneError for another
    pixel normalisation than the paper's."""
    bare = {re.sub(r"^(module\.|model\.)+", "", name): value for name, value in state.items()}
    _check_pixels(bare)
    kept = {
        name: value
        for name, value in bare.items()
        if not UNUSED.fullmatch(name) and name not in ("pixel_mean", "pixel_std")
    }
    if _rows(kept, RPN + "objectness_logits.weight", 2 * ANCHORS) == ANCHORS:
        return dict(_from_detectron2(name, value) for name, value in kept.items())
    return kept


def sizes_of(state: Mapping[str, Tensor]) -> dict[str, int | Sequence[int]]:
    """Widths and depths by their names in C4Sizes, the paper's where a shape is missing."""
    stages = ("backbone.res2", "backbone.res3", "backbone.res4", "roi_heads.res5")
    blocks = [_blocks(state, stage) for stage in stages]
    paper = (3, 4, 23, 3)
    embedding = state.get(PREDICTOR + "cls_embed.weight")
    return {
        "width": _rows(state, "backbone.stem.conv1.weight", 64),
        "blocks": [count or usual for count, usual in zip(blocks, paper, strict=True)],
        "hidden": _rows(state, RPN + "conv.weight", 512),
        "embedding": embedding.shape[1] if embedding is not None and embedding.ndim == 2 else 256,
        "attribute_hidden": _rows(state, PREDICTOR + "attr_linear1.weight", 512),
    }


def _from_detectron2(name: str, value: Tensor) -> tuple[str, Tensor]:
    """airsplay's name and rows to MILVLG's."""
    if name.startswith(RPN + "objectness_logits."):
        objects = _by_ratio(value)
        # Softmax over (0, logit) is the sigmoid of the logit.
        return name, torch.cat([torch.zeros_like(objects), objects])
    if name.startswith(RPN + "anchor_deltas."):
        return name, _by_ratio(value)
    if not name.startswith(PREDICTOR):
        return name, value
    layer, kind = name.removeprefix(PREDICTOR).rsplit(".", 1)
    if layer in ("cls_score", "cls_embedding", "attr_score"):
        value = value.roll(1, 0)  # the last row is the background
    return f"{PREDICTOR}{RENAMED.get(layer, layer)}.{kind}", value


def _by_ratio(value: Tensor) -> Tensor:
    """Rows of anchors by scale, then ratio, to rows by ratio, then scale."""
    if len(value) % ANCHORS:
        raise BackboneError(f"{len(value)} rows for {ANCHORS} anchors in the proposal network")
    split = value.reshape(len(SCALES), len(RATIOS), -1, *value.shape[1:])
    return split.transpose(0, 1).reshape(value.shape)


def _blocks(state: Mapping[str, Tensor], stage: str) -> int:
    pattern = re.compile(re.escape(stage) + r"\.(\d{1,2})\.")  # no network has a hundred
    numbers = [int(match[1]) for match in map(pattern.match, state) if match]
    return max(numbers, default=-1) + 1


def _rows(state: Mapping[str, Tensor], name: str, otherwise: int) -> int:
    return len(state[name]) if name in state and state[name].ndim else otherwise


def _check_pixels(state: Mapping[str, Tensor]) -> None:
    """Refuse weights that were trained on pixels normalised otherwise than the paper's."""
    for name, wanted in {"pixel_mean": MEAN, "pixel_std": (1.0, 1.0, 1.0)}.items():
        values = state[name].flatten().tolist() if name in state else list(wanted)
        if len(values) != 3 or not all(
            abs(v - w) <= 0.01 for v, w in zip(values, wanted, strict=True)
        ):
            raise BackboneError(f"{name} {values} of the weights: the detector has {list(wanted)}")
