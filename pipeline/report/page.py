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
from pipeline.evaluation.columns import METRICS
from pipeline.evaluation.figures import values_of
from pipeline.evaluation.findings import read_findings
from pipeline.evaluation.hubness import CLASSES
from pipeline.report.attention import AttentionFigure
from pipeline.report.attention_section import attention_figures
from pipeline.report.curve_files import Curve, read_curve
from pipeline.report.drawing import COLOURS, dashes
from pipeline.report.figures import loss_figure, rsum_figure, separation_figure
from pipeline.report.galleries import Gallery, build_galleries
from pipeline.report.hubs import PUBLISHED, Hubs, hubs_of, pair_shares
from pipeline.report.phrases import phrase_section
from pipeline.report.provenance import corpus_digests
from pipeline.report.shelf import Shelf
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.scores.ranking import DIRECTIONS

TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class Files:
    """Where sections come from beside the ranks; curves and attention belong to models by stem.

    Attributes:
        curves: of models trained by epochs.
        images: table of the corpus.
        captions: table of the corpus.
        attention: of models that have it.
        phrases: folder of the phrases' tables, None where there is none.
        found: what each model of phrases found.
    """

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
    """

    dataset: str
    loss: str
    parameters: Mapping[str, str]


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
        WorkbenchError: files and models that do not match, ranks of other images or captions than
            the corpus's or by an earlier version, an image of a gallery that cannot be read.
    """
    paths = _partners(results, files.curves, "curve")
    attended = _partners(results, files.attention, "attention")
    read = {name: read_curve(path) for name, path in paths.items()}
    curves = {name: curve for name, curve in read.items() if curve}
    images, captions = load_images(files.images), load_captions(files.captions)
    shelf = Shelf(images, captions)
    criteria = list(dict.fromkeys(name for result in results for name in result.criteria))
    models = [
        _model(number, result, attended.get(result.name), shelf, criteria)
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
            criteria=criteria,
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
    number: int, result: Result, attended: Path | None, shelf: Shelf, criteria: Sequence[str]
) -> Model:
    shelf.check(result.ranks, result.record)
    found = read_findings(result.ranks)
    weights = found.source.get("checkpoint_sha256")
    return Model(
        name=result.name,
        number=number,
        overlap=found.separation.overlap,
        separation=separation_figure(found.separation, result.name, number),
        hubs=hubs_of(found.hubs, result.name, criteria),
        galleries=build_galleries(found.hits, result.record, shelf),
        attention=attention_figures(attended, weights, shelf) if attended else [],
        provenance=dict(found.source),
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
        "is_subset": results[0].test_images is not None,
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


def _partners(results: Sequence[Result], paths: Sequence[Path], what: str) -> dict[str, Path]:
    """Model -> its file; WorkbenchError for files of other models and for two of one model."""
    names = [result.name for result in results]
    stems = [path.stem for path in paths]
    problems = {
        "without a metrics file": [stem for stem in stems if stem not in names],
        "given twice": sorted({stem for stem in stems if stems.count(stem) > 1}),
    }
    for problem, found in problems.items():
        if found:
            raise WorkbenchError(
                f"{what} files {problem}: {listing(found)}",
                "give --metrics, --ranks, --curves and --attention of the same models",
            )
    return dict(zip(stems, paths, strict=True))


def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
