"""From a training that can begin to its files; of several processes the first alone writes."""

from collections.abc import Mapping
from pathlib import Path

import torch

from models.base.model import TrainingJob
from pipeline.runtime.code import code_digest
from pipeline.runtime.files import fingerprint, write_text
from pipeline.runtime.kernels import loaded_kernels
from pipeline.storage.checkpoint import Description, write_checkpoint
from pipeline.training.curve import curve_tsv
from pipeline.training.processes import agree, number
from pipeline.training.resume import ResumeFile


def train_and_write(
    name: str,
    job: TrainingJob,
    digests: Mapping[str, str],
    device: torch.device,
    threads: int,
    work: Path,
    output: Path,
    curve: Path,
) -> Description:
    """Run a training, or the rest of an interrupted one, and write its weights and curve. digests:
    of the inputs; work: folder of unfinished work; threads: of the CPU, which decide the last
    bits."""
    decides = {
        "model": name,
        "params": job.params,
        "inputs": digests,
        "source": code_digest(),
        "torch": torch.__version__,
        "device": device.type,
        "threads": threads,
        "kernels": loaded_kernels(),
    }
    agree({what: fingerprint(value=value) for what, value in decides.items()})
    key = fingerprint(**decides)
    resume = ResumeFile(work / f"train-{name}-{key[:16]}", key)
    fitted = job.run(resume)
    description = Description(
        model=name,
        architecture=job.architecture,
        params=job.params,
        inputs=job.inputs,
        epoch=fitted.epoch,
        val_rsum=fitted.kept["val_rsum"],
    )
    if number():
        return description
    write_text(curve, curve_tsv(fitted.history))
    named = {n: v for n, v in fitted.weights.items() if n.startswith(job.kept)}
    write_checkpoint(output, {n.removeprefix(job.kept): v for n, v in named.items()}, description)
    resume.remove()
    return description
