"""From the scores of a test split to metrics, intervals and what every query reaches, by protocol.

A protocol says which images and captions are ranked against each other: the whole split, folds of
it, or its first images. `evaluate` measures each fold under each criterion, against the groups of
the corpus and, where there is a list of extended positives, against these too: ECCV Caption (Chun
et al. 2022) and CxC (Parekh et al. 2021) list captions of MS-COCO's test images that also fit other
images. Only queries that such a list judges are measured by it, each against all items.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pipeline.evaluation.bootstrap import MeasuredFold, summarised
from pipeline.evaluation.criterion import QUERIES, Criterion
from pipeline.evaluation.figures import (
    Measured,
    average,
    chance_level,
    extended_chance,
    extended_rows,
    measured_of,
    rounded,
)
from pipeline.evaluation.metrics import Metric
from pipeline.evaluation.ranks import request_of_groups, request_of_positives
from pipeline.evaluation.score_file import SplitScores
from pipeline.evaluation.scores import Scores, as_scores, checked_scores, cuts
from pipeline.evaluation.truth import DIRECTIONS, Direction, Relevance, group_codes, true_pairs
from pipeline.runtime.errors import WorkbenchError, listing

PROTOCOL = re.compile(r"full|first_[0-9]+k?|[0-9]+k?_x([1-9][0-9]{0,5})")  # its folds are group 1
PARTITIONED = 1024  # captions whose shortlists are found at once
# row numbers of the images (i2t) and captions (t2i) that are ranked against each other
Fold = dict[Direction, np.ndarray]
Codes = tuple[np.ndarray, np.ndarray]  # group numbers of images and captions


@dataclass(frozen=True, eq=False)
class JudgedFold:
    """Queries of one fold that have extended positives in it.

    Attributes:
        pairs: among the images and captions of the fold.
        queries: by direction (Q,) their row numbers in the split, ascending.
        groups: by direction (Q,) their group numbers 0 ... G - 1.
    """

    pairs: Relevance
    queries: dict[Direction, np.ndarray]
    groups: dict[Direction, np.ndarray]


@dataclass(frozen=True)
class Extended:
    """What one model reaches on one split by extended positives.

    Attributes:
        positives: name of their list.
        pairs: how many pairs of the split it has.
        metrics: criterion -> figures, as `figures.summarise`, of all metrics.
        intervals: the same with [low, high], empty without resamples.
        measured: criterion -> what the judged queries reach, by direction.
        queries: by direction (Q,) their row numbers in the split, ascending.
        chance: figures of random scores.
    """

    positives: str
    pairs: int
    metrics: dict[str, dict[str, Any]]
    intervals: dict[str, dict[str, Any]]
    measured: dict[str, dict[Direction, Measured]]
    queries: dict[Direction, np.ndarray]
    chance: dict[str, Any]

    def summary(self) -> dict[str, Any]:
        """What metrics/<model>.json has under `extended`."""
        queries = {way: len(numbers) for way, numbers in self.queries.items()}
        about = {"positives": self.positives, "pairs": self.pairs, "queries": queries}
        return about | self.metrics


@dataclass(frozen=True)
class Evaluation:
    """What one model reaches on one split.

    Attributes:
        protocol: "full", "1k_x5" for 5 folds of 1,000 images, or "first_1k" for the first 1,000.
        metrics: criterion -> figures, as `figures.summarise`, and "transductive" where it is.
        intervals: the same with [low, high], empty without resamples.
        measured: by criterion, what all queries reach in their folds.
        chance: figures of random scores.
        test_images: of which the evaluated ones are the first; None: they are all.
        extended: the same over extended positives.
    """

    protocol: str
    metrics: dict[str, dict[str, Any]]
    intervals: dict[str, dict[str, Any]]
    measured: dict[str, dict[Direction, Measured]]
    chance: dict[str, Any]
    test_images: int | None = None
    extended: Extended | None = None

    def summary(self) -> dict[str, Any]:
        """The content of metrics/<model>.json."""
        content: dict[str, Any] = {**self.metrics, "protocol": self.protocol}
        if self.test_images is not None:
            content["test_images"] = self.test_images
        if self.extended is not None:
            content["extended"] = self.extended.summary()
        return content

    def lines(self) -> list[str]:
        """For a terminal: a line per criterion, and one by extended positives."""
        lines = []
        for name, figures in self.metrics.items():
            r1 = ", ".join(f"{way} R@1 {figures[way]['r1']:.1f}" for way in DIRECTIONS)
            reached = f"rsum {figures['rsum']:.1f} (chance {self.chance['rsum']:.1f})"
            lines.append(f"{name}, {self.protocol}: {r1}, {reached}")
        if self.extended is not None:
            for name, figures in self.extended.metrics.items():
                ways = ", ".join(
                    f"{way} R@1 {figures[way]['r1']:.1f}, mAP@R {figures[way]['mapr']:.1f}"
                    for way in DIRECTIONS
                )
                lines.append(f"{name}, {self.extended.positives}: {ways}")
        return lines


def evaluate(
    split: SplitScores,
    folds: int,
    resamples: int,
    confidence: float,
    seed: int,
    criteria: Sequence[Criterion] = (Criterion("naive"),),
    test_images: int | None = None,
    relevance: Relevance | None = None,
    metrics: Sequence[Metric] | None = None,
) -> Evaluation:
    """Evaluate scores by folds and under criteria, figures averaged over the folds.

    Args:
        split: scores of N images and M captions.
        folds: how many, each ranked by itself; they must divide the images.
        resamples: bootstrap draws, 0 for no intervals.
        confidence: share of the draws inside an interval, between 0 and 1.
        seed: of the draws.
        criteria: by which the split is ranked.
        test_images: of which the split's images are the first, None: they are all.
        relevance: extended positives, measured beside the groups.
        metrics: of the groups, None for all but the extended.

    Returns:
        Figures, intervals and ranks under every criterion.

    Raises:
        WorkbenchError: folds that do not divide the images or would divide a group, settings that a
            criterion refuses, a fold without extended positives, and scores that are not finite.
    """
    codes = group_codes(split.image_groups, split.caption_groups)
    images, captions = codes
    scores = checked_scores(split.scores, len(images), len(captions))
    parts = cut_folds(images, captions, folds)
    judged = [judged_fold(relevance, fold, codes) for fold in parts] if relevance else []
    by_groups: dict[str, list[MeasuredFold]] = {criterion.name: [] for criterion in criteria}
    by_list: dict[str, list[MeasuredFold]] = {criterion.name: [] for criterion in criteria}
    for criterion in criteria:
        for number, fold in enumerate(parts):
            listed = judged[number] if judged else None
            own, extended = _measured(scores, criterion, fold, codes, metrics, listed)
            by_groups[criterion.name].append(own)
            by_list[criterion.name] += extended
    rows = {way: np.concatenate([fold[way] for fold in parts]) for way in DIRECTIONS}
    figures, intervals, measured = summarised(
        by_groups, rows, resamples=resamples, confidence=confidence, seed=seed, metrics=metrics
    )
    for criterion in criteria:
        if criterion.transductive:
            figures[criterion.name] = {"transductive": True, **figures[criterion.name]}
    chance = [chance_level(images[fold["i2t"]], captions[fold["t2i"]], metrics) for fold in parts]
    is_cut = test_images is not None and len(images) < test_images
    return Evaluation(
        protocol=protocol_name(len(images), folds, is_cut),
        metrics=figures,
        intervals=intervals,
        measured=measured,
        chance=rounded(average(chance)),
        test_images=test_images if is_cut else None,
        extended=extended_of(judged, by_list, resamples, confidence, seed) if judged else None,
    )


def _measured(
    scores: Scores,
    criterion: Criterion,
    fold: Fold,
    codes: Codes,
    metrics: Sequence[Metric] | None,
    judged: JudgedFold | None,
) -> tuple[MeasuredFold, list[MeasuredFold]]:
    """What the queries of a fold reach, and those that extended positives judge, if any."""
    inside = scores.selected(fold["i2t"], fold["t2i"])
    if criterion.transductive:
        views = criterion.views(inside, DIRECTIONS)
    else:
        views = [inside.for_queries(QUERIES[way]) for way in DIRECTIONS]
    images, captions = group_codes(codes[0][fold["i2t"]], codes[1][fold["t2i"]])
    requests = [
        request_of_groups(view, images, captions, way)
        for view, way in zip(views, DIRECTIONS, strict=True)
    ]
    if judged:
        requests += [
            request_of_positives(view, judged.pairs.positives(way), way)
            for view, way in zip(views, DIRECTIONS, strict=True)
        ]
    measured = measured_of(requests, metrics)
    own = MeasuredFold(dict(zip(DIRECTIONS, measured[:2], strict=True)), images, captions)
    if not judged:
        return own, []
    reached = dict(zip(DIRECTIONS, measured[2:], strict=True))
    return own, [MeasuredFold(reached, judged.groups["i2t"], judged.groups["t2i"])]


def judged_fold(relevance: Relevance, rows: Fold, codes: Codes) -> JudgedFold:
    """The queries of a fold that have extended positives in it.

    Args:
        relevance: extended positives of the split.
        rows: numbers of the fold's images and captions.
        codes: group numbers of the split's images (N,) and captions (M,).

    Returns:
        By direction the queries and their positives, numbered in the fold.

    Raises:
        WorkbenchError: no such query in a direction.
    """
    pairs = relevance.inside(rows["i2t"], rows["t2i"])
    queries = {way: rows[way][pairs.positives(way).queries] for way in DIRECTIONS}
    for way, what in zip(DIRECTIONS, ("image", "caption"), strict=True):
        if not len(queries[way]):
            raise WorkbenchError(
                f"corpus.positives = {relevance.name}: no pair for any {what} query among "
                f"{len(rows['i2t']):,} images and {len(rows['t2i']):,} captions of the test split",
                "evaluate more images at once (evaluation.folds, evaluation.subset), or set "
                "corpus.positives: none",
            )
    judged = np.concatenate([codes[0][queries["i2t"]], codes[1][queries["t2i"]]])
    _, numbers = np.unique(judged, return_inverse=True)
    of_images, of_captions = np.split(numbers, [len(queries["i2t"])])
    return JudgedFold(pairs, queries, {"i2t": of_images, "t2i": of_captions})


def extended_of(
    folds: Sequence[JudgedFold],
    found: Mapping[str, Sequence[MeasuredFold]],
    resamples: int,
    confidence: float,
    seed: int,
) -> Extended:
    """Figures by extended positives, averaged over the folds.

    Args:
        folds: their judged queries.
        found: by criterion, what the judged queries of each fold reach.
        resamples: bootstrap draws, 0 for no intervals.
        confidence: share of the draws inside an interval, between 0 and 1.
        seed: of the draws.

    Returns:
        Figures and intervals by criterion.
    """
    rows = {way: np.concatenate([fold.queries[way] for fold in folds]) for way in DIRECTIONS}
    figures, intervals, measured = summarised(
        found,
        rows,
        resamples=resamples,
        confidence=confidence,
        seed=seed,
        metrics=extended_rows(),
    )
    return Extended(
        positives=folds[0].pairs.name,
        pairs=sum(len(fold.pairs.grades) for fold in folds),
        metrics=figures,
        intervals=intervals,
        measured=measured,
        queries={way: np.sort(numbers) for way, numbers in rows.items()},
        chance=rounded(average([extended_chance(fold.pairs) for fold in folds])),
    )


def cut_folds(images: np.ndarray, captions: np.ndarray, folds: int) -> list[Fold]:
    """Contiguous folds of the images, with the captions of their groups.

    Args:
        images: (N,) group numbers.
        captions: (M,) group numbers.
        folds: how many, from 1.

    Returns:
        Numbers of images and captions of each fold.

    Raises:
        WorkbenchError: `folds` does not divide N, or a group would lie in two folds.
    """
    if len(images) % folds:
        allowed = [str(k) for k in range(1, min(len(images), 1000) + 1) if len(images) % k == 0]
        raise WorkbenchError(
            f"evaluation.folds = {folds}: does not divide the {len(images)} test images; "
            f"allowed are {listing(allowed, 20)}",
            "set evaluation.folds in params.yaml; 1 ranks all test images at once",
        )
    fold_of_image = np.arange(len(images)) // (len(images) // folds)
    fold_of_group = np.zeros(int(images.max()) + 1, np.int64)
    fold_of_group[images] = fold_of_image
    cut = np.unique(images[fold_of_group[images] != fold_of_image])
    if len(cut):
        raise WorkbenchError(
            f"evaluation.folds = {folds}: would divide {len(cut)} persons between folds",
            "set evaluation.folds to 1 in params.yaml",
        )
    fold_of_caption = fold_of_group[captions]
    return [
        {"i2t": np.flatnonzero(fold_of_image == k), "t2i": np.flatnonzero(fold_of_caption == k)}
        for k in range(folds)
    ]


def protocol_name(images: int, folds: int, is_subset: bool = False) -> str:
    """How a protocol is called in files and tables.

    Args:
        images: that are evaluated.
        folds: how many.
        is_subset: whether the images are the first ones of the split.

    Returns:
        "full", folds such as "1k_x5" and "200_x5", or of a subset "first_1k", "first_200".
    """
    if folds == 1 and not is_subset:
        return "full"
    count = images // folds
    size = f"{count // 1000}k" if count % 1000 == 0 else f"{count}"
    return f"first_{size}" if is_subset else f"{size}_x{folds}"


def first_images(split: SplitScores, count: int) -> SplitScores:
    """The scores of the first images of the corpus and of their captions, without embeddings.

    As in the kNN-margin paper (table 4, lines 3.15 to 3.17).

    Args:
        split: scores of N images.
        count: how many images, 1 to N; 0: all.

    Returns:
        The scores of these images.

    Raises:
        WorkbenchError: fewer images than that, or a group with images among the others.
    """
    if not count:
        return split
    images = len(split.image_ids)
    if count > images:
        raise WorkbenchError(
            f"evaluation.subset = {count}: the test split has {images} images; allowed are 0 for "
            f"all of them and 1 to {images}",
            "set evaluation.subset in params.yaml",
        )
    groups = np.asarray(split.image_groups)
    divided = np.intersect1d(groups[:count], groups[count:])
    if len(divided):
        raise WorkbenchError(
            f"evaluation.subset = {count}: would divide the images of {len(divided)} persons",
            "set evaluation.subset to 0 in params.yaml",
        )
    captions = np.flatnonzero(np.isin(split.caption_groups, groups[:count]))
    scores = as_scores(split.scores).selected(np.arange(count), captions)
    return replace(
        split,
        scores=scores.matrix() if isinstance(split.scores, np.ndarray) else scores,
        image_ids=list(split.image_ids[:count]),
        caption_ids=np.asarray(split.caption_ids)[captions].tolist(),
        caption_image_ids=np.asarray(split.caption_image_ids)[captions].tolist(),
        image_groups=groups[:count].tolist(),
        image_embeddings=None,
        caption_embeddings=None,
    )


def shortlist_recall(whole: SplitScores, evaluated: SplitScores, count: int) -> dict[str, float]:
    """How much a shortlist holds: the most that a model which scores nothing else could find.

    Args:
        whole: all scores of the split; each caption's `count` largest are its shortlist.
        evaluated: the part of the split that is evaluated.
        count: images of a shortlist, fewer than there are.

    Returns:
        By direction, the percentage of the evaluated queries that are in a true pair of a
        shortlist.
    """
    matrix = whole.matrix
    least = np.concatenate(
        [
            np.partition(matrix[:, columns], -count, axis=0)[-count]
            for columns in cuts(matrix.shape[1], PARTITIONED)
        ]
    )
    image_codes, caption_codes = group_codes(whole.image_groups, whole.caption_groups)
    image, caption = true_pairs(image_codes, caption_codes)
    inside = matrix[image, caption] >= least[caption]
    images = np.asarray(whole.image_ids)[image[inside]]
    captions = np.asarray(whole.caption_ids)[caption[inside]]
    return {
        "i2t": float(100 * np.isin(evaluated.image_ids, images).mean()),
        "t2i": float(100 * np.isin(evaluated.caption_ids, captions).mean()),
    }
