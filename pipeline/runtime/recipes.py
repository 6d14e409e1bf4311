"""Recipes: one paper's settings for one dataset, laid over the repository's own defaults.

They are not laid over what stands in params.yaml: a recipe would be another after every other. An
overlay changes values and nothing else, so that comments and order stay and a diff shows the
settings alone.
"""

import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.yaml_text import COMPLETE, plain_yaml, read_yaml

FindProblems = Callable[[dict[str, Any]], Iterable[str]]
DEFAULTS = "default"  # name of the recipe that is the whole of params.yaml as committed
TARGETS = "targets"  # key of a recipe that is none of params.yaml
ONE_WAY = "give a section as a whole, or its keys"
KEPT = ("runtime",)  # sections of params.yaml that say where a run takes place, not what it is


@dataclass(frozen=True)
class Recipe:
    """settings: nested values for params.yaml; targets: of `dvc repro`, the stages they are made
    for; none: all."""

    settings: dict[str, Any]
    targets: tuple[str, ...]


def read_recipe(folder: Path, name: str) -> Recipe:
    """A recipe; WorkbenchError when there is none of that name or its file is none."""
    path = find_recipe(folder, name)
    settings = read_yaml(path)
    targets = settings.pop(TARGETS, [])
    if not (isinstance(targets, list) and all(map(_is_target, targets))):
        raise WorkbenchError(
            f"{path}: {TARGETS} = {shown(targets)}: must be a list of stages",
            f"write {TARGETS}: [evaluate@vse]",
        )
    return Recipe(settings, tuple(targets))


def _is_target(target: Any) -> bool:
    return isinstance(target, str) and re.fullmatch(r"[\w-]+(@[\w-]+)?", target) is not None


def find_recipe(folder: Path, name: str) -> Path:
    """The file of a recipe; WorkbenchError lists the recipes there are when `name` is none."""
    recipes = {path.stem: path for path in sorted(folder.glob("*.yaml"))}
    if name not in recipes:
        raise WorkbenchError(f"no recipe {name!r}", f"recipes: {listing(recipes, 100)}")
    return recipes[name]


def applied(
    params: Path, folder: Path, changes: Mapping[str, Any], find_problems: FindProblems
) -> tuple[str, list[str]]:
    """The text of the defaults with `changes` laid over them, and one line for every value in which
    `params` differs from it.

    Args:
        params: path of a params.yaml; only its sections KEPT stay, unless `changes` has them too.
        folder: of the recipes.
        changes: nested mapping of new values.
        find_problems: as in `overlay`.

    Raises:
        WorkbenchError: as `overlay`.
    """
    before = read_yaml(params)
    kept = {section: before[section] for section in KEPT if section in before}
    text, _ = overlay(find_recipe(folder, DEFAULTS), merge(kept, changes), find_problems)
    return text, list(_differences(before, plain_yaml(text, str(params))))


def _differences(before: dict[str, Any], after: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for key in [*after, *(key for key in before if key not in after)]:
        name, old, new = f"{prefix}{key}", before.get(key, ...), after.get(key, ...)
        if isinstance(old, dict) and isinstance(new, dict):
            yield from _differences(old, new, f"{name}.")
        elif old != new:
            yield f"{name}: {shown(old)} -> {shown(new)}"


def overlay(
    params: Path, changes: Mapping[str, Any], find_problems: FindProblems
) -> tuple[str, list[str]]:
    """The text of a params.yaml with new values laid over it.

    Args:
        params: path of the params.yaml, which is not written.
        changes: nested mapping of new values.
        find_problems: one line for everything that is wrong with the values of a whole file.

    Returns:
        The text, and one line per changed value.

    Raises:
        WorkbenchError: keys that params.yaml does not have, values that it must not have.
    """
    read_yaml(params)  # for its plain error messages: the round-trip parser below has none
    text, lines = replaced(params.read_text(encoding="utf-8"), changes)
    # A parser of its own: the document's values are ruamel's types, the check wants plain ones.
    problems = list(find_problems(plain_yaml(text, str(params))))
    if problems:
        raise WorkbenchError("with these settings params.yaml would be wrong:\n  "
                             + "\n  ".join(problems), "params.yaml was left as it is")  # fmt: skip
    return text, lines


def replaced(text: str, changes: Mapping[str, Any]) -> tuple[str, list[str]]:
    """A YAML text with the nested `changes` laid over it, and one line per changed value.

    Raises WorkbenchError for keys that the text does not have.
    """
    document, made = _round_trip().load(text), io.StringIO()
    lines = list(_replace(document, changes, ""))
    _round_trip().dump(document, made)
    return made.getvalue(), lines


def parse_settings(settings: tuple[str, ...]) -> dict[str, Any]:
    """`key.sub=value` strings as a nested mapping, values read as YAML."""
    nested: dict[str, Any] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not (key and equals):
            raise WorkbenchError(f"{setting!r} is no setting", "write key=value")
        *parents, last = key.split(".")
        node = nested
        for parent in parents:
            node = node.setdefault(parent, {})
            if not isinstance(node, dict):
                raise WorkbenchError(f"-S {setting}: {parent} is given a value, too", ONE_WAY)
        if isinstance(node.get(last), dict):
            raise WorkbenchError(f"-S {setting}: keys of {last} are given, too", ONE_WAY)
        node[last] = plain_yaml(value, f"-S {setting}", "write a value as in params.yaml")
    return nested


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Nested mappings merged, `over` winning."""
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            value = merge(below, value)
        merged[key] = value
    return merged


def _replace(node: Any, changes: Mapping[str, Any], prefix: str) -> Iterator[str]:
    for key, value in changes.items():
        name = f"{prefix}{key}"
        if key not in node:
            raise WorkbenchError(
                f"unknown key {name}; there are {listing(node, 100)}",
                f"params.yaml was left as it is\n{COMPLETE}",
            )
        section = isinstance(node[key], Mapping)
        if section != isinstance(value, Mapping):
            kind = "a section, not a value" if section else "a value, not a section"
            raise WorkbenchError(f"{name} is {kind}", "params.yaml was left as it is")
        if section:
            yield from _replace(node[key], value, f"{name}.")
        elif node[key] != value:
            yield f"{name}: {shown(node[key])} -> {shown(value)}"
            _assign(node, key, value)


def _assign(node: Any, key: str, value: Any) -> None:
    from ruamel.yaml.comments import CommentedSeq

    old, new = node[key], value
    if isinstance(value, list):  # kept on one line, as params.yaml writes lists
        new = CommentedSeq(value)
        new.fa.set_flow_style()
    if isinstance(old, CommentedSeq):  # the comment after a list belongs to the list
        if isinstance(value, list):
            new.ca.comment, new.ca.end = old.ca.comment, old.ca.end
        elif old.ca.comment:  # and that after any other value to its key
            node.ca.items[key] = [None, None, old.ca.comment[0], None]
    node[key] = new


def shown(value: Any) -> str:
    """A value of params.yaml as a line of output has it."""
    if value is ...:
        return "(none)"
    if isinstance(value, bool) or value is None:
        return str(value).lower().replace("none", "null")
    return f"[{', '.join(map(str, value))}]" if isinstance(value, list) else str(value)


def _round_trip() -> YAML:
    yaml = YAML(typ="rt")
    yaml.preserve_quotes = True
    yaml.width = 4096
    # Without it `null` is written as an empty value.
    yaml.representer.add_representer(
        type(None), lambda dumper, _: dumper.represent_scalar("tag:yaml.org,2002:null", "null")
    )
    return yaml
