"""Trainings of SCAN and DP-RNN on tiny inputs, for the tests of several stages."""

from tiny_inputs import REGIONS, invoke, options, write_params

from pipeline.storage.checkpoint import read_checkpoint
from stages.evaluate import main as evaluate_stage
from stages.score import main as score_stage
from stages.train import main as train_stage

MODELS = ("scan", "dp_rnn")
SHORTLIST = 4  # of the 9 test images


def train_command(model, features=REGIONS):
    outputs = ["--output", f"out/{model}.safetensors", "--curve", f"out/{model}.tsv"]
    return [model, *options(features=features), *outputs]


def score_command(model, features=REGIONS):
    paths = ["--checkpoint", f"out/{model}.safetensors", "--output", f"out/{model}.h5"]
    shortlist = ["--shortlist", str(SHORTLIST)] if model == "dp_rnn" else []
    return [model, *options(features=features), *paths, *shortlist]


def set_params(folder, model, **changes):
    """changes: keys of the model's section, `__` for a dot; also loss, ranking__... and others."""
    outside = ("loss", "ranking", "regions", "evaluation", "inference")
    named = {
        key if key.split("__")[0] in outside else f"{model}__{key}": value
        for key, value in changes.items()
    }
    write_params(folder, **named)


def succeed(command, folder, *arguments):
    code, message = invoke(command, folder, *arguments)
    assert code == 0, message
    return message


def fail(command, folder, *arguments):
    """Standard error of a run that must end with a plain message."""
    code, message = invoke(command, folder, *arguments)
    assert code == 1, message
    assert message.startswith("error: ")
    return message


def train(folder, model, features=REGIONS, **changes):
    """Checkpoint and curve of a training that must succeed, as bytes."""
    set_params(folder, model, **changes)
    succeed(train_stage, folder, *train_command(model, features))
    return results(folder, model)


def results(folder, model):
    return [(folder / "out" / f"{model}.{kind}").read_bytes() for kind in ("safetensors", "tsv")]


def evaluate(folder, model, features=REGIONS):
    """The metrics file of a trained model, as bytes."""
    succeed(score_stage, folder, *score_command(model, features))
    outputs = ["--metrics", f"out/{model}.json", "--ranks", f"out/{model}_ranks.h5"]
    succeed(evaluate_stage, folder, "--scores", f"out/{model}.h5", *outputs)
    return (folder / f"out/{model}.json").read_bytes()


def checkpoint(folder, model):
    return read_checkpoint(folder / f"out/{model}.safetensors", model)


def kept_weights(folder, model, **changes):
    train(folder, model, **changes)
    return checkpoint(folder, model).weights
