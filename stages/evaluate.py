"""Metrics, ranks, confidence intervals, and what pages show of one score file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.corpus.tables import RELEVANCE, read_table
from pipeline.evaluation.criterion import Criterion
from pipeline.evaluation.figures import plain_rows, rounded
from pipeline.evaluation.file import write_ranks
from pipeline.evaluation.folds import evaluate
from pipeline.evaluation.hubness import Hubness
from pipeline.evaluation.look import look
from pipeline.evaluation.subset import first_images, shortlist_recall
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import write_json
from pipeline.runtime.process import say
from pipeline.runtime.repeatable import set_threads
from pipeline.scores.file import SplitScores, check_name, read_scores
from pipeline.scores.positives import relevance_of
from pipeline.scores.rerank import Reranked
from pipeline.scores.workers import spread_over
from pipeline.storage.groups import GroupFile
from stages.common import command, paths
from stages.params import CommonParams, load_params


@command
@paths("scores", exist=True)
@paths("relevance", exist=True, required=False)
@paths("metrics", "ranks")
def main(scores: Path, relevance: Path | None, metrics: Path, ranks: Path) -> None:
    """Rank the test split both ways and write metrics, ranks and intervals."""
    check_name(scores)
    scored = read_scores(scores, "test"), GroupFile(scores).attributes
    evaluated(*scored, relevance, metrics, ranks, load_params())


def evaluated(
    whole: SplitScores,
    source: Mapping[str, Any],
    relevance: Path | None,
    metrics: Path,
    ranks: Path,
    params: CommonParams,
    has_page: bool = True,
) -> None:
    """Evaluate the scores of a test split; source: attributes of their file. Without `has_page`
    leave out what only the page and the plots show."""
    set_threads(params.runtime.threads)
    settings, inference = params.evaluation, params.inference.model_dump()
    names = inference.pop("criteria")
    is_reranked = isinstance(whole.scores, Reranked)
    if is_reranked:  # others look at pairs that the second never scores
        names = ["naive"]
    criteria = [Criterion(name, **inference) for name in dict.fromkeys(["naive", *names])]
    split = first_images(whole, settings.subset)
    positives, pairs = params.corpus.positives, None
    if positives != "none":
        if relevance is None:
            raise WorkbenchError(
                f"corpus.positives = {positives}, without --relevance: the pairs are missing",
                "give --relevance data/corpus/relevance.parquet, or set corpus.positives: none",
            )
        table = read_table(relevance, RELEVANCE)
        pairs = relevance_of(positives, table, split.image_ids, split.caption_ids)
    protocol = settings.folds, settings.bootstrap, settings.confidence, params.seed
    with spread_over(split, params.runtime.processes) as spread:
        rows = plain_rows(settings.recall_k)
        evaluation = evaluate(spread, *protocol, criteria, len(whole.image_ids), pairs, rows)
        findings = look(spread, evaluation, criteria, source) if has_page else None
    content = evaluation.summary()
    naive = dict[str, Any]()  # beside the recalls
    if "shortlist" in source:
        content["shortlist"] = count = source["shortlist"]
        is_own = not is_reranked and "members" not in source  # of these scores, not of a part's
        if is_own and count < len(whole.image_ids):
            naive["in_shortlist"] = shortlist_recall(whole, split, count)
    if "correlation" in source:
        naive["correlation"] = source["correlation"]
        content["features"] = {"correlation": rounded(source["feature_correlation"])}
    if findings is not None:
        if findings.separation is not None:
            naive["separation"] = 100 * findings.separation.overlap
        for name, counts in findings.hubs.items():
            content[name]["hubs"] = rounded({way: Hubness(c).figures for way, c in counts.items()})
    content["naive"] |= rounded(naive)
    if source.get("source") == "external":
        content["external"] = True
    if isinstance(split.scores, Reranked):
        content["rerank"] = split.scores.cost(settings.folds) | {
            name: source[name] for name in ("first", "second", "top")
        }
    write_ranks(ranks, split, evaluation, settings.confidence, content, findings)
    write_json(metrics, content)
    for line in evaluation.lines():
        say(f"{metrics.stem}, {line}")


if __name__ == "__main__":
    main()
