"""The stages around a tiny dual path on coloured images, for the tests that train it."""

from commands import succeed
from model_runs import ModelRuns
from tiny_inputs import CLASSES, DUAL_PATH, NETWORK, PATHS, write_coloured_images

from stages.cluster_pseudo_classes import main as cluster
from stages.extract_image_features import main as extract
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


def losses(folder, **changes):
    """Of an epoch of each stage."""
    RUN.train(folder, **changes, phases=[stage_1(1), stage_2(1)])
    return RUN.curve(folder)["loss"].tolist()
