"""Evaluate two models one after the other: the first chooses, the second orders its choice."""

from pathlib import Path

import click

from pipeline.evaluation.combination import read_reranked
from pipeline.evaluation.score_file import SHORTLIST, check_name
from pipeline.features.groups import GroupFile
from pipeline.runtime.files import sha256_file
from stages.common import command, paths
from stages.evaluate import evaluate_split
from stages.params import load_params


@command
@click.argument("name", metavar="RERANKED")
@paths("first", "second", exist=True)
@paths("relevance", exist=True, required=False)
@paths("metrics", "ranks")
def main(
    name: str, first: Path, second: Path, relevance: Path | None, metrics: Path, ranks: Path
) -> None:
    """Rank the test split both ways as `rerank` in params.yaml says, by the scores alone."""
    params = load_params()
    top = params.rerank[name].top
    source: dict[str, str | int | float] = {"top": top}
    for key, path in (("first", first), ("second", second)):
        check_name(path)
        source |= {key: path.stem, f"{key}_sha256": sha256_file(path)}
        source |= {k: v for k, v in GroupFile(path).attributes.items() if k == SHORTLIST}
    evaluate_split(
        whole=read_reranked(first, second, top),
        source=source,
        relevance=relevance,
        metrics=metrics,
        ranks=ranks,
        params=params,
    )


if __name__ == "__main__":
    main()
