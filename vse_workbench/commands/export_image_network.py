"""Write the image network that a model has tuned."""

from pathlib import Path

import click

from models.backbone.image_cnn import tuned_classifier
from pipeline.features.checkpoint import read_checkpoint
from pipeline.features.weights import write_weights
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.process import say
from stages.common import command, existing, target

GROUP = "take out"


@command
@click.argument("file", type=existing)
@click.option("--output", type=target, required=True, help="Weights to write, .safetensors.")
def main(file: Path, output: Path) -> None:
    """Write the image CNN in FILE, a checkpoint of dual_path or of a tuned two_branch.

    Example: vse export image-network data/checkpoints/dual_path.safetensors --output c.safetensors
    """
    if output.suffix != ".safetensors":
        raise WorkbenchError(f"--output {output}: must end in .safetensors")
    checkpoint = read_checkpoint(file)
    state, behind = tuned_classifier(checkpoint)
    of = checkpoint.description.architecture
    write_weights(output, state, {"schema_version": 1, "kind": "state dict"})
    say(f"written: {output}, {of['image_model']} tuned up to {of['image_layers']}")
    if behind:
        say(f"not tuned but random, since they lie behind that: {listing(behind)}")
