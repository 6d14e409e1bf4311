"""timm's networks: cut and run as timm runs them, seen as timm's transforms show them, loaded
strictly, and weights that the real ones recognise dogs with."""

import json
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pytest
import timm
import torch
from backbones import images, lively
from PIL import Image
from safetensors.torch import save_file
from timm.data import create_transform, resolve_model_data_config
from torch import nn

from models.backbone.extraction import accelerate
from models.backbone.network import classifier, cut, pooled, weights_digest
from models.backbone.poolings import POOLINGS
from models.backbone.preprocessing import preprocessing_of
from models.backbone.weights import classifier_with_weights, published_state, timm_state
from pipeline.runtime.errors import WorkbenchError

CPU, SIDE = torch.device("cpu"), 160
SHARED = Path(__file__).resolve().parents[4] / "shared"
REAL = SHARED / "weights/tf_efficientnet_lite0.safetensors"
PHOTOGRAPHS = SHARED / "flickr8k-mini"
DOGS = slice(151, 269)  # ImageNet's classes of breeds


def ends_of(network, batch: torch.Tensor) -> dict[str, torch.Tensor]:
    """What timm itself gives at the layers of fixed names."""
    with torch.inference_mode():
        found = network.forward_features(batch)
        features = network.forward_head(found, pre_logits=True)
        joint = network.forward_head(found)
    if found.ndim == 4:
        maps = found if found.shape[1] == network.num_features else found.movedim(3, 1)
        return {"features": features, "map": maps, "joint": joint}
    patches = found[:, network.num_prefix_tokens :].transpose(1, 2)
    rows, columns = network.patch_embed.grid_size
    maps = patches.reshape(*patches.shape[:2], rows, columns)
    return {"features": features, "map": maps, "token": found[:, 0], "joint": joint}


@pytest.mark.parametrize(
    "name",
    [
        "test_efficientnet",  # batch norms with activations in them
        "test_resnet",
        "test_mambaout",  # channels last
        "test_vit3",  # torch.fx follows it; it has no class token
        "test_vit",  # torch.fx does not
        "vit_tiny_patch16_224.augreg_in21k",
        "vit_medium_patch32_clip_224.tinyclip_laion400m",  # joint: CLIP's space
    ],
)
@pytest.mark.parametrize("pool", ["mean", "mean_max"])
def test_layers_of_fixed_names_equal_timm_s(name: str, pool: str) -> None:
    network, size = lively(f"timm/{name}"), 224 if "224" in name else SIDE
    batch = images(size=size)
    ends = ends_of(network, batch)
    if getattr(network, "cls_token", None) is None:
        ends.pop("token", None)
    backbone, width = cut(network, list(ends), pool, size)
    with torch.inference_mode():
        found = backbone(batch)
    expected = torch.cat([pooled(value, POOLINGS.load(pool)) for value in ends.values()], 1)
    assert found.shape == (2, width)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["timm/test_efficientnet", "timm/test_resnet"])
def test_modules_by_name_and_folded_norms_equal_hooks_on_the_whole(name: str) -> None:
    whole, kept = lively(name), {}
    layer = "blocks.1" if "efficient" in name else "layer2"
    whole.get_submodule(layer).register_forward_hook(
        lambda *given: kept.update(out=given[2].clone())
    )
    expected = ends_of(whole, images(size=SIDE))["features"]
    backbone, _ = cut(lively(name), [layer, "features"], "max", SIDE)
    assert any(isinstance(module, nn.BatchNorm2d) for module in backbone.modules())
    quick = accelerate(backbone, CPU, "fp32", False, 2, SIDE)
    assert not any(isinstance(module, nn.BatchNorm2d) for module in backbone.modules())
    found = quick(images(size=SIDE))
    parts = [pooled(kept["out"], POOLINGS.load("max")), expected]
    torch.testing.assert_close(found, torch.cat(parts, 1), rtol=1e-3, atol=1e-4)


def test_random_weights_are_seeded_and_are_timm_s() -> None:
    torch.manual_seed(7)
    expected = weights_digest(timm.create_model("test_resnet"))
    torch.manual_seed(11)
    before = torch.get_rng_state()
    assert weights_digest(classifier("timm/test_resnet", 7)) == expected
    assert torch.equal(torch.get_rng_state(), before)
    assert weights_digest(classifier("timm/test_resnet", 8)) != expected


@pytest.mark.parametrize("size", [(500, 375), (100, 161)])
@pytest.mark.parametrize(
    "name", ["tf_efficientnet_lite0", "resnet18.a1_in1k", "test_vit", "inception_v3.tv_in1k"]
)
def test_crops_are_those_of_timm_s_own_transform(name: str, size: tuple[int, int]) -> None:
    values = np.random.default_rng(size[0]).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    image = Image.fromarray(values)
    with torch.device("meta"):
        config = resolve_model_data_config(timm.create_model(name))
    expected = create_transform(**config, is_training=False)(image)
    preprocessing = preprocessing_of(f"timm/{name}", None, "center")
    crops = torch.from_numpy(preprocessing.crops(image))[None]
    assert torch.equal(next(preprocessing.inputs(crops))[0], expected)


def test_offline_the_message_says_which_file_goes_where(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))

    def unreachable(*arguments: object, **named: object) -> None:
        raise URLError("no route")

    monkeypatch.setattr("torch.hub.urlopen", unreachable)
    with pytest.raises(WorkbenchError) as error:
        published_state("timm/test_resnet", "imagenet")
    file = "test_resnet.r160_in1k.safetensors"
    url = "https://huggingface.co/timm/test_resnet.r160_in1k/resolve/main/model.safetensors"
    for part in (url, str(tmp_path / "checkpoints"), f"as {file}", "no route"):
        assert part in str(error.value)
    # what is put there as it says is used
    save_file(lively("timm/test_resnet").state_dict(), tmp_path / "checkpoints" / file)
    network = classifier_with_weights("timm/test_resnet", "imagenet")
    assert weights_digest(network) == weights_digest(lively("timm/test_resnet"))


def test_files_in_the_cache_that_cannot_be_used(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    (tmp_path / "checkpoints").mkdir()
    path = tmp_path / "checkpoints/test_resnet.r160_in1k.safetensors"
    path.write_bytes(b"junk")
    with pytest.raises(WorkbenchError, match="not readable as weights"):
        timm_state("timm/test_resnet")
    save_file({"a": torch.ones(1)}, path)
    with pytest.raises(WorkbenchError, match="not the weights of timm/test_resnet"):
        timm_state("timm/test_resnet")
    with pytest.raises(WorkbenchError, match="none are published for 'timm/resnet18t'"):
        timm_state("timm/resnet18t")


@pytest.mark.skipif(not REAL.exists() or not PHOTOGRAPHS.exists(), reason="needs ../shared")
def test_real_weights_find_dogs_where_captions_do() -> None:
    """Another preprocessing, or weights that are not loaded, would not tell them apart."""
    network = classifier_with_weights("timm/tf_efficientnet_lite0", str(REAL))
    preprocessing = preprocessing_of("timm/tf_efficientnet_lite0", None, "center")
    found: dict[bool, list[float]] = {True: [], False: []}
    for row in json.loads((PHOTOGRAPHS / "dataset_flickr8k.json").read_text())["images"]:
        mentions = sum("dog" in sentence["tokens"] for sentence in row["sentences"])
        dogs = mentions == len(row["sentences"])
        if (mentions and not dogs) or len(found[dogs]) == 40:
            continue
        image = Image.open(PHOTOGRAPHS / "Images" / row["filename"]).convert("RGB")
        view = next(preprocessing.inputs(torch.from_numpy(preprocessing.crops(image))[None]))
        with torch.inference_mode():
            found[dogs].append(float(network(view).softmax(1)[0, DOGS].sum()))
    assert [len(shares) for shares in found.values()] == [40, 40]
    assert np.mean(found[True]) > 0.6
    assert np.mean(found[False]) < 0.15
