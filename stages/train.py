"""Train one model; an interrupted training is continued."""

from pathlib import Path

import click
import torch

from models.base.registry import model_function
from pipeline.inputs.files import Inputs
from pipeline.inputs.origin import check_origins
from pipeline.runtime.files import fingerprint, source_digest, write_text
from pipeline.runtime.kernels import kernels
from pipeline.runtime.process import pick_device, say, seed_everything, set_threads
from pipeline.storage.checkpoint import Description, write_checkpoint
from pipeline.training.curve import curve_tsv
from pipeline.training.resume import ResumeFile
from stages.common import WORK, command, model_and_inputs, target
from stages.params import load_params


@command
@model_and_inputs
@click.option("--output", type=target, required=True, help="Checkpoint to write, .safetensors.")
@click.option("--curve", type=target, required=True, help="Table with a row per epoch to write.")
def main(name: str, output: Path, curve: Path, **paths: Path) -> None:
    """Train MODEL and write the weights of the epoch with the largest validation rsum."""
    params, inputs, prepare = load_params(), Inputs(**paths), model_function(name, "prepare")
    device = pick_device(params.runtime.device)
    set_threads(params.runtime.threads)
    seed_everything(params.seed)
    job = prepare(params.model(name), inputs, device)
    check_origins(inputs, params.origins())
    key = fingerprint(
        model=name,
        params=job.params,
        inputs=inputs.digests(),
        source=source_digest(),
        torch=torch.__version__,
        device=device.type,
        threads=params.runtime.threads,
        kernels=kernels(),
    )
    resume = ResumeFile(WORK / f"train-{name}-{key[:16]}", key)
    fitted = job.run(resume)
    description = Description(
        model=name,
        architecture=job.architecture,
        params=job.params,
        inputs=job.inputs,
        epoch=fitted.epoch,
        val_rsum=fitted.kept["val_rsum"],
    )
    write_text(curve, curve_tsv(fitted.history))
    named = {n: v for n, v in fitted.weights.items() if n.startswith(job.kept)}
    write_checkpoint(output, {n.removeprefix(job.kept): v for n, v in named.items()}, description)
    resume.remove()
    say(f"{name}: kept epoch {fitted.epoch}, validation rsum {description.val_rsum:.1f}")


if __name__ == "__main__":
    main()
