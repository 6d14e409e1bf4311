"""The stage from an images table to image.h5: repeatable, and plain about mistakes."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from commands import fail, succeed
from corpora import SHARDS, change_params, write_corpus
from PIL import Image
from pretended_cuda import on_pretended_gpu
from region_cases import world
from tiny_inputs import replace_images

from models.backbone.extraction import build_network, feature_extractor
from models.backbone.network import check_size, classifier, cut, read_network, weights_digest
from models.detector.file import describe, write_detector
from models.detector.fpn import build_detector
from pipeline.corpus.tables import images_digest, load_images
from pipeline.features.feature_file import FeatureFile
from pipeline.runtime.errors import WorkbenchError
from stages.extract_image_features import main
from stages.params import load_params

SIZE = 64


@pytest.fixture
def repository(tmp_path: Path, monkeypatch) -> Path:
    """A folder with params.yaml for small pictures, the corpus of twelve of them, a detector."""
    monkeypatch.chdir(tmp_path)
    change_params(
        tmp_path,
        image_features={
            "size": SIZE,
            "batch_size": 4,
            "workers": 0,
            "model": "resnet18",
            "weights": "random",
            "layers": ["layer1", "layer2"],
            "pool": "mean_max",
            "views": "center",
            "precision": "fp32",
            "compile": False,
        },
    )
    write_body("detector.safetensors", 3)
    write_corpus(Path("corpus"), world(Path("pictures")))
    return tmp_path


def change(**values: object) -> None:
    change_params(Path(), image_features=values)


def write_body(path: Path | str, seed: int, architecture: str = "fpn_resnet18") -> torch.nn.Module:
    """A detector of two layers of a ResNet, with statistics that a ResNet does not start with."""
    torch.manual_seed(seed)
    sizes = {"layers": 2, "channels": 4, "hidden": 4, "anchors": ((16.0,), (26.0,))}
    detector = build_detector(architecture, ["square"], [], **sizes).eval()
    for name, value in detector.named_buffers():
        if name.endswith("running_mean"):
            value.normal_(0, 0.1)
    write_detector(path, detector, describe(detector, "random", {}, {}, {}))
    return detector


def backbone_of(network: torch.nn.Module) -> torch.nn.Module:
    """Cut as the parameters of the fixture say."""
    return cut(network, ["layer1", "layer2"], "mean_max", SIZE)[0]


def arguments(output: str) -> list[str]:
    files = {"images": "corpus/images.parquet", "detector": "detector.safetensors"}
    files |= {"network": "network.safetensors", "output": output}
    return [word for name, path in files.items() for word in (f"--{name}", path)]


def extract(output: str = "image.h5") -> str:
    return succeed(main, Path(), *arguments(output))


def refused() -> str:
    said = fail(main, Path(), *arguments("image.h5"))
    assert not Path("image.h5").exists()
    return said


def test_what_the_file_says_and_the_same_bytes_again(repository: Path) -> None:
    extract()
    file = FeatureFile("image.h5")
    assert file.shape() == (12, 2 * (64 + 128))
    assert file.dtype() == np.float16
    images = load_images(Path("corpus/images.parquet"))
    assert file.attributes["corpus_sha256"] == images_digest(images)
    drawn = weights_digest(backbone_of(classifier("resnet18", 0)))
    assert file.attributes["weights_sha256"] == drawn
    assert file.attributes["layer"] == "layer1,layer2"
    params = json.loads(file.attributes["params"])
    assert params["size"] == SIZE
    assert not {"seed", "workers"} & set(params)
    assert not {"resize", "normalisation"} & set(params)  # what goes without saying
    network = Path("network.safetensors").read_bytes()
    assert str(repository).encode() not in Path("image.h5").read_bytes() + network
    change(workers=1)
    extract("again.h5")
    assert Path("network.safetensors").read_bytes() == network
    change(workers=0)
    with on_pretended_gpu(repository):
        extract("gpu.h5")
    for name in ("again.h5", "gpu.h5"):
        assert Path(name).read_bytes() == Path("image.h5").read_bytes()


@pytest.mark.slow
def test_shards_change_no_byte(repository: Path, run_process) -> None:
    extract("whole.h5")
    change_params(repository, runtime=SHARDS)
    done = run_process("extract_image_features", *arguments("sharded.h5"), cwd=repository)
    assert "3 shards, 0 of them finished before" in done.stderr
    assert Path("sharded.h5").read_bytes() == Path("whole.h5").read_bytes()


def test_weights_of_the_detector(repository: Path) -> None:
    """Its ResNet as far as both reach; what lies behind does not count, and for other weights
    nothing of it."""
    change(weights="detector")
    extract()
    body = write_body("detector.safetensors", 3).backbone.body
    network = classifier("resnet18", 0)
    for name in ("conv1", "bn1", "layer1", "layer2"):
        getattr(network, name).load_state_dict(getattr(body, name).state_dict())
    expected = weights_digest(backbone_of(network))
    file = FeatureFile("image.h5")
    assert file.attributes["weights_sha256"] == expected
    first = file.read([3])
    write_body("detector.safetensors", 4)
    extract("other.h5")
    assert np.abs(FeatureFile("other.h5").read([3]) - first).max() > 0.01
    change(weights="random")
    extract("one.h5")
    write_body("detector.safetensors", 3)
    extract("two.h5")
    assert Path("one.h5").read_bytes() == Path("two.h5").read_bytes()


@pytest.mark.parametrize(
    ("architecture", "layers", "words"),
    [
        ("fpn_resnet50", ["layer1"], "the detector is a fpn_resnet50, image_features.model a resn"),
        ("fpn_resnet18", ["layer1", "layer3"], "with 2 lists in detector.anchors the detector"),
    ],
)
def test_a_detector_that_does_not_hold_the_network(repository, architecture, layers, words) -> None:
    write_body("detector.safetensors", 3, architecture)
    change(weights="detector", layers=layers)
    said = refused()
    assert words in said
    assert not Path("network.safetensors").exists()


@pytest.mark.parametrize(
    "values", [{"views": "flip"}, {"resize": "squash", "normalisation": "caffe"}], ids=str
)
def test_a_query_image_gets_the_features_of_the_corpus(repository: Path, values) -> None:
    """By the network in its file, whatever params.yaml says by then."""
    pixels = np.random.default_rng(1).integers(0, 256, (50, 90, 3), dtype=np.uint8)
    wide = Image.fromarray(pixels)
    replace_images(Path("corpus/images.parquet"), repository, {3: wide}, (90, 50))
    change(**values)
    extract()
    change(model="vgg11", layers=["fc7"], pool="mean", weights="imagenet", resize="short_side")
    network, file = read_network(Path("network.safetensors")), FeatureFile("image.h5")
    assert network.settings == json.loads(file.attributes["params"])
    assert network.settings.items() >= values.items()
    assert weights_digest(network.backbone) == file.attributes["weights_sha256"]
    query = feature_extractor(Path("network.safetensors"), file, torch.device("cpu"))(wide)
    np.testing.assert_allclose(query, file.read([3]), rtol=2e-3, atol=2e-3 * query.max())


def test_sizes_that_a_network_does_not_take(repository: Path) -> None:
    change(model="vgg11", layers=["pool5"])
    settings = load_params().image_features
    backbone = build_network(settings, Path("detector.safetensors")).backbone
    check_size(backbone, 32, "dual_path.crop")
    with pytest.raises(WorkbenchError, match=r"dual_path.crop = 31: the network .* not take such"):
        check_size(backbone, 31, "dual_path.crop")
