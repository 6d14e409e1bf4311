"""Public weights of the bottom-up detector: real names and shapes, row order, clear refusals."""

import pytest
import torch
from c4_cases import PREDICTOR, RPN, small, to_airsplay

from models.backbone.network import BackboneError
from models.detector.c4 import C4Detector
from models.detector.c4_weights import sizes_of, to_c4
from models.detector.weights import foreign_detector

NORM = ("weight", "bias", "running_mean", "running_var")


def convolution(name: str, rows: int, inside: int, size: int) -> dict[str, tuple[int, ...]]:
    weight = {f"{name}.weight": (rows, inside, size, size)}
    return weight | {f"{name}.norm.{part}": (rows,) for part in NORM}


def resnet101() -> dict[str, tuple[int, ...]]:
    """Names and shapes of detectron2's ResNet-101 with res5 in the region head."""
    shapes = convolution("backbone.stem.conv1", 64, 3, 7)
    inside = 64
    for number, blocks in ((2, 3), (3, 4), (4, 23), (5, 3)):
        width = 64 * 2 ** (number - 2)
        stage = f"backbone.res{number}" if number < 5 else "roi_heads.res5"
        for block in range(blocks):
            at = f"{stage}.{block}"
            shapes |= convolution(f"{at}.conv1", width, inside, 1)
            shapes |= convolution(f"{at}.conv2", width, width, 3)
            shapes |= convolution(f"{at}.conv3", 4 * width, width, 1)
            if block == 0:
                shapes |= convolution(f"{at}.shortcut", 4 * width, inside, 1)
            inside = 4 * width
    return shapes


def layer(name: str, *shape: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": shape, f"{name}.bias": shape[:1]}


def published(
    anchors: int, boxes: int, embedding: str, linear: tuple[str, str], attributes: bool
) -> dict[str, torch.Tensor]:
    """Names and shapes of a public conversion; anchors: objectness logits; boxes: refinements."""
    shapes = resnet101()
    shapes |= layer(RPN + "conv", 512, 1024, 3, 3)
    shapes |= layer(RPN + "objectness_logits", anchors, 512, 1, 1)
    shapes |= layer(RPN + "anchor_deltas", 48, 512, 1, 1)
    shapes |= layer(PREDICTOR + "cls_score", 1601, 2048)
    shapes |= layer(PREDICTOR + "bbox_pred", 4 * boxes, 2048)
    if attributes:
        shapes |= {f"{PREDICTOR}{embedding}.weight": (1601, 256)}
        shapes |= layer(PREDICTOR + linear[0], 512, 2304)
        shapes |= layer(PREDICTOR + linear[1], 401, 512)
    shapes["proposal_generator.anchor_generator.cell_anchors.0"] = (12, 4)
    shapes["backbone.res4.0.conv1.norm.num_batches_tracked"] = ()
    return {name: torch.empty(shape, device="meta") for name, shape in shapes.items()}


MILVLG = (24, 1601, "cls_embed", ("attr_linear1", "attr_linear2"))
AIRSPLAY = (12, 1600, "cls_embedding", ("fc_attr", "attr_score"))


@pytest.mark.parametrize("layout", [MILVLG, AIRSPLAY])
@pytest.mark.parametrize("attributes", [True, False])
def test_real_names_and_shapes_fit_the_full_architecture(layout, attributes: bool) -> None:
    found = to_c4(published(*layout, attributes))
    with torch.device("meta"):
        network = C4Detector(["o"] * 1600, ["a"] * (400 * attributes), **sizes_of(found))
    expected = {name: tuple(value.shape) for name, value in network.state_dict().items()}
    assert {name: tuple(value.shape) for name, value in found.items()} == expected
    assert network.sizes.blocks == [3, 4, 23, 3]


def load_c4(state):
    return foreign_detector("c4_resnet101", state, ["o"] * 5, ["a"] * 4, {})


def test_both_conversions_of_the_same_weights_are_the_same() -> None:
    state = small().state_dict()
    for kind in ("weight", "bias"):
        state[f"{RPN}objectness_logits.{kind}"][:12] = 0  # airsplay's layout has no such rows
    for layout in (state, to_airsplay(state), {f"module.{k}": v for k, v in state.items()}):
        loaded = load_c4(layout)
        assert not loaded.training
        found = loaded.state_dict()
        assert list(found) == list(state)
        assert all(torch.equal(found[name], state[name]) for name in state)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda state: state.pop("backbone.res3.0.conv2.weight"), "1 missing: backbone.res3.0"),
        (lambda state: state.update(strange=torch.zeros(3)), "1 unexpected: strange"),
        (lambda state: state.update({RPN + "conv.bias": torch.zeros(7)}), r"\(7,\) for \(8,\)"),
        (lambda state: state.clear(), "missing"),
    ],
)
def test_weights_that_do_not_fit_are_named(change, words: str) -> None:
    state = dict(small().state_dict())
    change(state)
    with pytest.raises(BackboneError, match=words):
        load_c4(state)


def test_another_pixel_normalisation_is_refused() -> None:
    state = small().state_dict()
    state["pixel_mean"] = torch.tensor([102.9801, 115.9465, 122.7717]).view(3, 1, 1)
    state["pixel_std"] = torch.ones(3, 1, 1)
    assert load_c4(state).region_dim == 128
    state["pixel_std"] = torch.full((3, 1, 1), 57.0)
    with pytest.raises(BackboneError, match=r"pixel_std \[57\.0"):
        load_c4(state)
