"""The stages around a tiny dual path on coloured images, for the tests that train it."""

from contextlib import chdir
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow.compute as pc
import pyarrow.parquet as pq
import torch
from tiny_inputs import (
    CLASSES,
    DUAL_PATH,
    NETWORK,
    PATHS,
    invoke,
    options,
    write_params,
)

from models.dual_path import model
from pipeline.evaluation.measure import measure
from pipeline.evaluation.metrics import summarise
from pipeline.inputs.files import Inputs
from pipeline.storage.checkpoint import read_checkpoint
from stages.cluster_pseudo_classes import main as cluster
from stages.extract_image_features import main as extract
from stages.params import load_params
from stages.train import main
from stages.train_detector import main as make_detector

INPUTS = options(network=NETWORK, classes=CLASSES)
OUTPUTS = ["--output", "out/dual_path.safetensors", "--curve", "out/dual_path.tsv"]
COMMAND = ["dual_path", *INPUTS, *OUTPUTS]
SCORE = ["dual_path", *INPUTS, "--checkpoint", "out/dual_path.safetensors"]
SCORE += ["--output", "out/dual_path.h5"]
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


def prepare(folder):
    """Run the stages between the corpus and the training."""
    run(make_detector, folder, *DETECTOR)
    run(extract, folder, *FEATURES)
    run(cluster, folder, *PSEUDO)


def losses(folder, **changes):
    """Of an epoch of each stage."""
    train(folder, **changes, phases=[stage_1(1), stage_2(1)])
    return curve(folder)["loss"].tolist()


def set_params(folder, **changes):
    """changes: keys of the section `dual_path`, `__` for a dot; other sections by their names."""
    outside = ("image_features", "pseudo_classes", "seed", "loss")
    named = {
        key if key.startswith(outside) else f"dual_path__{key}": value
        for key, value in ({"phases": [stage_1(), stage_2()]} | changes).items()
    }
    write_params(folder, **(DUAL_PATH | named))


def run(command, folder, *arguments):
    code, message = invoke(command, folder, *arguments)
    assert code == 0, message
    return message


def fail(command, folder, *arguments):
    """Standard error of a run that must end with a plain message."""
    code, message = invoke(command, folder, *arguments)
    assert code == 1, message
    assert message.startswith("error: ") or "\nerror: " in message
    return message


def train(folder, **changes):
    """Checkpoint and curve of a training that must succeed, as bytes."""
    set_params(folder, **changes)
    run(main, folder, *COMMAND)
    return results(folder)


def results(folder):
    names = ("dual_path.safetensors", "dual_path.tsv")
    return [(folder / "out" / name).read_bytes() for name in names]


def curve(folder):
    return pd.read_csv(folder / "out/dual_path.tsv", sep="\t")


def checkpoint(folder):
    return read_checkpoint(folder / "out/dual_path.safetensors", "dual_path")


def prepared(folder):
    """What the training of the parameters as they are is given."""
    with chdir(folder):
        inputs = Inputs(**options_as_paths(folder))
        job = model.prepare(load_params().model("dual_path"), inputs, torch.device("cpu"))
    both, optimiser, phases, batches, _, _ = job.run.args
    return SimpleNamespace(model=both, optimiser=optimiser, phases=phases, batches=batches)


def options_as_paths(folder):
    paths = PATHS | {"network": NETWORK, "classes": CLASSES}
    return {key: folder / path for key, path in paths.items()}


def remove(folder, table, image):
    """Take the rows of an image out of a table of the corpus."""
    rows = pq.read_table(folder / PATHS[table])
    pq.write_table(rows.filter(pc.field("image_id") != image), folder / PATHS[table])


def rsum_of(scores):
    measured = measure(
        scores.scores,
        np.array(scores.image_groups),
        np.array(
            [scores.image_groups[scores.image_ids.index(i)] for i in scores.caption_image_ids]
        ),
    )
    return summarise(measured)["rsum"]


def scores_with(scores, matrix):
    return type(scores)(**(vars(scores) | {"scores": matrix}))
