"""Which models there are: no list names them, their files do.

A model is a file of this folder, or the `model.py` of a folder in it, that holds one class with the
attribute NEEDS, a models.base.Model. What there is, is read from the sources; a model is imported
only when it is asked for.
"""

import ast
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.registry import import_entry, parsed, relative
from pipeline.runtime.section import Section, wrong_defaults

if TYPE_CHECKING:
    from models.base import Model

FOLDER = Path(__file__).resolve().parent
# Methods that no training and no scoring calls: an edit there trains and scores nothing again.
UNCALLED = frozenset({"attention"})
MARK = "NEEDS"  # the attribute that makes a class a model
SHARED = ("base", "registry", "ranking", "phrases")  # files of this folder that are no model


def model_files() -> dict[str, Path]:
    """The file of every model by its name, sorted."""
    files = {file.stem: file for file in FOLDER.glob("*.py")}
    files |= {file.parent.name: file for file in FOLDER.glob("*/model.py")}
    names = sorted(name for name in files if name not in SHARED and not name.startswith("_"))
    return {name: files[name] for name in names}


def model_names() -> list[str]:
    """The names of all models, sorted."""
    return list(model_files())


def check_models() -> None:
    """Raise WorkbenchError for a file that holds no model, or more than one."""
    for name in model_names():
        class_name(name)


def class_name(name: str) -> str:
    """The name of a model's class, read from its source.

    Args:
        name: Of the model.

    Raises:
        WorkbenchError: There is no such model, its file is no Python, or it holds none or several.
    """
    return _find_class(name).name


def _find_class(name: str) -> ast.ClassDef:
    """The one class with NEEDS in a model's file; WorkbenchError as for `class_name`."""
    file = model_file(name)
    classes = [node for node in parsed(file).body if isinstance(node, ast.ClassDef)]
    models = [node for node in classes if _is_marked(node)]
    if not models:
        raise WorkbenchError(
            f"{relative(file)}: holds no model: no class has {MARK}",
            "write a class Model with Config, NEEDS, embed_images and embed_captions "
            "(docs/extending.md)",
        )
    if len(models) > 1:
        names = " and ".join(node.name for node in models)
        raise WorkbenchError(
            f"{relative(file)}, line {models[1].lineno}: holds the models {names}",
            "give every model a file of its own",
        )
    return models[0]


def _is_marked(node: ast.ClassDef) -> bool:
    """Whether a class sets NEEDS in its body."""
    targets = []
    for statement in node.body:
        if isinstance(statement, ast.Assign):
            targets += statement.targets
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            targets.append(statement.target)
    return any(isinstance(target, ast.Name) and target.id == MARK for target in targets)


def model_file(name: str) -> Path:
    """The file that holds a model; WorkbenchError for an unknown one."""
    files = model_files()
    if name not in files:
        raise WorkbenchError(f"model {name!r}: allowed are {', '.join(files)}")
    return files[name]


def module_of(name: str) -> str:
    """The dotted name of the module that holds a model; WorkbenchError for an unknown one."""
    file = model_file(name)
    return f"models.{name}" if file.parent == FOLDER else f"models.{name}.model"


def load_model(name: str) -> "type[Model]":
    """The class of a model, its file imported.

    Args:
        name: Of the model.

    Raises:
        WorkbenchError: There is no such model, its file does not hold one or fails while it is
            loaded, or its Config is no section with right defaults.
    """
    from models.base import Model

    source = _find_class(name)
    file = model_file(name)
    kind = getattr(import_entry(module_of(name), file), source.name)
    place = f"{relative(file)}, line {source.lineno}: {source.name}"
    if not issubclass(kind, Model):
        raise WorkbenchError(
            f"{place} has {MARK}, but is no models.base.Model",
            f"write class {source.name}(Model)",
        )
    config = getattr(kind, "Config", None)
    if not (isinstance(config, type) and issubclass(config, Section)):
        raise WorkbenchError(
            f"{place} has no Config, the type of its section of params.yaml",
            "write a subclass of pipeline.runtime.section.Section, and Config = its name in the "
            "class (docs/extending.md)",
        )
    problems = wrong_defaults(config)
    if problems:
        raise WorkbenchError(f"{place}.Config: {'; '.join(problems)}")
    return kind


def load_for_results(name: str) -> "type[Model]":
    """The class of a model for what decides results, training and scoring.

    Its methods in UNCALLED do not count in the lists of code of these stages, so they must not be
    called: here they raise.

    Args:
        name: Of the model.

    Returns:
        A subclass of the model's class.
    """

    def refuse(*_: object) -> None:
        raise WorkbenchError(
            f"models/{name}: a training or a scoring has called a method that its list of code "
            f"leaves out ({', '.join(sorted(UNCALLED))})",
            "take it off UNCALLED in models/registry.py",
        )

    kind = load_model(name)
    return type(kind.__name__, (kind,), dict.fromkeys(UNCALLED, refuse))


def models_that(can: Callable[[Any], bool]) -> list[str]:
    """The names of the models whose class fulfils a condition, all imported."""
    return [name for name in model_names() if can(load_model(name))]
