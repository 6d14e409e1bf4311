"""The stages around a tiny dual path on coloured images, for the tests that train it."""

from contextlib import chdir
from types import SimpleNamespace

import torch
from commands import succeed
from model_runs import ModelRuns
from tiny_inputs import CLASSES, DUAL_PATH, NETWORK, PATHS, write_coloured_images

from models.dual_path.model import DualPath, DualPathConfig
from pipeline.features.data import Inputs
from pipeline.runtime.repeatable import seed_everything
from stages.cluster_pseudo_classes import main as cluster
from stages.extract_image_features import main as extract
from stages.params import load_params, run_of
from stages.train_detector import main as make_detector

DETECTOR = ["--images", PATHS["images"], "--boxes", "corpus/boxes.parquet"]
DETECTOR += ["--output", "detector.safetensors", "--curve", "detector.tsv"]
FEATURES = ["--images", PATHS["images"], "--detector", "detector.safetensors"]
FEATURES += ["--output", PATHS["features"], "--network", NETWORK]
PSEUDO = ["--images", PATHS["images"], "--features", PATHS["features"], "--output", CLASSES]

PLAIN = {"alignment": "shift", "flip": False, "word_vectors": "random", "text_pool": "max"}
HEADS = ["text", "words", "image_head"]


def stage_1(epochs=2, images="features", **changes):
    weights = {"ranking": 0.0, "image_instance": 1.0, "text_instance": 1.0}
    phase = {"name": "stage_1", "epochs": epochs, "images": images, "train": HEADS}
    return phase | {"weights": weights, "lr": 0.01, "stop_below": 0.0} | changes


def stage_2(epochs=2, **changes):
    weights = {"ranking": 1.0, "image_instance": 1.0, "text_instance": 1.0}
    phase = {"name": "stage_2", "epochs": epochs, "images": "pixels"}
    phase |= {"train": [*HEADS, "image_cnn"], "weights": weights, "lr": 0.003, "stop_below": 0.0}
    return phase | changes


RUN = ModelRuns(
    "dual_path",
    {"network": NETWORK, "classes": CLASSES},
    DUAL_PATH | {"phases": [stage_1(), stage_2()]},
)


def prepare(folder):
    succeed(make_detector, folder, *DETECTOR)
    succeed(extract, folder, *FEATURES)
    succeed(cluster, folder, *PSEUDO)


def write_world(folder):
    write_coloured_images(folder)
    RUN.set_params(folder)
    prepare(folder)


def started(folder):
    """The model, its data and its phases with the parameters as they are, before any step."""
    with chdir(folder):
        params = load_params(models=["dual_path"])
        seed_everything(params.seed)
        data = DualPath.open_data(params.dual_path, Inputs(**RUN.paths(folder)))
        model = DualPath(params.dual_path, **data.sizes)
        model.start(data, run_of(params))
        return SimpleNamespace(model=model, data=data, phases=model.phases(data, run_of(params)))


SIZES = {"word_dim": 6, "text_cnn": "resnet18", "text_width": 2, "hidden": 10, "dim": 8}
IMAGE_CNN = {"image_model": "resnet18", "image_layers": "layer1,layer2", "image_pool": "mean_max"}
IMAGE_CNN |= {"image_resize": 32, "image_crop": 32, "image_dim": 384}


def network(seed=0, **settings):
    """A tiny network of drawn weights, whose image CNN is resnet18 up to its second stage."""
    torch.manual_seed(seed)
    config = DualPathConfig(**SIZES | settings)
    return DualPath(config, vocabulary_size=11, **IMAGE_CNN)


def losses(folder, **changes):
    """Of an epoch of each stage."""
    RUN.train(folder, **changes, phases=[stage_1(1), stage_2(1)])
    return RUN.curve(folder)["loss"].tolist()
