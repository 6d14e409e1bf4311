"""The page itself: gathers what its sections show and fills the template."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2
import numpy as np
from markupsafe import Markup

from pipeline.corpus.tables import captions_digest, images_digest, load_captions, load_images
from pipeline.evaluation import comparison, phrase_table
from pipeline.evaluation import published as published_text
from pipeline.evaluation.comparison import Result
from pipeline.evaluation.findings import CLASSES, Hubness, pairs_table
from pipeline.evaluation.paired import Difference
from pipeline.evaluation.phrase_table import PhraseRow
from pipeline.evaluation.published import Beside
from pipeline.evaluation.rank_file import METRICS, RECALL_NAME, columns_in, read_findings
from pipeline.evaluation.standing import gains_of_training, leaders_text, verdict
from pipeline.evaluation.truth import DIRECTIONS, Direction
from pipeline.report.attention import attention_figures
from pipeline.report.colours import COLOURS, numbers_of
from pipeline.report.curve_files import Curve, read_curve
from pipeline.report.drawing import dashes
from pipeline.report.figures import interval_figure, loss_figure, rsum_figure, separation_figure
from pipeline.report.galleries import build_galleries
from pipeline.report.phrases import phrase_section
from pipeline.report.provenance import commit_query, versions
from pipeline.report.shelf import CorpusLookup
from pipeline.runtime.errors import counted

# Of 25,000 pairs of MS-COCO in percent, images as the nearest of captions (table 5).
PUBLISHED = {"0": 79.2, "1": 4.1, ">=2": 16.7, ">=5": 12.0, ">=10": 2.0}
TEMPLATES = Path(__file__).parent / "templates"
ENVIRONMENT = jinja2.Environment(
    loader=jinja2.FileSystemLoader(TEMPLATES),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
ENVIRONMENT.filters |= {
    "counted": counted,
    "ends": comparison.interval_text,
    "figure": comparison.shown,
}


@dataclass(frozen=True)
class Files:
    """Where sections come from beside the ranks; files belong to models by their stems."""

    curves: Sequence[Path]
    images: Path
    captions: Path
    attention: Sequence[Path] = ()
    phrases: Path | None = None  # folder of the phrases' tables
    found: Sequence[Path] = ()  # what models of phrases found


@dataclass(frozen=True)
class Run:
    """What was run: dataset, loss, parameters by key, and all that dvc.yaml evaluates."""

    dataset: str
    loss: str
    parameters: Mapping[str, str]
    known: Sequence[str] = ()


def build_page(
    results: Sequence[Result],
    behind: Mapping[str, Difference],
    files: Files,
    run: Run,
    localised: Sequence[PhraseRow] = (),
    published: Sequence[Beside] = (),
) -> str:
    """The report as one HTML document; equal inputs give equal text.

    Args:
        results: of all models, at least one.
        behind: by model, how far it is behind the best one.
        files: where sections come from beside the ranks.
        run: what was run.
        localised: results of the models of phrases.
        published: rows of papers' tables, each with what was measured for it.

    Returns:
        The document.

    Raises:
        WorkbenchError: files of another corpus or other weights than the results'.
    """
    numbers = numbers_of(run.known, [result.name for result in results])
    attended = {path.stem: path for path in files.attention}
    read = {path.stem: read_curve(path) for path in files.curves}
    curves = {name: curve for name, curve in read.items() if curve}
    images = load_images(files.images)
    captions = load_captions(files.captions)
    shelf = CorpusLookup(images, captions)
    criteria = list(dict.fromkeys(name for result in results for name in result.criteria))
    models = [
        _model_sections(numbers[result.name], result, attended.get(result.name), shelf, criteria)
        for result in results
    ]
    texts = results[0].record.caption_ids
    return ENVIRONMENT.get_template("report.html").render(
        **_frame_values(run, results),
        **_table_values(results, behind, numbers),
        **_curve_values(curves, [result.name for result in results], numbers),
        published_head=published_text.HEAD,
        published=published,
        published_note=published_text.NOTE,
        phrase_said=phrase_table.explained(localised) if localised else "",
        phrase_head=phrase_table.HEAD,
        phrase_cells=[phrase_table.cells(row) for row in localised],
        phrase_types=phrase_table.by_type(localised) if localised else [],
        phrases=phrase_section(localised, files.found, files.phrases, shelf),
        criteria=criteria,
        models=models,
        best=comparison.groups_of(results)[0][0].model,
        directions=DIRECTIONS,
        classes=CLASSES,
        published_hubs=PUBLISHED,
        matched_hubs=pair_shares(shelf.captions_of_images(texts), len(texts)),
        about={
            "Commit and date": {"found by": commit_query(results[0].ranks)},
            "Versions": versions(),
            "Corpus": {
                "images_sha256": images_digest(images),
                "captions_sha256": captions_digest(captions),
            },
        },
    )


def _model_sections(
    number: int, result: Result, attended: Path | None, shelf: CorpusLookup, criteria: Sequence[str]
) -> dict[str, object]:
    """The sections of one model; number: its colour and dashes in every figure."""
    record = result.record
    shelf.check(result.ranks, record.image_ids, record.caption_ids)
    findings = read_findings(result.ranks)
    weights = findings.source.get("checkpoint_sha256")
    separated = findings.separation
    return {
        "name": result.name,
        "number": number,
        "overlap": separated and separated.overlap,
        "separation": separated and separation_figure(separated, result.name, number),
        "hubs": hubs_of(findings.hubs, result.name, criteria),
        "galleries": build_galleries(findings.hits, record, shelf),
        "attention": attention_figures(attended, weights, shelf) if attended else [],
        "provenance": findings.source,
    }


def hubs_of(
    counts: Mapping[str, Mapping[Direction, np.ndarray]], model: str, criteria: Sequence[str]
) -> list[dict[str, object]]:
    """Hubs of a split, both directions, every criterion.

    Args:
        counts: by criterion and direction, of how many queries each item is the nearest, (M,) for
            i2t, (N,) for t2i.
        model: its name.
        criteria: in the order of the page.

    Returns:
        A row for each direction and criterion; `pairs` as of `pair_shares`, of images.
    """
    return [
        {
            "label": model if criterion == "naive" else f"{model} + {criterion}",
            "direction": way,
            "found": Hubness(hubs[way]),
            "pairs": {} if way == "i2t" else pair_shares(hubs["t2i"], len(hubs["i2t"])),
        }
        for way in DIRECTIONS
        for criterion in criteria
        if (hubs := counts.get(criterion))
    ]


def pair_shares(counts: np.ndarray, captions: int) -> dict[str, float]:
    """How many captions have a nearest image that is the nearest of so many (`pairs_table`).

    Args:
        counts: (N,) of how many captions each image is the nearest.
        captions: how many there are.

    Returns:
        Percent of the captions by class, such as `>=5`.
    """
    return {name: 100 * n / captions for name, n in pairs_table(counts, captions).items()}


def _frame_values(run: Run, results: Sequence[Result]) -> dict[str, object]:
    """Texts of the whole page, its style and its script, and the digest that permits the script."""
    images = len(results[0].record.image_ids)
    captions = len(results[0].record.caption_ids)
    script = (TEMPLATES / "page.js").read_text(encoding="utf-8")
    digest = hashlib.sha256(script.encode()).digest()
    return {
        "run": run,
        "record": results[0].record,
        "style": Markup((TEMPLATES / "style.css").read_text(encoding="utf-8")),
        "script": Markup(script),
        "script_digest": base64.b64encode(digest).decode(),
        "dashes": dashes,
        "colours": len(COLOURS),
        "images": comparison.images_of(results[0]),
        "is_subset": results[0].test_images is not None,
        "means": {"i2t": images / captions, "t2i": captions / images},
    }


def _table_values(
    results: Sequence[Result], behind: Mapping[str, Difference], numbers: Mapping[str, int]
) -> dict[str, object]:
    """Rows by group; their cells are those of `shown_first`, then those behind the switch."""
    groups = comparison.groups_of(results)
    columns = columns_in(groups[0][0].figures)
    first = [column for column in columns if RECALL_NAME.fullmatch(column.keys[-1])]
    more = [column for column in columns if column not in first and len(column.keys) > 1]
    order = [columns.index(column) for column in (columns[-1], *first, *more)]

    def cells(row: comparison.TableRow, best: Sequence[bool]) -> list[tuple[float, bool]]:
        return [(columns[at].of(row.figures), best[at]) for at in order]

    return {
        "tables": [
            list(zip(rows, map(cells, rows, comparison.best_of(rows)), strict=True))
            for rows in groups
        ],
        "behind": behind,
        "shown_first": first,
        "shown_more": more,
        "interval_figure": interval_figure(groups[0], numbers) if len(results) > 1 else None,
        "legend": list(dict.fromkeys(metric.note for metric in METRICS)),
        "chance": [columns[at].of(results[0].record.chance) for at in order],
        "notes": [comparison.BEHIND, *gains_of_training(results), *comparison.notes(results)],
        "apart": comparison.APART,
        "verdict": verdict(results, behind),
        "leaders": leaders_text(results, behind),
        "split": comparison.certificate_of(results[0].record).text,
        "beside": comparison.beside_rows(results),
        "beside_said": comparison.extended_note(results) if results[0].extended else "",
    }


def _curve_values(
    curves: Mapping[str, Curve], names: Sequence[str], numbers: Mapping[str, int]
) -> dict[str, object]:
    """Charts of the models of several epochs, and the names of the others."""
    drawn = {name: curve for name, curve in curves.items() if len(curve.epochs) > 1}
    series = {name: numbers[name] for name in drawn}
    return {
        "series": series,
        "turning": any(curve.turns for curve in drawn.values()),
        "rsum_figure": rsum_figure(drawn, series) if drawn else None,
        "losses": {name: loss_figure(drawn[name], name, series[name]) for name in series},
        "one_epoch": {name: curves[name].best[1] for name in curves if name not in drawn},
        "without_curve": [name for name in names if name not in curves],
    }
