"""Which models there are: every folder beside this one that holds a model.py. No list names them.

A model's params.py offers CONFIG, the type of its section of params.yaml. Its model.py offers
`prepare(settings, inputs, device) -> TrainingJob` and `scorer(checkpoint, inputs, device)`. Where
there are any, its queries.py offers `queries` and `embedder` for search and analyses, and its
attention.py `attention`. All are imported only when asked for, so that a stage depends on one
model alone.
"""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.section import Section

FOLDER = Path(__file__).resolve().parents[1]


def model_names() -> list[str]:
    """The names of all models, sorted."""
    return sorted(
        file.parent.name for file in FOLDER.glob("*/model.py") if file.parent.name != "base"
    )


def config_of(name: str) -> type[Section]:
    """The type of a model's section of params.yaml."""
    config: type[Section] = importlib.import_module(f"models.{name}.params").CONFIG
    return config


def offered(name: str, part: str, function: str) -> Callable[..., Any] | None:
    """A function of a model's `part`.py, None when it has none.

    Args:
        name: of the model.
        part: name of the module in its folder.
        function: name in the module.

    Raises:
        WorkbenchError: an unknown model, naming those that there are.
    """
    if name not in model_names():
        raise WorkbenchError(f"model {name!r}: allowed are {', '.join(model_names())}")
    if not (FOLDER / name / f"{part}.py").is_file():
        return None
    found: Callable[..., Any] | None = getattr(
        importlib.import_module(f"models.{name}.{part}"), function, None
    )
    return found


def models_with(part: str, function: str) -> list[str]:
    """The models that offer a function, sorted."""
    return [name for name in model_names() if offered(name, part, function)]


def model_function(name: str, function: str) -> Callable[..., Any]:
    """`prepare` or `scorer` of a model, which all have; WorkbenchError for an unknown model."""
    found = offered(name, "model", function)
    assert found, f"models/{name}/model.py lacks {function}"
    return found
