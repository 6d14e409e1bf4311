"""Features, regions and sentences in shards: the bytes that the stages give without them."""

import os
import subprocess
from contextlib import chdir
from pathlib import Path

import pytest
import torch
from corpora import change_params, write_corpus
from region_cases import captions_of, world
from tiny_inputs import write_vocabulary
from warm_python import warm_python

from models.detector.file import describe, write_detector
from models.detector.fpn import build_detector
from pipeline.storage.features import FeatureFile

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ["--images", "corpus/images.parquet", "--detector", "detector.safetensors"]
STAGES = {
    "extract_image_features": [*IMAGES, "--network", "NAME.network"],
    "extract_region_features": IMAGES,
    "encode_sentences": [
        *("--captions", "corpus/captions.parquet", "--vocabulary", "vocabulary"),
        *("--encoder", "NAME.encoder"),
    ],
}
SHARDS = {"engine": "local", "workers": 2, "shard": 4}


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    with warm_python(tmp_path_factory.mktemp("warm") / "bin") as folder:
        yield folder / "python"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Twelve images, of 26 captions each, a small random detector, and words with vectors."""
    made = tmp_path_factory.mktemp("world")
    with chdir(made):
        images = world(Path("pictures"))
        captions = captions_of(images, 26)
        write_corpus(Path("corpus"), images, captions)
        write_vocabulary(Path(), sorted({word for words in captions["tokens"] for word in words}))
        torch.manual_seed(0)
        sizes = {"layers": 2, "channels": 4, "hidden": 4, "anchors": ((16.0,), (26.0,))}
        detector = build_detector("fpn_resnet18", ["square"], [], **sizes).eval()
        write_detector("detector.safetensors", detector, describe(detector, "random", {}, {}, {}))
    change_params(
        made,
        image_features={"size": 32, "layers": ["layer1"], "batch_size": 4, "workers": 0},
        regions={"boxes": 3, "batch_size": 4, "workers": 0},
        sentences={"encoding": "mean_vector"},
    )
    return made


def run(python, folder, stage, name):
    """The bytes of the outputs, and what was said."""
    options = [word.replace("NAME", name) for word in STAGES[stage]]
    done = subprocess.run(
        [python, "-m", f"stages.{stage}", *options, "--output", f"{name}.h5"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return [path.read_bytes() for path in sorted(folder.glob(f"{name}.*"))], done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("stage", STAGES)
def test_shards_change_no_byte(python, folder, stage):
    change_params(folder, runtime={"extraction": SHARDS | {"workers": 1, "shard": None}})
    whole, _ = run(python, folder, stage, f"whole_{stage}")
    change_params(folder, runtime={"extraction": SHARDS})
    sharded, said = run(python, folder, stage, f"sharded_{stage}")
    count = len(FeatureFile(folder / f"whole_{stage}.h5"))
    assert count == {"encode_sentences": 12 * 26}.get(stage, 12)
    assert f"{2 if stage == 'encode_sentences' else 3} shards, 0 of them finished before" in said
    assert sharded == whole
    assert not list((folder / "data/.work").rglob("*.h5"))
