"""What a model with attention looked at in some pairs of the test split, for the report."""

from pathlib import Path

from models.attention.pictures import check_attention, open_attention
from pipeline.evaluation.score_file import read_scores
from pipeline.features.checkpoint import read_checkpoint
from pipeline.features.data import Inputs
from pipeline.features.feature_file import FeatureFile
from pipeline.features.regions.boxes import has_boxes
from pipeline.report.attention_pairs import record_attention
from pipeline.runtime.process import say
from pipeline.runtime.repeatable import setup_runtime
from stages.common import command, model_and_inputs, paths
from stages.params import load_params


@command
@model_and_inputs
@paths("scores", exist=True)
@paths("checkpoint", "output")
def main(name: str, checkpoint: Path, scores: Path, output: Path, **paths: Path) -> None:
    """Write what the report shows of MODEL's attention; no pair for regions without boxes."""
    check_attention(name)
    params = load_params(models=[])
    device = setup_runtime(params.runtime)
    inputs = Inputs(**paths)
    trained = read_checkpoint(checkpoint, name)
    reader = None
    if has_boxes(FeatureFile(inputs.features)):
        reader = open_attention(name, trained, inputs, device, "test")
    described = {"model": name, "checkpoint_sha256": trained.sha256}
    split = read_scores(scores, "test", needed_by="choosing pairs")
    record_attention(output, reader, split, params.seed, described)
    say(f"{name}: attention in {output}")


if __name__ == "__main__":
    main()
