"""Train one model that localises phrases; an interrupted training is continued."""

from pathlib import Path

from models.base.model import Settings
from models.base.training import train_and_write
from models.phrases.data import PhraseInputs
from models.phrases.models import PHRASE_MODELS
from pipeline.phrases.absent import write_absent
from pipeline.runtime.files import write_text
from pipeline.runtime.process import say
from pipeline.runtime.repeatable import pick_device, seed_everything, set_threads
from pipeline.training.curve import curve_tsv
from pipeline.training.launch import of_several
from pipeline.training.processes import joined
from stages.common import WORK, command, model_name, paths
from stages.params import load_params


@command
@model_name
@paths("phrases", "proposals", "truth", "vectors", exist=True)
@paths("output", "curve")
def main(name: str, output: Path, curve: Path, **paths: Path) -> None:
    """Train MODEL and write the weights that find most phrases of the validation split."""
    params, inputs, prepare = load_params(), PhraseInputs(**paths), PHRASE_MODELS.load(name)
    if inputs.absent:
        write_text(curve, curve_tsv([{"epoch": 0}]))
        return write_absent(output)
    settings: Settings = params.model(name)
    if of_several("train_phrases", name, settings.config, params.runtime.processes):
        return None
    device = pick_device(params.runtime.device)
    set_threads(params.runtime.threads)
    with joined(device):
        seed_everything(params.seed)
        job = prepare(settings, inputs, device)
        runtime = (device, params.runtime.threads, WORK)
        kept = train_and_write(name, job, inputs.digests(), *runtime, output, curve)
    say(f"{name}: kept epoch {kept.epoch}, validation R@1 + R@5 + R@10 {kept.val_rsum:.1f}")


if __name__ == "__main__":
    main()
