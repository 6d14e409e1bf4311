"""Tables of training, recall at K, separation and hubs of all models, for `dvc plots`."""

from pathlib import Path

from pipeline.evaluation.comparison import files_of_models
from pipeline.evaluation.rank_file import check_model, read_findings, read_query_ranks, read_ranks
from pipeline.report.colours import numbers_of
from pipeline.report.curve_files import read_curve
from pipeline.report.plot_tables import (
    as_tsv,
    hub_rows,
    recall_rows,
    separation_rows,
    training_rows,
    with_colours,
)
from pipeline.runtime.files import write_text
from pipeline.runtime.graph import EVALUATING, stage_items
from pipeline.runtime.process import say
from stages.common import command, paths


@command
@paths("ranks", "curves", exist=True)
@paths("training", "recall", "separation", "hubs")
def main(
    ranks: Path, curves: Path, training: Path, recall: Path, separation: Path, hubs: Path
) -> None:
    """Write what `dvc plots show` draws of the models that dvc.yaml evaluates."""
    names = sorted(name for stage in EVALUATING for name in stage_items(stage))
    ranked = files_of_models([ranks], names, ".h5")
    epochs = []
    for path in files_of_models([curves], names, ".tsv"):
        curve = read_curve(path)
        if curve and len(curve.epochs) > 1:
            epochs += training_rows(path.stem, curve)
    recalls = []
    densities = []
    shares = []
    for path in ranked:
        check_model(path, read_ranks(path))
        findings = read_findings(path)
        recalls += recall_rows(path.stem, read_query_ranks(path, "naive"))
        if findings.separation:
            densities += separation_rows(path.stem, findings.separation)
        shares += hub_rows(path.stem, findings.hubs["naive"])
    numbers = numbers_of(names)
    for file, rows in ((training, epochs), (recall, recalls), (hubs, shares)):
        write_text(file, as_tsv(with_colours(rows, numbers)))
    write_text(separation, as_tsv(densities))
    say(f"tabulated {', '.join(path.stem for path in ranked)}: draw them with dvc plots show")


if __name__ == "__main__":
    main()
