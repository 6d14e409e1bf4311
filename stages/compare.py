"""One table of all models, and a page to look at them."""

from pathlib import Path

import click

from pipeline.comparison import read_results, report
from pipeline.criteria import make_criterion
from pipeline.errors import WorkbenchError
from pipeline.files import write_text
from pipeline.params import load_params, read_yaml
from pipeline.report.page import Files, Run, build_page
from pipeline.report.provenance import parameters
from pipeline.runtime import say
from stages.common import command, existing, target


@command
@click.option("--metrics", type=existing, multiple=True, required=True, help="Metrics file (JSON).")
@click.option("--ranks", type=existing, multiple=True, required=True, help="Rank file (HDF5).")
@click.option("--scores", type=existing, multiple=True, help="Score file of a model, for the page.")
@click.option(
    "--curves", type=existing, multiple=True, help="Curve (TSV) of a model, if it has one."
)
@click.option("--attention", type=existing, multiple=True, help="Attention file of a model.")
@click.option("--images", type=existing, help="Images of the corpus, for the page.")
@click.option("--captions", type=existing, help="Captions of the corpus, for the page.")
@click.option("--output", type=target, required=True, help="Table to write (markdown).")
@click.option("--page", type=target, help="Page to write (HTML, self-contained).")
def main(
    metrics: tuple[Path, ...],
    ranks: tuple[Path, ...],
    scores: tuple[Path, ...],
    curves: tuple[Path, ...],
    attention: tuple[Path, ...],
    images: Path | None,
    captions: Path | None,
    output: Path,
    page: Path | None,
) -> None:
    """Compare the models of metrics files, each with the other files of the same name."""
    params = load_params()
    results = read_results(metrics, ranks)
    texts = {output: report(results, params.dataset, params.loss)}
    if page is not None:
        if images is None or captions is None:
            raise WorkbenchError("--page shows images and captions: give --images and --captions")
        inference = params.inference.model_dump()
        criterion = make_criterion(inference.pop("criterion"), **inference)
        values = parameters(read_yaml(Path("params.yaml")))
        run = Run(params.dataset, params.loss, values, criterion)
        texts[page] = build_page(results, Files(scores, curves, images, captions, attention), run)
    for path, text in texts.items():
        write_text(path, text)
    seen = " and ".join(map(str, texts))
    say(f"compared {', '.join(path.stem for path in metrics)}: see {seen}")


if __name__ == "__main__":
    main()
