"""Files of features that params.yaml does not describe are refused; those it does are taken."""

import json
from pathlib import Path

import numpy as np
import pytest
from corpora import change_params

from models.backbone.grid import build_grid
from models.backbone.params import provenance
from pipeline.features.data import Inputs
from pipeline.features.feature_file import write_features
from pipeline.features.origin import check_origins
from pipeline.features.regions.params import provenance as region_provenance
from pipeline.features.sentences.encoder import chosen_settings
from pipeline.runtime.errors import WorkbenchError
from stages.params import load_params

GRID = {"source": "grid", "grid": [2, 3], "network": {"weights": "random", "layers": None}}


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    """The defaults in ./params.yaml, and files that were made with them."""
    change_params(tmp_path)
    monkeypatch.chdir(tmp_path)
    put_images()
    put_sentences()


def put(name, model, params, **arrays):
    said = {"model": model} if params is None else {"model": model, "params": params}
    write_features(name, ["a"], {"features": np.ones((1, 2), np.float16), **arrays}, said)


def put_images(**changes):
    """Written as the extraction does with ./params.yaml."""
    params = load_params()
    made = provenance(params.image_features.model_dump(mode="json"))
    put("image.h5", params.image_features.model, json.dumps(made | changes))


def put_sentences():
    params = load_params()
    chosen = json.dumps(chosen_settings(params.sentences) | {"seed": params.seed})
    put("sentences.h5", params.sentences.encoding, chosen)


def put_regions():
    params = load_params()
    section, model = params.regions, params.detector.architecture
    settings = section.model_dump(mode="json")
    if section.source == "grid":
        settings["network"] = build_grid(section, None).settings
        model = section.network.model
    boxes = np.ones((1, 2), np.float32)
    put("regions.h5", model, json.dumps(region_provenance(settings)), boxes=boxes)


def check(features="image.h5", text="sentences.h5"):
    inputs = Inputs(Path("unread"), Path("unread"), Path(features), Path(text))
    check_origins(inputs, load_params().origins())


def refused(words, **inputs):
    with pytest.raises(WorkbenchError, match=words) as caught:
        check(**inputs)
    return caught.value


@pytest.mark.parametrize(
    ("section", "changes"),
    [
        ("image_features", {}),
        ("image_features", {"weights": "random", "normalisation": "caffe", "resize": "squash"}),
        ("sentences", {"encoding": "mean_vector"}),
        ("sentences", {"encoding": "tfidf"}),
        ("sentences", {"encoding": "tfidf", "tfidf": {"stop_words": "params.yaml"}}),
        ("regions", {}),
        ("regions", GRID),
    ],
)
def test_what_was_made_with_the_settings_is_taken(section, changes):
    change_params(Path(), **{section: changes})
    put_images()
    put_sentences()
    put_regions()
    check()
    check("regions.h5", ".")  # a folder of words is no file of features


@pytest.mark.parametrize(
    ("section", "changes", "words"),
    [
        ("image_features", {"size": 64}, r"size = 128 \(params.yaml: 64\)"),
        ("image_features", {"resize": "squash"}, r'resize = "short_side" \(params.yaml: "squash"'),
        ("sentences", {"fisher": {"pca": 8}}, r"fisher.pca = 256 \(params.yaml: 8\)"),
        ("regions", {"boxes": 9}, r"boxes = 8 \(params.yaml: 9\)"),
        ("regions", GRID, r'source = "detector" \(params.yaml: "grid"\)'),
    ],
)
def test_what_was_made_with_others_is_refused(section, changes, words):
    put_regions()
    change_params(Path(), **{section: changes})
    features = "regions.h5" if section == "regions" else "image.h5"
    error = refused(f"not made with the settings of .*{section}.{words}", features=features)
    assert "make it again with: dvc repro e" in error.hint
    assert "brought in by" in error.hint


def test_the_seed_counts_for_sentences_alone():
    change_params(Path(), seed=3)
    check(text=".")  # the weights are the detector's
    refused(r"sentences.seed = 0 \(params.yaml: 3\)")
    change_params(Path(), seed=0, image_features={"weights": "random"})
    put_images()
    change_params(Path(), seed=3)
    check(text=".")  # random weights are always the same


def test_a_file_that_says_nothing_or_another_model_is_refused():
    put("image.h5", "resnet18", None)
    assert "image_features.source: file" in refused("image.h5: does not say what it was").hint
    put("image.h5", "my clip", "{}")
    refused(r'model = "my clip" \(params.yaml: "resnet18"\)')
    put("image.h5", "resnet18", "[")
    refused("attribute 'params' is no mapping of settings")


def test_a_file_of_another_stage_is_refused():
    put("image.h5", "resnet18", json.dumps({"proposals": {"source": "detector"}}))
    refused("image.h5: not made by extract_image_features: its 'params' are {\"proposals\"")


def test_a_file_of_an_earlier_version_lacks_keys():
    put("image.h5", "resnet18", json.dumps({"weights": "detector"}))
    check()


def test_features_from_a_file_and_from_the_network_are_told_apart():
    Path("clip.npy").touch()
    own = {"source": "file", "file": {"path": "clip.npy", "features": "clip"}}
    change_params(Path(), image_features=own)
    refused(r'image_features.source = "network" \(params.yaml: "file"\)')
    named = {"source": "file", "file": {"ids": "ids", "features": "clip", "ids_sha256": "0"}}
    put("image.h5", "imported from npy", json.dumps(named))
    check()
    put("image.h5", "imported from npy", json.dumps(named | {"file": {"features": "dino"}}))
    refused(r'image_features.file.features = "dino" \(params.yaml: "clip"\)')
    network = {"source": "network", "file": {"path": None, "features": "features"}}
    change_params(Path(), image_features=network)
    refused(r'image_features.source = "file" \(params.yaml: "network"\)')
