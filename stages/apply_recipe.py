"""Lay a paper's settings over params.yaml, keeping its comments, and say what changed."""

from pathlib import Path

import click

from pipeline.runtime.files import read_yaml, write_text
from pipeline.runtime.recipes import find_recipe, merge, overlay, parse_settings
from stages.common import command
from stages.params import find_problems


@command
@click.argument("name")
@click.option("-S", "--set-param", "settings", multiple=True, metavar="KEY=VALUE",
              help="A value laid over the recipe, such as raw=/data/flickr30k.")  # fmt: skip
@click.option("--params", type=click.Path(path_type=Path), default=Path("params.yaml"))
@click.option("--recipes", type=click.Path(path_type=Path), default=Path("recipes"))
def main(name: str, settings: tuple[str, ...], params: Path, recipes: Path) -> None:
    """Overlay params.yaml with recipes/NAME.yaml and print each change."""
    changes = merge(read_yaml(find_recipe(recipes, name)), parse_settings(settings))
    text, lines = overlay(params, changes, find_problems)
    write_text(params, text)
    click.echo("\n".join(lines) or f"{params} already has these settings")
    click.echo("run `dvc repro`; undo with: touch params.yaml && git checkout params.yaml")


if __name__ == "__main__":
    main()
