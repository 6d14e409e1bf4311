"""Tables of recall at K, separation and hubs of all models, for `dvc plots`."""

from pathlib import Path

from pipeline.comparison.files import of_models
from pipeline.evaluation.file import check_model, read_query_ranks, read_ranks
from pipeline.evaluation.findings import read_findings
from pipeline.plots.tables import as_tsv, hub_rows, recall_rows, separation_rows
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import write_text
from pipeline.runtime.graph import EVALUATING, stage_items
from pipeline.runtime.process import say
from stages.common import command, paths


@command
@paths("ranks", exist=True)
@paths("recall", "separation", "hubs")
def main(ranks: Path, recall: Path, separation: Path, hubs: Path) -> None:
    """Write what `dvc plots show` draws of the models that dvc.yaml evaluates."""
    names = sorted(name for stage in EVALUATING for name in stage_items(stage))
    ranked = of_models([ranks], names, ".h5")
    if not ranked:
        raise WorkbenchError(f"{ranks}: no rank file of a model", "dvc repro evaluate")
    recalls, densities, shares = [], [], []
    for path in ranked:
        check_model(path, read_ranks(path))
        found = read_findings(path)
        recalls += recall_rows(path.stem, read_query_ranks(path, "naive"))
        densities += separation_rows(path.stem, found.separation)
        shares += hub_rows(path.stem, found.hubs["naive"])
    for file, rows in {recall: recalls, separation: densities, hubs: shares}.items():
        write_text(file, as_tsv(rows))
    say(f"tabulated {', '.join(path.stem for path in ranked)}: draw them with dvc plots show")


if __name__ == "__main__":
    main()
