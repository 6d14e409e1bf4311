"""Metrics, ranks, confidence intervals, and what pages show of one score file."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipeline.corpus.tables import RELEVANCE, read_table
from pipeline.evaluation.criterion import Criterion
from pipeline.evaluation.figures import plain_rows, rounded
from pipeline.evaluation.findings import Findings, Hubness, collect_findings
from pipeline.evaluation.known_splits import certify
from pipeline.evaluation.protocol import Evaluation, evaluate, first_images, shortlist_recall
from pipeline.evaluation.rank_file import write_ranks
from pipeline.evaluation.score_file import SHORTLIST, SplitScores, check_name, read_scores
from pipeline.evaluation.scores import Products, Reranked
from pipeline.evaluation.truth import Relevance, relevance_of
from pipeline.features.groups import GroupFile
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import write_json
from pipeline.runtime.process import say
from stages.common import command, paths
from stages.params import CommonParams, load_params

SPLIT = "split"  # key of a metrics file: which known test split this is


@command
@paths("scores", exist=True)
@paths("relevance", exist=True, required=False)
@paths("metrics", "ranks")
def main(scores: Path, relevance: Path | None, metrics: Path, ranks: Path) -> None:
    """Rank the test split both ways and write metrics, ranks and intervals."""
    check_name(scores)
    evaluate_split(
        whole=read_scores(scores, "test"),
        source=GroupFile(scores).attributes,
        relevance=relevance,
        metrics=metrics,
        ranks=ranks,
        params=load_params(),
    )


def evaluate_split(
    whole: SplitScores,
    source: Mapping[str, Any],
    relevance: Path | None,
    metrics: Path,
    ranks: Path,
    params: CommonParams,
    has_page: bool = True,
) -> None:
    """Evaluate the scores of a test split and write what was found.

    Args:
        whole: scores of all images and captions of the split.
        source: attributes of their file.
        relevance: the corpus's table of extended positives, where params name a list of them.
        metrics: the JSON file of figures that is written.
        ranks: the rank file that is written.
        params: how to evaluate.
        has_page: False leaves out what only the page and the plots show.

    Raises:
        WorkbenchError: scores that cannot be evaluated in this way.
    """
    settings = params.evaluation
    split = first_images(whole, settings.subset)
    if isinstance(split.scores, Products):
        runtime = params.runtime
        split = replace(split, scores=split.scores.spread_over(runtime.processes, runtime.threads))
    criteria = criteria_of(params, split)
    evaluation = evaluate(
        split,
        folds=settings.folds,
        resamples=settings.bootstrap,
        confidence=settings.confidence,
        seed=params.seed,
        criteria=criteria,
        test_images=len(whole.image_ids),
        relevance=extended_positives(params.corpus.positives, relevance, split),
        metrics=plain_rows(settings.recall_k),
    )
    findings = None
    if has_page:
        findings = collect_findings(split, evaluation, criteria=criteria, source=source)
    content = metrics_content(whole, split, evaluation=evaluation, source=source, findings=findings)
    if isinstance(split.scores, Reranked):
        about = {name: source[name] for name in ("first", "second", "top")}
        content["rerank"] = split.scores.cost(settings.folds) | about
    write_ranks(
        ranks,
        split,
        evaluation,
        confidence=settings.confidence,
        metrics=content,
        findings=findings,
    )
    write_json(metrics, content)
    for line in evaluation.lines():
        say(f"{metrics.stem}, {line}")
    say(f"{metrics.stem}, test split: {content[SPLIT]}")


def criteria_of(params: CommonParams, split: SplitScores) -> list[Criterion]:
    """The criteria that scores are ranked by, naive first.

    Args:
        params: which, and their parameters.
        split: of reranked scores naive alone: others look at pairs that the second never scores.

    Returns:
        One criterion at least, each name once, in the order of params.yaml after naive.
    """
    settings = params.inference.model_dump()
    names = settings.pop("criteria")
    if isinstance(split.scores, Reranked):
        names = []
    return [Criterion(name, **settings) for name in dict.fromkeys(["naive", *names])]


def extended_positives(name: str, table: Path | None, split: SplitScores) -> Relevance | None:
    """The extended positives among the images and captions of a split.

    Args:
        name: of their list, corpus.positives of params.yaml; "none" for none.
        table: relevance.parquet of the corpus.
        split: whose images and captions count.

    Returns:
        The pairs that fit beside each caption's own, by rows of the split; None where no list is
        named.

    Raises:
        WorkbenchError: a list without the table.
    """
    if name == "none":
        return None
    if table is None:
        raise WorkbenchError(
            f"corpus.positives = {name}, without --relevance: the pairs are missing",
            "give --relevance data/corpus/relevance.parquet, or set corpus.positives: none",
        )
    return relevance_of(
        name, read_table(table, RELEVANCE), image_ids=split.image_ids, caption_ids=split.caption_ids
    )


def metrics_content(
    whole: SplitScores,
    split: SplitScores,
    evaluation: Evaluation,
    source: Mapping[str, Any],
    findings: Findings | None,
) -> dict[str, Any]:
    """The content of a metrics file: the figures, and what the score file says beside them.

    Args:
        whole: scores of all images and captions of the split.
        split: those that were evaluated.
        evaluation: of them.
        source: attributes of the score file.
        findings: of the split, None for none.

    Returns:
        What is written as JSON: figures in percent by criterion, their intervals, and what the
        score file says of its scores.
    """
    content = evaluation.summary()
    naive = dict[str, Any]()  # beside the recalls
    if SHORTLIST in source:
        count = source[SHORTLIST]
        content[SHORTLIST] = count
        # of these scores, not of a part's
        is_own = not isinstance(split.scores, Reranked) and "members" not in source
        if is_own and count < len(whole.image_ids):
            naive["in_shortlist"] = shortlist_recall(whole, split, count)
    if "correlation" in source:
        naive["correlation"] = source["correlation"]
        content["features"] = {"correlation": rounded(source["feature_correlation"])}
    if findings is not None:
        if findings.separation is not None:
            naive["separation"] = 100 * findings.separation.overlap
        for name, counts in findings.hubs.items():
            hubs = {way: Hubness(numbers).figures for way, numbers in counts.items()}
            content[name]["hubs"] = rounded(hubs)
    content["naive"] |= rounded(naive)
    if "begins_as" in source:
        content["begins_as"] = source["begins_as"]
    if source.get("source") == "external":
        content["external"] = True
        content["tied"] = rounded(source.get("tied", 0.0))
    certificate = certify(split.image_ids, len(split.caption_ids), evaluation.protocol)
    content[SPLIT] = certificate.text
    return content


if __name__ == "__main__":
    main()
