"""The page itself: gathers what its sections show and fills the template."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup
from pandas import DataFrame

from pipeline.comparison import extended, phrases
from pipeline.comparison.phrases import PhraseRow
from pipeline.comparison.results import Result
from pipeline.comparison.table import best_of, images_of, interval_text, notes, rows_of, shown
from pipeline.corpus.tables import load_captions, load_images
from pipeline.evaluation.criterion import Criterion
from pipeline.evaluation.file import check_scores
from pipeline.evaluation.metrics import METRICS, values_of
from pipeline.evaluation.separation import separation
from pipeline.evaluation.subset import first_images
from pipeline.report.attention import AttentionFigure
from pipeline.report.attention_section import attention_figures
from pipeline.report.curve_files import Curve, read_curve
from pipeline.report.drawing import COLOURS, dashes
from pipeline.report.figures import loss_figure, rsum_figure, separation_figure
from pipeline.report.galleries import Gallery, build_galleries
from pipeline.report.hubs import CLASSES, PUBLISHED, Hubs, hubs_of, pair_shares
from pipeline.report.phrases import phrase_section
from pipeline.report.provenance import attributes, corpus_digests
from pipeline.report.shelf import Shelf
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.scores.file import SplitScores, read_scores
from pipeline.scores.ranking import DIRECTIONS
from pipeline.scores.ranks import retrieval_ranks

TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class Files:
    """Where the sections come from; the others than the corpus belong to models by their stem.

    Attributes:
        scores: one for each model.
        curves: of models trained by epochs.
        images: table of the corpus.
        captions: table of the corpus.
        attention: of models that have it.
        phrases: folder of the phrases' tables, None where there is none.
        found: what each model of phrases found.
    """

    scores: Sequence[Path]
    curves: Sequence[Path]
    images: Path
    captions: Path
    attention: Sequence[Path] = ()
    phrases: Path | None = None
    found: Sequence[Path] = ()


@dataclass(frozen=True)
class Run:
    """What was run.

    Attributes:
        dataset: its name.
        loss: its name.
        parameters: key -> value.
        criteria: shown among the hubs, naive first.
        subset: so many test images alone were evaluated, the first; 0: all.
    """

    dataset: str
    loss: str
    parameters: Mapping[str, str]
    criteria: Sequence[Criterion]
    subset: int = 0


@dataclass(frozen=True)
class Model:
    """The sections of one model.

    Attributes:
        name: of the model.
        number: its colour and dashes in every figure.
        overlap: of the scores of true and other pairs, a share.
        separation: the figure of both.
        hubs: of its directions and criteria.
        galleries: of its directions.
        attention: pictures of pairs, none where it has no attention.
        provenance: what it was made from, by name.
    """

    name: str
    number: int
    overlap: float
    separation: Markup
    hubs: list[Hubs]
    galleries: list[Gallery]
    attention: list[AttentionFigure]
    provenance: dict[str, str]


def build_page(
    results: Sequence[Result], files: Files, run: Run, localised: Sequence[PhraseRow] = ()
) -> str:
    """The report as one HTML document; equal inputs give equal text.

    Args:
        results: one for each model, in the order of the page.
        files: where the sections come from.
        run: what was run.
        localised: one for each model of phrases.

    Raises:
        WorkbenchError: files and models that do not match, scores of other images or captions than
            the corpus or the ranks, an image of a gallery that cannot be read.
    """
    scores = _partners(results, files.scores, "score", every=True)
    paths = _partners(results, files.curves, "curve", every=False)
    attended = _partners(results, files.attention, "attention", every=False)
    read = {name: read_curve(path) for name, path in paths.items()}
    curves = {name: curve for name, curve in read.items() if curve}
    images, captions = load_images(files.images), load_captions(files.captions)
    shelf = Shelf(images, captions)
    models = [
        _model(
            number,
            result,
            scores[result.name],
            attended.get(result.name),
            shelf,
            run,
        )
        for number, result in enumerate(results)
    ]
    texts = results[0].record.caption_ids
    return (
        _environment()
        .get_template("report.html")
        .render(
            **_frame(run, results),
            **_table(results),
            **_extended(results),
            **_curves(curves, [result.name for result in results]),
            **_phrases(localised, files, images, captions),
            models=models,
            best=max(results, key=lambda result: result.criteria["naive"]["rsum"]).name,
            directions=DIRECTIONS,
            classes=CLASSES,
            published_hubs=PUBLISHED,
            matched_hubs=pair_shares(shelf.captions_of_images(texts), len(texts)),
            corpus=corpus_digests(images, captions),
        )
    )


def _model(
    number: int,
    result: Result,
    path: Path,
    attended: Path | None,
    shelf: Shelf,
    run: Run,
) -> Model:
    check_scores(result.name, result.record, path)
    split = first_images(read_scores(path, "test"), run.subset)
    _check_queries(path, split, result)
    shelf.check(path, split)
    groups = split.image_groups, split.caption_groups
    ranks = retrieval_ranks(split.scores, *groups)
    separated = separation(split.scores, *groups)
    return Model(
        name=result.name,
        number=number,
        overlap=separated.overlap,
        separation=separation_figure(separated, result.name, number),
        hubs=hubs_of(split.scores, result.name, run.criteria),
        galleries=build_galleries(split, ranks, shelf),
        attention=attention_figures(attended, path, shelf) if attended else [],
        provenance=attributes(path),
    )


def _frame(run: Run, results: Sequence[Result]) -> dict[str, Any]:
    """Texts of the whole page, its style and its script, and the digest that permits the script."""
    images, captions = len(results[0].record.image_ids), len(results[0].record.caption_ids)
    script = (TEMPLATES / "tables.js").read_text(encoding="utf-8")
    digest = hashlib.sha256(script.encode()).digest()
    return {
        "run": run,
        "record": results[0].record,
        "style": Markup((TEMPLATES / "style.css").read_text(encoding="utf-8")),
        "script": Markup(script),
        "script_digest": base64.b64encode(digest).decode(),
        "dashes": dashes,
        "colours": COLOURS,
        "images": images_of(results[0]),
        "means": {"i2t": images / captions, "t2i": captions / images},
    }


def _table(results: Sequence[Result]) -> dict[str, Any]:
    rows = rows_of(results)
    lines = [
        {
            "row": row,
            "cells": list(
                zip(values_of(row.figures), map(shown, values_of(row.figures)), best, strict=True)
            ),
            "interval": interval_text(row.interval),
        }
        for row, best in zip(rows, best_of(rows), strict=True)
    ]
    return {
        "lines": lines,
        "metrics": METRICS,
        "legend": list(dict.fromkeys(metric.note for metric in METRICS)),
        "chance": [shown(value) for value in values_of(results[0].record.chance)],
        "notes": notes(results),
        "leader": max(rows, key=lambda row: row.figures["rsum"]),
    }


def _extended(results: Sequence[Result]) -> dict[str, Any]:
    """The table by own pairs and by extended positives, without rows where there are none."""
    rows = extended.beside_rows(results)
    lines = [(row, [shown(value) for value in row.figures]) for row in rows]
    return {
        "beside": [(row, texts, interval_text(row.interval)) for row, texts in lines],
        "beside_titles": extended.headings(),
        "beside_said": extended.said(results) if rows else "",
    }


def _phrases(
    rows: Sequence[PhraseRow], files: Files, images: DataFrame, captions: DataFrame
) -> dict[str, Any]:
    """The table of models of phrases and captions with their boxes, without rows where none are."""
    return {
        "phrase_said": phrases.said(rows) if rows else "",
        "phrase_head": phrases.head(),
        "phrase_cells": [phrases.cells(row) for row in rows],
        "phrase_types": phrases.by_type(rows) if rows else [],
        "phrases": phrase_section(rows, files.found, files.phrases, images, captions),
    }


def _curves(curves: Mapping[str, Curve], names: Sequence[str]) -> dict[str, Any]:
    series = {name: number for number, name in enumerate(names) if name in curves}
    return {
        "series": series,
        "rsum_figure": rsum_figure(curves, series) if curves else None,
        "losses": {name: loss_figure(curves[name], name, series[name]) for name in series},
        "without_curve": [name for name in names if name not in curves],
    }


def _partners(
    results: Sequence[Result], paths: Sequence[Path], what: str, every: bool
) -> dict[str, Path]:
    """Model -> its file; WorkbenchError for strangers, for two of one model, for missing ones."""
    names = [result.name for result in results]
    stems = [path.stem for path in paths]
    problems = {
        "without a metrics file": [stem for stem in stems if stem not in names],
        "given twice": sorted({stem for stem in stems if stems.count(stem) > 1}),
        "missing": [name for name in names if every and name not in stems],
    }
    for problem, found in problems.items():
        if found:
            raise WorkbenchError(
                f"{what} files {problem}: {listing(found)}",
                "give --metrics, --ranks, --scores, --curves and --attention of the same models",
            )
    found_paths = dict(zip(stems, paths, strict=True))
    return {name: found_paths[name] for name in names if name in found_paths}


def _check_queries(path: Path, split: SplitScores, result: Result) -> None:
    known = result.record.image_ids, result.record.caption_ids
    if (list(split.image_ids), list(split.caption_ids)) != known:
        raise WorkbenchError(
            f"{path}: scores of other test images or captions than the ranks of {result.name}",
            "evaluate them again with: dvc repro evaluate",
        )


def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
