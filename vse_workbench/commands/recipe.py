"""Replace params.yaml by a paper's settings, and say what to run."""

import json
import shlex
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import click

from pipeline.runtime.files import sha256_file, write_bytes, write_json, write_text
from pipeline.runtime.recipes import (
    DEFAULTS,
    Recipe,
    merge,
    parse_settings,
    read_recipe,
    with_recipe,
)
from pipeline.runtime.text import Values
from pipeline.runtime.yaml_text import read_yaml
from stages.common import WORK, command
from stages.params import default_values, find_problems
from vse_workbench import FOLDER

GROUP = "settings"

LAID = "A value laid over the recipe, such as raw=/data/flickr30k."


@command
@click.argument("name")
@click.option("-S", "--set-param", "settings", multiple=True, metavar="KEY=VALUE", help=LAID)
def main(name: str, settings: tuple[str, ...]) -> None:
    """Make params.yaml recipes/NAME.yaml over the defaults and print each change.

    Of the values there only `runtime` is kept; paths such as `raw` are given with -S. The same
    recipe again keeps what an earlier -S gave. The recipe `default` is the defaults alone, those of
    `runtime` too. Where there is no folder `recipes` or no params.yaml, those of the installed
    package are used.

    Example: vse recipe vse_2019_flickr30k -S raw=/path/to/flickr30k
    """
    params = Path("params.yaml")
    defaults = default_values()
    shelf = next(filter(Path.is_dir, (Path("recipes"), FOLDER / "recipes")))
    recipe = Recipe(defaults, ()) if name == DEFAULTS else read_recipe(shelf, name)
    chosen = parse_settings(settings)
    start = params if params.is_file() else FOLDER / "params.yaml"
    before, notes = (WORK / "recipe" / file for file in ("before.yaml", "last.json"))
    last = {} if name == DEFAULTS else _last_call(notes, name)
    kept = [pair for pair in last.get("settings", ()) if _still_holds(pair, settings, start)]
    changes: Values = recipe.settings
    for package, more in recipe.with_installed.items():
        is_installed = find_spec(package) is not None
        changes = merge(changes, more) if is_installed else changes
        line = f"{package} is {'installed' if is_installed else 'not installed'}: this recipe "
        click.echo(f"{line}{'uses' if is_installed else 'does without'} {json.dumps(more)}")
    changes = merge(merge(changes, parse_settings(tuple(kept))), chosen)
    text, lines = with_recipe(start, defaults, changes, find_problems)
    if start != params:
        click.echo(f"{params}: new, from {start}")
    if last.get("written") != sha256_file(start) or not before.is_file():
        write_bytes(before, start.read_bytes())
    write_text(params, text)
    values = {"recipe": name, "settings": [*kept, *settings], "written": sha256_file(params)}
    write_json(notes, values)
    click.echo("\n".join(lines) or f"{params} already has these settings")
    if kept:
        click.echo(f"kept from before: {shlex.join(f'-S{pair}' for pair in kept)}")
    if "raw" not in changes and "dataset" in changes:
        click.echo(f"raw is still {defaults['raw']}; name your folder with -S raw=/path/to/folder")
    click.echo(f"run: {' '.join(['dvc repro', *recipe.targets])}")
    click.echo(f"undo with: {shlex.join(['cp', str(before), str(params)])}")


def _last_call(notes: Path, name: str) -> Values:
    """What the last call noted, {} where it was of another recipe."""
    with suppress(OSError, ValueError):
        last = json.loads(notes.read_text(encoding="utf-8"))
        if last["recipe"] == name:
            return last
    return {}


def _still_holds(setting: str, settings: tuple[str, ...], params: Path) -> bool:
    """Whether params.yaml still says an earlier setting, and no new one is for the same key."""
    key = setting.partition("=")[0]
    values = read_yaml(params)
    replaced = any(new.partition("=")[0] == key for new in settings)
    return not replaced and merge(values, parse_settings((setting,))) == values
