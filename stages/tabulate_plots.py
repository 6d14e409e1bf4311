"""Tables of recall at K, separation and hubs of all models, for `dvc plots`."""

from pathlib import Path

import click

from pipeline.comparison.files import of_models
from pipeline.evaluation.file import check_model, check_scores, read_query_ranks, read_ranks
from pipeline.evaluation.subset import first_images
from pipeline.plots.tables import as_tsv, hub_rows, recall_rows, separation_rows
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import write_text
from pipeline.runtime.graph import EVALUATING, stage_items
from pipeline.runtime.process import say
from pipeline.scores.file import read_scores
from stages.common import command, existing, target
from stages.params import load_params


@command
@click.option("--ranks", type=existing, required=True, help="Folder of rank files (HDF5).")
@click.option("--scores", type=existing, required=True, help="Folder of score files (HDF5).")
@click.option("--recall", type=target, required=True, help="Recall at K to write (TSV).")
@click.option("--separation", type=target, required=True, help="Densities to write (TSV).")
@click.option("--hubs", type=target, required=True, help="Shares of hubs to write (TSV).")
def main(ranks: Path, scores: Path, recall: Path, separation: Path, hubs: Path) -> None:
    """Write what `dvc plots show` draws of the models that dvc.yaml evaluates."""
    params = load_params()
    names = sorted(name for stage in EVALUATING for name in stage_items(stage))
    ranked = of_models([ranks], names, ".h5")
    if not ranked:
        raise WorkbenchError(f"{ranks}: no rank file of a model", "dvc repro evaluate")
    recalls, densities, shares = [], [], []
    for path in ranked:
        scored, record = scores / path.name, read_ranks(path)
        check_model(path, record)
        check_scores(path.stem, record, scored)
        recalls += recall_rows(path.stem, read_query_ranks(path, "naive"))
        split = first_images(read_scores(scored, "test"), params.evaluation.subset)
        densities += separation_rows(path.stem, split)
        shares += hub_rows(path.stem, split)
    for file, rows in {recall: recalls, separation: densities, hubs: shares}.items():
        write_text(file, as_tsv(rows))
    say(f"tabulated {', '.join(path.stem for path in ranked)}: draw them with dvc plots show")


if __name__ == "__main__":
    main()
