"""Let the pages of `dvc plots` work without a network."""

from pathlib import Path

import click

from pipeline.report.plot_page import page_template
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import write_text
from pipeline.runtime.process import say
from stages.common import command

GROUP = "settings"

NAME = "plots.html"  # in .dvc, which ignores it


@command
@click.option("--remove", is_flag=True, help="Go back to scripts from the network.")
def main(remove: bool) -> None:
    """Let the pages of `dvc plots` carry their scripts, in this clone.

    Example: vse embed-plots
    """
    from dvc.config import Config

    folder = Path(".dvc")
    if not (folder / "config").is_file():
        raise WorkbenchError(".dvc/config: no such file", "run from the repository's root")
    with Config(str(folder.resolve())).edit("local") as config:
        plots = config.setdefault("plots", {})
        plots.pop("html_template", None)
        if remove:
            (folder / NAME).unlink(missing_ok=True)
        else:
            write_text(folder / NAME, page_template())
            plots["html_template"] = NAME
    say("dvc plots: scripts from " + ("the network" if remove else f".dvc/{NAME}, no network"))
