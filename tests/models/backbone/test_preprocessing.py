"""Crops and normalisation equal torchvision's own, to the last bit where the geometry agrees."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision import transforms
from torchvision.models import ResNet18_Weights, get_model_weights

from models.backbone.preprocessing import preprocessing_of
from pipeline.runtime.yaml_text import read_yaml

ROOT = Path(__file__).resolve().parents[3]


def picture(width: int, height: int) -> Image.Image:
    values = np.random.default_rng(width).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(values)


def views(model: str, size: int | None, kind: str, image: Image.Image) -> torch.Tensor:
    preprocessing = preprocessing_of(model, size, kind)
    crops = torch.from_numpy(preprocessing.crops(image))[None]
    found = torch.cat(list(preprocessing.inputs(crops)))
    assert len(found) == preprocessing.views_per_image
    return found


@pytest.mark.parametrize("size", [(500, 375), (375, 501), (224, 224), (100, 61), (257, 256)])
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


@pytest.mark.parametrize("size", [(256, 256), (512, 256), (400, 300)])
def test_ten_crop_equals_torchvision_as_a_set(size: tuple[int, int]) -> None:
    image = picture(*size)
    resized = transforms.Resize(256)(image)
    preset = ResNet18_Weights.IMAGENET1K_V1.transforms()
    preset.resize_size, crops = [224], transforms.TenCrop(224)(resized)
    expected = sorted(preset(crop).flatten().tolist()[:50] for crop in crops)
    found = views("resnet18", None, "ten_crop", image)
    if (resized.width - 224) % 2 == 0:
        assert sorted(view.flatten().tolist()[:50] for view in found) == expected
    assert len({view.numpy().tobytes() for view in found}) == 10


def test_a_given_size_sees_the_whole_of_an_image_of_that_size() -> None:
    image = picture(128, 128)
    preprocessing = preprocessing_of("resnet18", 128, "center")
    np.testing.assert_array_equal(
        preprocessing.crops(image)[0], np.asarray(image).transpose(2, 0, 1)
    )
    assert preprocessing_of("resnet18", 96, "flip").resize == 96


def test_ten_crop_keeps_the_ratio_of_resize_to_crop() -> None:
    preprocessing = preprocessing_of("resnet18", 128, "ten_crop")
    assert (preprocessing.resize, preprocessing.crop) == (146, 128)
    crops = preprocessing.crops(picture(128, 128))
    assert crops.shape == (5, 3, 128, 128)
    assert len({crop.tobytes() for crop in crops}) == 5


def test_each_model_has_its_own_numbers() -> None:
    inception = preprocessing_of("inception_v3", None, "center")
    assert (inception.resize, inception.crop) == (342, 299)
    assert preprocessing_of("efficientnet_b0", None, "center").resampling == 3  # bicubic
    assert preprocessing_of("vgg16", None, "center").mean == (0.485, 0.456, 0.406)


@pytest.mark.parametrize("size", [(500, 375), (128, 384), (256, 256)])
def test_squashed_images_are_whole_squares_and_ten_crops_their_corners(size) -> None:
    """Wang et al. 2016, section 3.1: 256 x 256 pixels, ten crops of 224 x 224."""
    image = picture(*size)
    preprocessing = preprocessing_of("vgg19", None, "ten_crop", "squash")
    square = np.asarray(image.resize((256, 256), Image.Resampling.BILINEAR))
    corners = [(0, 0), (32, 0), (0, 32), (32, 32), (16, 16)]
    expected = [square[y : y + 224, x : x + 224].transpose(2, 0, 1) for x, y in corners]
    np.testing.assert_array_equal(preprocessing.crops(image), expected)


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


def test_a_squashed_image_of_a_given_size_is_seen_whole() -> None:
    """Of a pedestrian of 128 x 384 pixels the short side's square would show a third."""
    image = picture(128, 384)
    whole, square = (
        preprocessing_of("resnet50", 224, "center", resize).crops(image)[0]
        for resize in ("squash", "short_side")
    )
    pixels = np.asarray(image.resize((224, 224), Image.Resampling.BILINEAR))
    np.testing.assert_array_equal(whole, pixels.transpose(2, 0, 1))
    tall = np.asarray(image.resize((224, 672), Image.Resampling.BILINEAR))
    np.testing.assert_array_equal(square, tall[224:448].transpose(2, 0, 1))


def test_the_recipe_of_pedestrians_shows_them_from_head_to_foot() -> None:
    """Whole in extraction and scoring; in training by crops that leave out an eighth at most."""
    recipe = read_yaml(ROOT / "recipes/dual_path_2020_cuhk_pedes.yaml")
    image, settings = picture(128, 384), recipe["image_features"]
    given = (settings[name] for name in ("model", "size", "views", "resize"))
    side = settings["size"]
    pixels = np.asarray(image.resize((side, side), Image.Resampling.BILINEAR))
    seen = preprocessing_of(*given).crops(image)[0]
    np.testing.assert_array_equal(seen, pixels.transpose(2, 0, 1))
    assert recipe["dual_path"]["crop"] / recipe["dual_path"]["resize"] >= 7 / 8


@pytest.mark.parametrize("kind", ["center", "flip", "ten_crop"])
def test_caffe_s_normalisation_is_bgr_without_the_means(kind: str) -> None:
    image = picture(320, 256)
    preprocessing = preprocessing_of("vgg19", None, kind, normalisation="caffe")
    crops = torch.from_numpy(preprocessing.crops(image))[None]
    resized = np.asarray(preprocessing.resized(image)).astype(np.float64)
    left, top = resized.shape[1] - 224, resized.shape[0] - 224
    corners = [(left // 2, top // 2)]
    if kind == "ten_crop":
        corners = [(0, 0), (left, 0), (0, top), (left, top), *corners]
    expected = []
    for x, y in corners:
        view = np.empty((3, 224, 224))
        for channel, mean in ((2, 123.68), (1, 116.779), (0, 103.939)):  # of R, G and B
            view[channel] = resized[y : y + 224, x : x + 224, 2 - channel] - mean
        expected += [view] if kind == "center" else [view, view[..., ::-1]]
    found = torch.stack([view[0] for view in preprocessing.inputs(crops)])
    np.testing.assert_allclose(found, np.stack(expected), atol=1e-4)
