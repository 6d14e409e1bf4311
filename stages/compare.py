"""One table of all models, and a page to look at them."""

from pathlib import Path

from pipeline.evaluation.comparison import (
    extended_report,
    files_of_models,
    metrics_files,
    read_results,
    tables,
)
from pipeline.evaluation.phrase_table import phrase_report, read_rows
from pipeline.evaluation.published import (
    measured_rows,
    published_report,
    published_text,
    set_beside,
)
from pipeline.evaluation.standing import behind_first, report, standing_text
from pipeline.report.page import Files, Run, build_page
from pipeline.report.provenance import parameters
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import write_text
from pipeline.runtime.graph import EVALUATING, LOCALISING, stage_items
from pipeline.runtime.process import say
from pipeline.runtime.yaml_text import read_yaml
from stages.common import command, paths
from stages.params import load_params


@command
@paths("metrics", "ranks", exist=True, multiple=True)
@paths("curves", "attention", "found", exist=True, multiple=True, required=False)
@paths("phrases", "images", "captions", exist=True, required=False)
@paths("output")
@paths("page", required=False)
def main(
    metrics: tuple[Path, ...],
    ranks: tuple[Path, ...],
    curves: tuple[Path, ...],
    attention: tuple[Path, ...],
    phrases: Path | None,
    found: tuple[Path, ...],
    images: Path | None,
    captions: Path | None,
    output: Path,
    page: Path | None,
) -> None:
    """Compare the models of metrics files, each with the other files of the same name; a folder
    stands for the files of all that dvc.yaml evaluates."""
    params = load_params()
    has_folders = any(path.is_dir() for path in metrics)
    items = {
        stage: stage_items(stage) if has_folders else [] for stage in (*EVALUATING, LOCALISING)
    }
    known = sorted(item for stage in EVALUATING for item in items[stage])
    searching = items[LOCALISING]
    metrics = metrics_files(metrics, sorted([*known, *searching]))
    found = files_of_models(found, searching, ".h5")
    localised = read_rows([path for path in metrics if path.stem in searching], found)
    metrics = tuple(path for path in metrics if path.stem not in searching)
    models = [path.stem for path in metrics]
    results = read_results(metrics, files_of_models(ranks, models, ".h5"))
    behind = behind_first(results)
    beside = set_beside(params.published, measured_rows(results))
    table = report(results, behind, params.corpus_name, params.loss) + published_report(beside)
    table += extended_report(results)
    texts = {output: table + phrase_report(localised)}
    if page is not None:
        if images is None or captions is None:
            raise WorkbenchError("--page shows images and captions: give --images and --captions")
        settings = parameters(read_yaml(Path("params.yaml")))
        run = Run(params.corpus_name, params.loss, settings, known)
        files = Files(
            curves=files_of_models(curves, models, ".tsv"),
            images=images,
            captions=captions,
            attention=files_of_models(attention, models, ".h5"),
            phrases=phrases,
            found=found,
        )
        texts[page] = build_page(results, behind, files, run, localised, beside)
    for path, text in texts.items():
        write_text(path, text)
    standing = standing_text(results, behind)
    for line in (*published_text(beside), *tables(results, behind), standing):
        say(line)
    say(f"compared {', '.join(models)}: see {' and '.join(map(str, texts))}")


if __name__ == "__main__":
    main()
