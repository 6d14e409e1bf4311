"""Train one model; an interrupted training is continued."""

from pathlib import Path

from models.base.registry import model_function
from models.base.training import train_and_write
from pipeline.inputs.files import Inputs
from pipeline.inputs.origin import check_origins
from pipeline.runtime.process import say
from pipeline.runtime.repeatable import pick_device, say_quota, seed_everything, set_threads
from pipeline.training.launch import of_several
from pipeline.training.processes import joined
from stages.common import WORK, command, model_and_inputs, paths
from stages.params import load_params


@command
@model_and_inputs
@paths("output", "curve")
def main(name: str, output: Path, curve: Path, **paths: Path) -> None:
    """Train MODEL and write the weights of the epoch with the largest validation rsum."""
    params, inputs, prepare = load_params(), Inputs(**paths), model_function(name, "prepare")
    settings = params.model(name)
    if of_several("train", name, settings.config, params.runtime.processes):
        return
    device = pick_device(params.runtime.device)
    say_quota(params.runtime.threads)
    set_threads(params.runtime.threads)
    with joined(device):
        seed_everything(params.seed)
        job = prepare(settings, inputs, device)
        check_origins(inputs, params.origins())
        runtime = (device, params.runtime.threads, WORK)
        kept = train_and_write(name, job, inputs.digests(), *runtime, output, curve)
    say(f"{name}: kept epoch {kept.epoch}, validation rsum {kept.val_rsum:.1f}")


if __name__ == "__main__":
    main()
