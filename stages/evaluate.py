"""Metrics, ranks, confidence intervals, and what pages show of one score file."""

from pathlib import Path

from pipeline.corpus.tables import load_relevance
from pipeline.evaluation.criterion import make_criteria
from pipeline.evaluation.file import write_ranks
from pipeline.evaluation.folds import evaluate
from pipeline.evaluation.look import look
from pipeline.evaluation.subset import first_images
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import write_json
from pipeline.runtime.process import say
from pipeline.runtime.repeatable import set_threads
from pipeline.scores.file import check_name, read_scores
from pipeline.scores.positives import relevance_of
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
    evaluated(scores, relevance, metrics, ranks, load_params())


def evaluated(
    scores: Path,
    relevance: Path | None,
    metrics: Path,
    ranks: Path,
    params: CommonParams,
    has_page: bool = True,
) -> None:
    """Evaluate a score file; without `has_page` leave out what only the page and the plots show."""
    set_threads(params.runtime.threads)
    settings, inference = params.evaluation, params.inference.model_dump()
    criteria = make_criteria(inference.pop("criteria"), **inference)
    check_name(scores)
    source, whole = GroupFile(scores).attributes, read_scores(scores, "test")
    split = first_images(whole, settings.subset)
    positives, pairs = params.corpus.positives, None
    if positives != "none":
        if relevance is None:
            raise WorkbenchError(
                f"corpus.positives = {positives}, without --relevance: the pairs are missing",
                "give --relevance data/corpus/relevance.parquet, or set corpus.positives: none",
            )
        table = load_relevance(relevance)
        pairs = relevance_of(positives, table, split.image_ids, split.caption_ids)
    protocol = settings.folds, settings.bootstrap, settings.confidence, params.seed
    with spread_over(split, params.runtime.processes) as found:
        evaluation = evaluate(found, *protocol, criteria, len(whole.image_ids), pairs)
        findings = look(found, evaluation, criteria, source) if has_page else None
    content = evaluation.summary()
    if "shortlist" in source:
        content["shortlist"] = source["shortlist"]
    if source.get("source") == "external":
        content["external"] = True
    write_ranks(ranks, split, evaluation, settings.confidence, content, findings)
    write_json(metrics, content)
    for line in evaluation.lines():
        say(f"{scores.stem}, {line}")


if __name__ == "__main__":
    main()
