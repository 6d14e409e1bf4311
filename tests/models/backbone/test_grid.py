"""Cells of feature maps: values as adaptive pooling gives them, boxes where the cells are in the
original image, and the layers that regions can be taken from."""

import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn.functional import adaptive_avg_pool2d

from models.backbone.extraction import accelerate
from models.backbone.grid import GridBackbone, grid_boxes, last_map
from models.backbone.network import BackboneError, classifier, cut
from models.backbone.preprocessing import preprocessing_of

CPU = torch.device("cpu")


def grid_of(model: str, layers: list[str], grid: tuple[int, int], size: int) -> GridBackbone:
    network = classifier(model, 0)
    backbone, _ = cut(network, layers, "mean", size)
    return GridBackbone(network, backbone, layers, grid, size).eval()


@pytest.mark.parametrize("grid", [(4, 4), (2, 3), (3, 3), (1, 1)])
def test_cells_are_means_of_the_map_s_places(grid: tuple[int, int]) -> None:
    network = classifier("resnet18", 0)
    images = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        maps = network.maxpool(network.relu(network.bn1(network.conv1(images))))
        maps = network.layer3(network.layer2(network.layer1(maps)))
    made = grid_of("resnet18", ["layer3"], grid, 64)
    cells = made.cells()
    quick = accelerate(made, CPU, "fp32", False, 2, 64)
    found = quick(images)
    assert found.shape == (2, grid[0] * grid[1], 256)
    for place, (left, top, right, bottom) in enumerate((cells * 4).round(9)):
        # the box of a cell holds exactly the places that are averaged
        assert [left, top, right, bottom] == [int(x) for x in (left, top, right, bottom)]
        inside = maps[:, :, int(top) : int(bottom), int(left) : int(right)]
        torch.testing.assert_close(found[:, place], inside.mean((2, 3)), rtol=1e-3, atol=1e-4)


def test_several_maps_are_side_by_side_and_boxes_hold_the_places_of_all() -> None:
    made = grid_of("resnet18", ["layer2", "layer3"], (3, 3), 64)
    images = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        found, outputs = made(images), made.graph(images)
    expected = [adaptive_avg_pool2d(outputs[name], 3).flatten(2) for name in ("layer2", "layer3")]
    torch.testing.assert_close(found, torch.cat(expected, 1).transpose(1, 2))
    # 8 places: 0-3, 2-6, 5-8; 4 places: 0-2, 1-3, 2-4
    np.testing.assert_allclose(made.cells()[4], [0.25, 0.25, 0.75, 0.75])
    np.testing.assert_allclose(made.cells()[:, 0], [0, 0.25, 0.5] * 3)
    np.testing.assert_allclose(made.cells()[:, 3], [0.5] * 3 + [0.75] * 3 + [1] * 3)


@pytest.mark.parametrize("resize", ["squash", "short_side"])
@pytest.mark.parametrize("size", [(300, 200), (200, 451), (128, 128)])
def test_boxes_are_where_the_pixels_of_the_crop_come_from(size, resize: str) -> None:
    """An image whose colours are its coordinates: a cell's pixels tell its box."""
    width, height = size
    across, down = np.meshgrid(np.arange(width) + 0.5, np.arange(height) + 0.5)
    planes = [across / width * 255, down / height * 255, np.zeros_like(down)]
    image = Image.fromarray(np.stack(planes, 2).round().astype(np.uint8))
    crops = preprocessing_of("resnet18", 64, "center", resize)
    crop = crops.crops(image)[0].astype(np.float64) / 255
    cells = grid_of("resnet18", ["layer3"], (2, 4), 64).cells()
    boxes = grid_boxes(cells, crops, np.array([size]))[0]
    assert boxes.dtype == np.float32
    assert (boxes >= 0).all()
    assert (boxes <= [width, height, width, height]).all()
    for cell, box in zip((cells * 64).astype(int), boxes, strict=True):
        pixels = crop[:2, cell[1] : cell[3], cell[0] : cell[2]]
        middle = pixels.mean((1, 2)) * size
        np.testing.assert_allclose((box[:2] + box[2:]) / 2, middle, atol=0.012 * max(size))
        extent = (pixels.max((1, 2)) - pixels.min((1, 2))) * size
        pitch = (box[2:] - box[:2]) / (cell[2:] - cell[:2])  # between the centres of pixels
        np.testing.assert_allclose(box[2:] - box[:2] - pitch, extent, atol=0.025 * max(size))
    whole = [boxes[:, :2].min(0), boxes[:, 2:].max(0)]
    if resize == "squash":
        np.testing.assert_allclose(whole, [[0, 0], size])
    else:
        np.testing.assert_allclose(whole[1] - whole[0], [min(size)] * 2, rtol=0.01)


@pytest.mark.parametrize(
    ("model", "layer"),
    [
        ("resnet18", "layer4"),
        ("vgg11", "features"),
        ("swin_t", "permute"),
        ("googlenet", "inception5b"),
        ("timm/test_vit", "map"),
        ("timm/test_resnet", "map"),
    ],
)
def test_the_last_map(model: str, layer: str) -> None:
    assert last_map(classifier(model, 0), 96) == layer


def test_what_gives_no_cells_is_named_with_what_does() -> None:
    with pytest.raises(BackboneError, match=r"vector per image.* layer3, layer4$"):
        grid_of("resnet18", ["layer3", "flatten"], (2, 2), 64)
    with pytest.raises(BackboneError, match=r"vector per image.* maps are: map$"):
        grid_of("timm/test_vit", ["token"], (2, 2), 160)
    with pytest.raises(BackboneError, match="4 x 4, which has no 5 x 2 cells"):
        grid_of("resnet18", ["layer3"], (5, 2), 64)
    with pytest.raises(BackboneError, match="VisionTransformer has no last feature map"):
        last_map(classifier("vit_b_32", 0), 224)
    with pytest.raises(BackboneError, match="no layer 'map'"):
        grid_of("timm/pit_ti_224", ["map"], (2, 2), 224)
