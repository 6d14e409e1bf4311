"""Crops and normalisation equal torchvision's own, to the last bit where the geometry agrees."""

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision import transforms
from torchvision.models import ResNet18_Weights, get_model_weights

from models.backbone.preprocessing import preprocessing_of


def picture(width: int, height: int) -> Image.Image:
    values = np.random.default_rng(width).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(values)


def views(model: str, size: int | None, kind: str, image: Image.Image) -> torch.Tensor:
    preprocessing = preprocessing_of(model, size, kind)
    crops = torch.from_numpy(preprocessing.crops(image))[None]
    found = torch.cat(list(preprocessing.inputs(crops)))
    assert len(found) == preprocessing.views_per_image
    return found


@pytest.mark.parametrize("size", [(500, 375), (375, 501), (100, 61), (257, 256)])
@pytest.mark.parametrize("model", ["vgg19", "resnet152", "efficientnet_b0", "inception_v3"])
def test_center_crop_is_the_model_s_own(model: str, size: tuple[int, int]) -> None:
    image = picture(*size)
    expected = get_model_weights(model)["IMAGENET1K_V1"].transforms()(image)
    assert torch.equal(views(model, None, "center", image)[0], expected)


def test_flip_adds_the_mirror_image() -> None:
    image = picture(300, 260)
    center, mirrored = views("resnet18", None, "flip", image)
    expected = ResNet18_Weights.IMAGENET1K_V1.transforms()(image)
    assert torch.equal(center, expected)
    assert torch.equal(mirrored, expected.flip(-1))


def test_ten_crop_keeps_the_ratio_of_resize_to_crop() -> None:
    preprocessing = preprocessing_of("resnet18", 128, "ten_crop")
    assert (preprocessing.resize, preprocessing.crop) == (146, 128)
    crops = preprocessing.crops(picture(128, 128))
    assert crops.shape == (5, 3, 128, 128)
    assert len({crop.tobytes() for crop in crops}) == 5


@pytest.mark.parametrize("size", [(500, 375), (333, 500)])
def test_ten_crops_of_the_two_branch_recipes_are_torchvision_s(size) -> None:
    """Wang et al. 2016, section 3.1, for Caffe's VGG: BGR, 0 to 255, less means."""
    image = picture(*size)
    preprocessing = preprocessing_of("vgg19", None, "ten_crop", "squash", "caffe")
    crops = torch.from_numpy(preprocessing.crops(image))[None]
    found = torch.cat(list(preprocessing.inputs(crops)))
    square = image.resize((256, 256), Image.Resampling.BILINEAR)
    means = torch.tensor([103.939, 116.779, 123.68])[:, None, None]
    expected = [
        torch.from_numpy(np.asarray(crop)[..., ::-1].transpose(2, 0, 1).copy()) - means
        for crop in transforms.TenCrop(224)(square)
    ]
    # there the mirrored crops come last, named by their place in the mirrored image
    same_order = [expected[place] for place in (0, 6, 1, 5, 2, 8, 3, 7, 4, 9)]
    np.testing.assert_allclose(found, torch.stack(same_order), atol=1e-4)
