"""Detectors from weights: random, those of our own files, and those that others publish.

Every shape is settled before memory is taken for a network: files come from anywhere.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from models.backbone.network import BackboneError, load_strict
from models.detector.c4_weights import sizes_of, to_c4
from models.detector.file import DetectorDescription, read_detector
from models.detector.fpn import PUBLISHED, build_detector, current_names
from pipeline.features.weights import damaged
from pipeline.runtime.errors import first_line, ran_out_of_memory

CLASSES = "roi_heads.box_predictor.cls_score.weight"

# Tensors with a row per attribute; those of C4 have one more, for "no attribute".
FPN_ATTRIBUTES = ("roi_heads.attribute_predictor.scores.weight",)
C4_ATTRIBUTES = tuple(CLASSES.replace("cls_score", name) for name in ("attr_linear2", "attr_score"))


def seeded_detector(
    architecture: str,
    object_names: Sequence[str],
    attribute_names: Sequence[str],
    seed: int,
    **sizes: Any,
) -> nn.Module:
    """`build_detector` with seeded random weights; the global random state is untouched.

    Args:
        architecture: fpn_resnet18, fpn_resnet50 or c4_resnet101.
        object_names: C, without background.
        attribute_names: A, may be empty.
        seed: of the weights.
        sizes: as for `build_detector`.

    Returns:
        The detector, on the CPU; equal arguments give equal weights.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build_detector(architecture, object_names, attribute_names, **sizes)


def load_detector(path: Path) -> tuple[nn.Module, DetectorDescription]:
    """The detector of a file, on the CPU, in evaluation mode; WorkbenchError as read_detector."""
    description, weights = read_detector(path)
    try:
        network = own_detector(
            description.architecture,
            description.object_names,
            attribute_names=description.attribute_names,
            sizes=description.sizes,
            state=weights,
        )
    except BackboneError as error:
        raise damaged(path, str(error), "detector") from None
    return network, description


def own_detector(
    architecture: str,
    object_names: Sequence[str],
    attribute_names: Sequence[str],
    sizes: Mapping[str, Any],
    state: Mapping[str, Tensor],
) -> nn.Module:
    """The detector of one of our own files, in evaluation mode.

    Args:
        architecture: fpn_resnet18, fpn_resnet50 or c4_resnet101.
        object_names: C, without background.
        attribute_names: A, may be empty.
        sizes: of FPNSizes or C4Sizes.
        state: tensors by name.

    Returns:
        The detector with these weights, on the CPU.

    Raises:
        BackboneError: sizes that no detector has, and weights that do not fit them.
    """
    try:
        with torch.device("meta"):  # nothing is allocated before names and shapes are known to fit
            load_strict(
                build_detector(architecture, object_names, attribute_names, **sizes),
                {name: torch.empty(value.shape) for name, value in state.items()},
            )
        network = build_detector(architecture, object_names, attribute_names, **sizes)
        load_strict(network, state)
    except (ValueError, TypeError, RuntimeError) as error:
        if ran_out_of_memory(error):
            raise
        raise BackboneError(first_line(error)) from None
    return network.eval()


def known_names(architecture: str, state: Mapping[str, Tensor]) -> tuple[int, int]:
    """How many objects and attributes a state dict of others knows, without the "none" of each.

    Args:
        architecture: fpn_resnet18, fpn_resnet50 or c4_resnet101.
        state: tensors by name.

    Returns:
        C and A; A is 0 for a detector without attributes.

    Raises:
        BackboneError: it has no class scores, so it is no detector's.
    """
    bottom_up = architecture == "c4_resnet101"
    objects = _row_count(state, (CLASSES,))
    attributes = _row_count(state, C4_ATTRIBUTES if bottom_up else FPN_ATTRIBUTES)
    if objects < 2:
        problem = f"{CLASSES} is missing or empty"
        raise BackboneError(f"no weights of a detector {architecture}: {problem}")
    return objects - 1, max(attributes - bottom_up, 0)


def foreign_detector(
    architecture: str,
    state: Mapping[str, Tensor],
    object_names: Sequence[str],
    attribute_names: Sequence[str],
    sizes: Mapping[str, Any],
) -> nn.Module:
    """A detector in evaluation mode that holds a state dict of others.

    c4_resnet101: of either public conversion, its sizes read from the shapes; fpn_resnet50: of
    torchvision's fasterrcnn_resnet50_fpn, with any number of classes; fpn_resnet18: of `sizes`.

    Args:
        architecture: one of these three.
        state: tensors by name.
        object_names: C, without background.
        attribute_names: A, may be empty.
        sizes: of FPNSizes, read for fpn_resnet18 alone.

    Returns:
        The detector with these weights under our own names of tensors, on the CPU.

    Raises:
        BackboneError: names what is missing, unexpected or ill-shaped.
    """
    if architecture == "c4_resnet101":
        renamed = to_c4(state)
        used: Mapping[str, Any] = sizes_of(renamed)
    else:
        renamed = current_names(state)
        used = asdict(PUBLISHED) if architecture == "fpn_resnet50" else sizes
    return own_detector(
        architecture, object_names, attribute_names=attribute_names, sizes=used, state=renamed
    )


def _row_count(state: Mapping[str, Tensor], names: tuple[str, ...]) -> int:
    """First size of the tensor under one of the names, perhaps with a prefix; 0 without one."""
    values = [value for name, value in state.items() if name.endswith(names) and value.ndim]
    return len(values[0]) if values else 0
