"""Train one model that localises phrases; an interrupted training is continued."""

from pathlib import Path

from models.phrases import load_phrase_model
from models.phrases.data import PhraseData, PhraseFiles
from pipeline.phrases.absent import write_absent
from pipeline.runtime.files import write_text
from pipeline.runtime.process import say
from pipeline.runtime.repeatable import pick_device, seed_everything, set_threads
from pipeline.training.curve import curve_tsv
from pipeline.training.launch import relaunched_with_torchrun
from pipeline.training.process_group import process_group
from stages.common import command, model_name, paths
from stages.params import load_params, run_of
from stages.train import train_and_write


@command
@model_name
@paths("phrases", "proposals", "truth", "vectors", exist=True)
@paths("output", "curve")
def main(name: str, output: Path, curve: Path, **paths: Path) -> None:
    """Train MODEL and write the weights that find most phrases of the validation split."""
    kind = load_phrase_model(name)
    params = load_params(models=[name])
    config = getattr(params, name)
    files = PhraseFiles(**paths)
    if files.is_absent:
        write_text(curve, curve_tsv([{"epoch": 0}]))
        write_absent(output)
        return
    if relaunched_with_torchrun("train_phrases", name, config, params.runtime.processes):
        return
    device = pick_device(params.runtime.device)
    set_threads(params.runtime.threads)
    run = run_of(params)
    with process_group(device) as processes:
        seed_everything(params.seed)
        data = PhraseData(files, params.seed)
        model = kind(config, **data.sizes)
        model.start(data, run)
        model.to(device)
        description = train_and_write(
            name,
            model,
            data,
            run=run,
            inputs=files.digests(),
            device=device,
            threads=params.runtime.threads,
            processes=processes,
            output=output,
            curve=curve,
        )
    total = description.val_rsum
    say(f"{name}: kept epoch {description.epoch}, validation R@1 + R@5 + R@10 {total:.1f}")


if __name__ == "__main__":
    main()
