"""Score every image of the validation and test splits against every caption."""

from pathlib import Path

import click

from pipeline.checkpoint import read_checkpoint
from pipeline.params import load_params
from pipeline.runtime import pick_device, say, seed_everything, set_threads
from pipeline.score_file import write_scores
from stages.common import command, model_and_inputs, target
from stages.systems import Inputs, load_system

SCORED = ("val", "test")


@command
@model_and_inputs
@click.option("--checkpoint", type=target, required=True, help="Weights of the model.")
@click.option("--output", type=target, required=True, help="Score file to write, .h5.")
def main(name: str, checkpoint: Path, output: Path, **paths: Path) -> None:
    """Score both splits with MODEL; its sizes come from the checkpoint, not from params.yaml."""
    params, system = load_params(), load_system(name, "prepare_scoring")
    device = pick_device(params.runtime.device)
    set_threads(params.runtime.threads)
    seed_everything(0)  # nothing is drawn, but kernels must be the repeatable ones
    trained = read_checkpoint(checkpoint, name)
    score = system.prepare_scoring(trained, Inputs(**paths), device)
    splits = {split: score(split) for split in SCORED}
    write_scores(output, splits, {"model": name, "checkpoint_sha256": trained.sha256})
    sizes = (
        f"{split} {len(s.image_ids):,} x {len(s.caption_ids):,}" for split, s in splits.items()
    )
    say(f"{name}: scored {', '.join(sizes)} (images x captions)")


if __name__ == "__main__":
    main()
