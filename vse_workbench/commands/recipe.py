"""Replace params.yaml by a paper's settings, and say what to run."""

from pathlib import Path

import click

from pipeline.runtime.files import write_text
from pipeline.runtime.recipes import DEFAULTS, Recipe, applied, merge, parse_settings, read_recipe
from stages.common import command
from stages.params import default_values, find_problems

GROUP = "settings"

LAID = "A value laid over the recipe, such as raw=/data/flickr30k."


@command
@click.argument("name")
@click.option("-S", "--set-param", "settings", multiple=True, metavar="KEY=VALUE", help=LAID)
@click.option("--params", type=click.Path(path_type=Path), default=Path("params.yaml"))
@click.option("--recipes", type=click.Path(path_type=Path), default=Path("recipes"))
def main(name: str, settings: tuple[str, ...], params: Path, recipes: Path) -> None:
    """Make params.yaml recipes/NAME.yaml over the defaults and print each change.

    Of the values there only `runtime` is kept; paths such as `raw` are given with -S. The recipe
    `default` is the defaults alone, those of `runtime` too.

    Example: vse recipe vse_2019_flickr30k -S raw=/path/to/flickr30k
    """
    defaults = default_values()
    recipe = Recipe(defaults, ()) if name == DEFAULTS else read_recipe(recipes, name)
    changes = merge(recipe.settings, parse_settings(settings))
    text, lines = applied(params, defaults, changes, find_problems)
    write_text(params, text)
    click.echo("\n".join(lines) or f"{params} already has these settings")
    click.echo(f"run: {' '.join(['dvc repro', *recipe.targets])}")
    click.echo("undo with: touch params.yaml && git checkout params.yaml")
