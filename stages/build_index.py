"""Index the embeddings of one model, so that search need not compare all of them."""

from pathlib import Path

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.process import say
from pipeline.search.built import write_indexes
from stages.common import command, model_name, paths
from stages.params import load_params


@command
@model_name
@paths("scores", "output")
def main(name: str, scores: Path, output: Path) -> None:
    """Build the index that params.yaml names of MODEL's images and captions, split by split."""
    params = load_params()
    settings = params.search
    if settings.index == "flat":
        raise WorkbenchError(
            "search.index = 'flat': exact search needs no index", "set it to hnsw or ivf_pq"
        )
    index = write_indexes(output, scores, name, settings, params.seed)
    for part in index["parts"]:
        items = f"{part['number']:,} {part['split']} {part['kind']}s"
        recall = f"recall@1 {part['recall_at_1']:.3f}, @10 {part['recall_at_10']:.3f}"
        say(f"{name}: {settings.index} of {items}, of {part['queries']:,} queries {recall}")
    if index["exact"]:
        say(f"{name}: too few for {settings.index}, searched exactly: {', '.join(index['exact'])}")


if __name__ == "__main__":
    main()
