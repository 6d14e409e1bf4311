"""Recipes: one paper's settings for one dataset, laid over the defaults, not over each other."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeGuard

from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.rewriting import rewritten_yaml
from pipeline.runtime.text import Values
from pipeline.runtime.yaml_text import plain_text, plain_yaml, read_yaml

FindProblems = Callable[[Values], Iterable[str]]
DEFAULTS = "default"  # name of the recipe without a file: the defaults themselves
TARGETS = "targets"  # keys of a recipe that are none of params.yaml
WITH = "with_installed"
STAGE = re.compile(r"[\w-]+(@[\w-]+)?")
ONE_WAY = "give a section as a whole, or its keys"
LONGEST_SHOWN = 200  # characters: paths are whole, sections are cut
KEPT = ("runtime",)  # sections of params.yaml that say where a run takes place, not what it is


@dataclass(frozen=True)
class Recipe:
    """One paper's settings for one dataset."""

    settings: Values  # nested values for params.yaml
    targets: tuple[str, ...]  # of `dvc repro`, the stages they are made for; none: all
    # by the name of a Python package, settings laid over the others where it is installed
    with_installed: Mapping[str, Values] = field(default_factory=dict)


def read_recipe(folder: Path, name: str) -> Recipe:
    """A recipe from its file.

    Args:
        folder: of the recipes.
        name: of the file, without .yaml.

    Returns:
        The recipe; its settings are not yet held against params.yaml.

    Raises:
        WorkbenchError: there is none of that name, or its file is none.
    """
    path = find_recipe(folder, name)
    settings = read_yaml(path)
    targets = settings.pop(TARGETS, [])
    more = settings.pop(WITH, {})
    names = [item for item in targets if isinstance(item, str)] if isinstance(targets, list) else []
    if names != targets or not all(map(STAGE.fullmatch, names)):
        raise WorkbenchError(
            f"{path}: {TARGETS} = {value_text(targets)}: must be a list of stages",
            f"write {TARGETS}: [evaluate@vse]",
        )
    if not (isinstance(more, dict) and all(isinstance(value, dict) for value in more.values())):
        raise WorkbenchError(f"{path}: {WITH} = {value_text(more)}: must be settings by package")
    return Recipe(settings, tuple(targets), more)


def find_recipe(folder: Path, name: str) -> Path:
    """The file of a recipe.

    Args:
        folder: of the recipes.
        name: of the file, without .yaml.

    Returns:
        Its path.

    Raises:
        WorkbenchError: there is none; those that there are stand in the hint.
    """
    recipes = {path.stem: path for path in sorted(folder.glob("*.yaml"))}
    if name not in recipes:
        names = listing([DEFAULTS, *recipes], 100)
        raise WorkbenchError(f"no recipe {name!r}", f"recipes: {names}")
    return recipes[name]


def with_recipe(
    params: Path,
    defaults: Mapping[str, object],
    changes: Mapping[str, object],
    find_problems: FindProblems,
) -> tuple[str, list[str]]:
    """A params.yaml with other settings laid over the defaults. Of its own values only the sections
    KEPT stay, of its text all comments.

    Args:
        params: the file that is changed; it is only read here.
        defaults: nested values of every key.
        changes: nested values that win over the defaults.
        find_problems: names what would be wrong with the values of a params.yaml.

    Returns:
        The new text, and a line for every value that changes.

    Raises:
        WorkbenchError: the values would be wrong.
    """
    before = read_yaml(params)
    kept = {name: value for name, value in before.items() if name in KEPT}
    values = merge(merge(defaults, kept), changes)
    problems = list(find_problems(values))
    if problems:
        raise WorkbenchError(
            "with these settings params.yaml would be wrong:\n  " + "\n  ".join(problems),
            "params.yaml was left as it is",
        )
    text = rewritten_yaml(params.read_bytes().decode("utf-8"), values, str(params))
    return text, list(_change_lines(before, values))


def _change_lines(before: dict[Any, Any], after: dict[Any, Any], prefix: str = "") -> Iterator[str]:
    for key in [*after, *(key for key in before if key not in after)]:
        name = f"{prefix}{key}"
        old = before.get(key, ...)
        new = after.get(key, ...)
        if _is_phases(old) and _is_phases(new):
            old = dict(enumerate(old))
            new = dict(enumerate(new))
        if isinstance(old, dict) and isinstance(new, dict):
            yield from _change_lines(old, new, f"{name}.")
        elif old != new:
            yield f"{name}: {value_text(old)} -> {value_text(new)}"


def _is_phases(value: object) -> TypeGuard[list[Values]]:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)


def parse_settings(settings: tuple[str, ...]) -> Values:
    """`key.sub=value` strings as a nested mapping, values read as YAML."""
    nested: Values = {}
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


def merge(base: Mapping[str, object], over: Mapping[str, object]) -> Values:
    """Nested mappings merged. A list is a value: one replaces the other.

    Args:
        base: mapping of keys to values or mappings.
        over: wins where both have a key.

    Returns:
        A new mapping.
    """
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            value = merge(below, value)
        merged[key] = value
    return merged


def leaves(value: object, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """All values of nested mappings.

    Args:
        value: mappings, and lists of mappings, whose keys are their places.
        prefix: the dotted key above.

    Yields:
        Dotted key and value.
    """
    if isinstance(value, Mapping):
        for key, below in value.items():
            yield from leaves(below, f"{prefix}.{key}" if prefix else str(key))
    elif _is_phases(value):
        yield from leaves(dict(enumerate(value)), prefix)
    else:
        yield prefix, value


def value_text(value: object) -> str:
    """A value of params.yaml as a line of output has it, a long one cut."""
    text = "(none)" if value is ... else plain_text(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."
