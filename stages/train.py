"""Train one model; an interrupted training is continued."""

from pathlib import Path

from models.base import train_model
from models.registry import load_for_results
from pipeline.inputs.files import Inputs
from pipeline.inputs.origin import check_origins
from pipeline.runtime.files import write_text
from pipeline.runtime.process import say
from pipeline.runtime.repeatable import pick_device, say_quota, seed_everything, set_threads
from pipeline.storage.checkpoint import Description, write_checkpoint
from pipeline.training.curve import curve_tsv
from pipeline.training.launch import of_several
from pipeline.training.process_group import process_group
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
    if of_several("train", name, config, params.runtime.processes):
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
        used = run.used(name, config, model.unread())
        resume = ResumeFolder(
            work=WORK,
            name=name,
            params=used,
            inputs=inputs.digests(),
            device=device,
            threads=params.runtime.threads,
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
            write_text(curve, curve_tsv(result.history))
            write_checkpoint(output, model.weights(), description)
            resume.remove()
    say(f"{name}: kept epoch {result.epoch}, validation rsum {description.val_rsum:.1f}")


if __name__ == "__main__":
    main()
