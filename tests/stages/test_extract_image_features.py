"""The stage from an images table to image.h5: repeatable, and plain about mistakes."""

import hashlib
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from click.testing import CliRunner, Result
from PIL import Image
from torchvision.models import resnet18

from models.backbones import classifier, weights_digest
from pipeline.corpus import Corpus, images_digest, load_images
from pipeline.feature_store import FeatureFile
from stages.extract_image_features import main

ROOT = Path(__file__).resolve().parents[2]
SIZE = 64


@pytest.fixture
def repository(tmp_path: Path, monkeypatch) -> Path:
    """A folder with params.yaml for small pictures and the corpus of ten of them."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "params.yaml", tmp_path)
    (tmp_path / "data/raw/shapes").mkdir(parents=True)
    change(
        size=SIZE, batch_size=4, workers=0, model="resnet18", weights="random", threads=1,
        layers="[layer1, layer2]", pool="mean_max", views="center", precision="fp32",
        compile="false",
    )  # fmt: skip
    rows, rng = [], np.random.default_rng(0)
    for number in range(10):
        path = tmp_path / f"{number}.png"
        Image.fromarray(rng.integers(0, 256, (SIZE, SIZE, 3), dtype=np.uint8)).save(path)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        rows.append([f"image{number}", path.name, "train", f"image{number}", SIZE, SIZE, digest])
    columns = ["image_id", "path", "split", "group", "width", "height", "sha256"]
    captions = pd.DataFrame(columns=["caption_id", "image_id", "split", "text", "tokens"])
    boxes = pd.DataFrame(columns=["image_id", "x1", "y1", "x2", "y2", "object", "attributes"])
    rejects = pd.DataFrame(columns=["file", "reason"])
    Corpus(pd.DataFrame(rows, columns=columns), captions, boxes, rejects).write(tmp_path / "corpus")
    return tmp_path


def change(**values: object) -> None:
    """Set keys of the sections image_features and runtime in ./params.yaml."""
    text = Path("params.yaml").read_text()
    start, end = text.index("\nimage_features:"), text.index("\nranking:")
    head, section = text[:start], text[start:end]
    for key, value in values.items():
        pattern, line = rf"(?m)^  {key}: .*$", f"  {key}: {value}"
        head = re.sub(pattern, line, head) if key in ("threads", "device") else head
        section = re.sub(pattern, line, section)
    Path("params.yaml").write_text(head + section + text[end:])


def extract(output: str = "image.h5") -> Result:
    arguments = ["--images", "corpus/images.parquet", "--output", output]
    return CliRunner().invoke(main, arguments)


def test_the_file_and_what_it_says_of_itself(repository: Path) -> None:
    result = extract()
    assert result.exit_code == 0, result.output
    file = FeatureFile("image.h5")
    assert file.shape() == (10, 2 * (64 + 128))
    assert file.dtype() == np.float16
    assert file.attributes["corpus_sha256"] == images_digest(
        load_images(Path("corpus/images.parquet"))
    )
    assert file.attributes["weights_sha256"] == weights_digest(classifier("resnet18", 0))
    assert file.attributes["layer"] == "layer1,layer2"
    params = json.loads(file.attributes["params"])
    assert (params["size"], params["seed"], "workers" in params) == (SIZE, 0, False)
    assert str(repository).encode() not in Path("image.h5").read_bytes()

    row = torch.from_numpy(np.array(Image.open("7.png"))).permute(2, 0, 1)[None] / 255
    mean, std = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    row = (row - torch.tensor(mean).view(3, 1, 1)) / torch.tensor(std).view(3, 1, 1)
    network = classifier("resnet18", 0)
    with torch.inference_mode():
        maps = network.layer1(network.maxpool(network.relu(network.bn1(network.conv1(row)))))
        both = [maps, network.layer2(maps)]
        expected = torch.cat([torch.cat([m.mean((2, 3)), m.amax((2, 3))], 1) for m in both], 1)
    np.testing.assert_allclose(file.read([7]), expected, rtol=2e-3, atol=1e-3)


def test_the_same_bytes_again_and_with_workers(repository: Path) -> None:
    assert extract("one.h5").exit_code == 0
    change(workers=1)
    assert extract("two.h5").exit_code == 0
    assert Path("one.h5").read_bytes() == Path("two.h5").read_bytes()


def test_weights_from_a_file(repository: Path) -> None:
    torch.manual_seed(5)
    network = resnet18().eval()
    torch.save(network.state_dict(), "my.pt")
    change(weights="my.pt", views="flip")
    result = extract()
    assert result.exit_code == 0, result.output
    file = FeatureFile("image.h5")
    assert file.attributes["weights_sha256"] == weights_digest(network)
    assert json.loads(file.attributes["params"])["weights"] == "file"


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("model", "resnet81", ["resnet81", "similar: resnet18"]),
        ("layers", "[layer7]", ["layer7", "at the top"]),
        ("weights", "wrong.pt", ["missing: conv1.weight", "unexpected: a"]),
        ("weights", "junk.pt", ["junk.pt", "not a plain state dict"]),
    ],
)
def test_wrong_settings_are_named(repository: Path, key: str, value: str, words) -> None:
    torch.save({"a": torch.ones(1)}, "wrong.pt")
    Path("junk.pt").write_text("junk")
    change(**{key: value})
    result = extract()
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ")
    for word in words:
        assert word in result.stderr
    assert not Path("image.h5").exists()


def test_an_image_changed_since_the_corpus_stops_the_run(repository: Path) -> None:
    shutil.copy("1.png", "6.png")
    result = extract()
    assert result.exit_code == 1
    assert "6.png: changed" in result.stderr
    assert "dvc repro -f prepare_corpus" in result.stderr
    assert list(Path("data/.work/image_features").glob("*.mask"))
