"""Score every image of the validation and test splits against every caption."""

from pathlib import Path
from types import ModuleType

import click

from pipeline.checkpoint import Checkpoint, read_checkpoint
from pipeline.errors import WorkbenchError
from pipeline.params import load_params
from pipeline.runtime import pick_device, say, seed_everything, set_threads
from pipeline.score_file import write_scores
from stages.common import command, model_and_inputs, target
from stages.systems import Inputs, load_system
from stages.systems.attention import record

SCORED = ("val", "test")


@command
@model_and_inputs
@click.option("--checkpoint", type=target, required=True, help="Weights of the model.")
@click.option("--output", type=target, required=True, help="Score file to write, .h5.")
@click.option("--attention", type=target, help="Attention of some pairs to write, .h5.")
@click.option("--shortlist", type=click.IntRange(min=1), help="For dp_rnn: images per caption.")
def main(
    name: str,
    checkpoint: Path,
    output: Path,
    attention: Path | None,
    shortlist: int | None,
    **paths: Path,
) -> None:
    """Score both splits with MODEL; its sizes come from the checkpoint, not from params.yaml."""
    params, system = load_params(), load_system(name, "prepare_scoring")
    device = pick_device(params.runtime.device)
    set_threads(params.runtime.threads)
    seed_everything(0)  # nothing is drawn, but kernels must be the repeatable ones
    trained = read_checkpoint(checkpoint, name)
    options = selection(name, system, trained, shortlist)
    score = system.prepare_scoring(trained, Inputs(**paths), device, **options)
    splits = {split: score(split) for split in SCORED}
    described: dict[str, str | int | float] = {
        "model": name,
        "checkpoint_sha256": trained.sha256,
        **options,
    }
    write_scores(output, splits, described)
    if attention:
        record(attention, trained, Inputs(**paths), splits["test"], params.seed, device)
    sizes = (
        f"{split} {len(s.image_ids):,} x {len(s.caption_ids):,}" for split, s in splits.items()
    )
    say(f"{name}: scored {', '.join(sizes)} (images x captions)")


def selection(
    name: str, system: ModuleType, trained: Checkpoint, shortlist: int | None
) -> dict[str, int]:
    """The shortlist as an argument, where the weights use one; it is said beside the scores."""
    wanted = hasattr(system, "uses_shortlist")
    if wanted != (shortlist is not None):
        verb = "needs" if wanted else "does not take"
        raise WorkbenchError(f"model {name!r} {verb} the option --shortlist", "see dvc.yaml")
    return {"shortlist": shortlist} if shortlist and system.uses_shortlist(trained) else {}


if __name__ == "__main__":
    main()
