"""Train one model; an interrupted training is continued."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from models.base import Model, Run, train_model
from models.registry import load_for_results
from pipeline.features.checkpoint import Description, write_checkpoint
from pipeline.features.data import Inputs
from pipeline.features.origin import check_origins
from pipeline.runtime.edits import EDITS
from pipeline.runtime.files import write_text
from pipeline.runtime.process import say
from pipeline.runtime.repeatable import pick_device, say_quota, seed_everything, set_threads
from pipeline.training.curve import curve_tsv
from pipeline.training.launch import relaunched_with_torchrun
from pipeline.training.process_group import ProcessGroup, process_group
from pipeline.training.resume import ResumeFolder
from stages.common import WORK, command, model_and_inputs, paths
from stages.params import load_params, run_of


@command
@model_and_inputs
@paths("output", "curve")
def main(name: str, output: Path, curve: Path, **paths: Path) -> None:
    """Train MODEL and write the weights of the epoch with the largest validation rsum."""
    kind = load_for_results(name)
    params = load_params(models=[name])
    config = getattr(params, name)
    if relaunched_with_torchrun("train", name, config, params.runtime.processes):
        return
    device = pick_device(params.runtime.device)
    say_quota(params.runtime.threads)
    set_threads(params.runtime.threads)
    inputs = Inputs(**paths)
    run = run_of(params)
    with process_group(device) as processes:
        seed_everything(params.seed)
        data = kind.open_data(config, inputs)
        model = kind(config, **data.sizes)
        model.start(data, run)
        model.to(device)
        check_origins(inputs, params.origins())
        description = train_and_write(
            name,
            model,
            data,
            run=run,
            inputs=inputs.digests(),
            device=device,
            threads=params.runtime.threads,
            processes=processes,
            output=output,
            curve=curve,
        )
    say(f"{name}: kept epoch {description.epoch}, validation rsum {description.val_rsum:.1f}")


def train_and_write(
    name: str,
    model: Model,
    data: Any,
    run: Run,
    inputs: Mapping[str, str],
    device: torch.device,
    threads: int,
    processes: ProcessGroup,
    output: Path,
    curve: Path,
) -> Description:
    """Train a model, or go on where that was interrupted, and write its weights and its curve.

    Args:
        name: Of the model.
        model: Started, on its device.
        data: What it is trained on.
        run: What all models of the run share.
        inputs: Digests of what it reads.
        device: Where it is.
        threads: Of the CPU.
        processes: Who shares the training; the first alone writes.
        output: The checkpoint.
        curve: A row for each epoch.

    Returns:
        What the checkpoint says of the weights.
    """
    used = model.used(name, run)
    resume = ResumeFolder(
        work=WORK, name=name, params=used, inputs=inputs, device=device, threads=threads
    )
    processes.check_equal(resume.digests)
    result = train_model(model, data, run, resume.open, processes, name)
    description = Description(
        model=name,
        architecture=model.architecture(data.sizes),
        params=used,
        inputs=data.identity,
        epoch=result.epoch,
        val_rsum=result.kept["val_rsum"],
    )
    if processes.rank_id == 0:
        EDITS.check()  # while the training can still be gone on with
        write_text(curve, curve_tsv(result.history))
        write_checkpoint(output, model.weights(), description)
        resume.remove()
    return description


if __name__ == "__main__":
    main()
