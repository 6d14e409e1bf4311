"""Golden figures on real photographs: models that learn as they should reach them, stage by stage,
as a user runs them. Tests of each part's form do not see what parts do to each other.

1,000 photographs of Flickr8k with five captions each, 150 of them in the test split, and features
of a small ImageNet network at 160 x 160 pixels.
"""

import json
from pathlib import Path

import pytest
from commands import succeed
from corpora import change_params

from stages import (
    build_vocabulary,
    encode_sentences,
    evaluate,
    extract_image_features,
    prepare_corpus,
    score,
    train,
    train_detector,
)

SHARED = Path(__file__).resolve().parents[2] / "shared"
PHOTOGRAPHS = SHARED / "flickr8k-mini"
WEIGHTS = SHARED / "weights/tf_efficientnet_lite0.safetensors"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (PHOTOGRAPHS.exists() and WEIGHTS.exists()), reason="needs ../shared: photographs"
    ),
]

TABLES = {"images": "corpus/images.parquet", "captions": "corpus/captions.parquet"}
TEXTS = {"vse": "vocabulary", "cca": "sentences.h5"}
NETWORK = {
    "model": "timm/tf_efficientnet_lite0",
    "weights": str(WEIGHTS),
    "layers": ["features"],
    "pool": "mean",
    "size": 160,
    "workers": 0,
}
SETTINGS = {
    "dataset": "karpathy_json",
    "raw": str(PHOTOGRAPHS),
    "detector__weights": "random",
    "image_features": NETWORK,
    "vocabulary": {"dim": 100, "min_count": 3},
    "sentences__encoding": "mean_vector",
    "vse": {"dim": 256, "word_dim": 100, "word_vectors": "pretrained", "text_pool": "mean"},
    "vse__training": {"epochs": 6, "batch_size": 64, "lr_step": 4},
    "cca": {"dim": 64, "regularisation": 0.03},
    "evaluation__bootstrap": 0,
}


def run(stage, folder, *words, **paths):
    """A stage's command: its words, and its options in a dict."""
    options = [word for name, path in paths.items() for word in (f"--{name}", path)]
    succeed(stage.main, folder, *words, *options)


def prepare(folder):
    """The corpus and the features of its images, which no seed changes."""
    change_params(folder, **SETTINGS)
    run(prepare_corpus, folder, output="corpus")
    detector = {"images": TABLES["images"], "boxes": "corpus/boxes.parquet"}
    made = {"output": "detector.safetensors", "curve": "detector.tsv"}
    run(train_detector, folder, **detector, **made)
    made = {"output": "image.h5", "network": "network.safetensors"}
    run(extract_image_features, folder, **TABLES, detector="detector.safetensors", **made)


def rsum_of(name, folder, seed):
    """R@1 + R@5 + R@10 in both directions of a model that is trained from its vocabulary on."""
    change_params(folder, seed=seed)
    captions = TABLES["captions"]
    run(build_vocabulary, folder, captions=captions, output="vocabulary")
    if name == "cca":
        made = {"output": "sentences.h5", "encoder": "encoder.h5"}
        run(encode_sentences, folder, captions=captions, vocabulary="vocabulary", **made)
    inputs = TABLES | {"features": "image.h5", "text": TEXTS[name]}
    run(train, folder, name, **inputs, output="weights.safetensors", curve="curve.tsv")
    run(score, folder, name, **inputs, checkpoint="weights.safetensors", output=f"{name}.h5")
    run(evaluate, folder, scores=f"{name}.h5", metrics="metrics.json", ranks="ranks.h5")
    return json.loads((folder / "metrics.json").read_text())["naive"]["rsum"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photographs")
    prepare(folder)
    return folder


# rsum of the test split, measured over the seeds 0, 1, 2 (of word vectors, weights and batches):
#   vse 238.3 233.7 227.5, mean 233.2, standard deviation 5.4
#   cca 238.5 234.9 228.8, mean 234.1, standard deviation 4.9 (its seed decides word vectors alone)
# A figure may be three of these deviations off the mean, so that a change which only draws
# otherwise stays within. Chance is 21. Images that are not normalised, to name a fault, give
# vse 210.4, which is outside, and cca 227.7, which is not: smaller faults are for other tests.
GOLDEN = {"vse": (233.2, 5.4), "cca": (234.1, 4.9)}
DEVIATIONS = 3


@pytest.mark.parametrize("name", GOLDEN)
def test_a_model_reaches_its_figure(name, folder):
    """Takes 40 seconds of one processor in all, half of them for the features of the images."""
    mean, deviation = GOLDEN[name]
    assert rsum_of(name, folder, 0) == pytest.approx(mean, abs=DEVIATIONS * deviation)
