"""Which models there are: every folder beside this one that holds a model.py. No list names them.

A model's params.py offers CONFIG, the type of its section of params.yaml. Its model.py offers
`prepare(settings, inputs, device) -> TrainingJob`, called with seeded generators: the network with
its first weights, its data and phases; and `scorer(checkpoint, inputs, device)`. Where there are
any, its queries.py offers `queries` and `embedder` for search and analyses, its attention.py
`attention`. Each is imported only when asked for.
"""

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.registry import defined, parsed
from pipeline.runtime.section import Section

FOLDER = Path(__file__).resolve().parents[1]


def model_names() -> list[str]:
    return sorted(
        file.parent.name for file in FOLDER.glob("*/model.py") if file.parent.name != "base"
    )


def config_of(name: str) -> type[Section]:
    """The type of a model's section of params.yaml; WorkbenchError for a folder without it."""
    _check_offered(name, "params", ["CONFIG"])
    config: type[Section] = importlib.import_module(f"models.{name}.params").CONFIG
    return config


def check_models() -> None:
    """Raise WorkbenchError for a model's folder that lacks what every model offers."""
    for name in model_names():
        _check_offered(name, "params", ["CONFIG"])
        _check_offered(name, "model", ["prepare", "scorer"])


def _check_offered(name: str, part: str, offers: Sequence[str]) -> None:
    file = FOLDER / name / f"{part}.py"
    if not file.is_file():
        raise WorkbenchError(
            f"models/{name}/{part}.py: missing; the folder has a model.py, so that it is a model",
            f"write {part}.py with {' and '.join(offers)}, or take model.py out of the folder",
        )
    missing = [offer for offer in offers if offer not in defined(parsed(file))]
    if missing:
        raise WorkbenchError(f"models/{name}/{part}.py: offers no {' and no '.join(missing)}")


def offered(name: str, part: str, function: str) -> Callable[..., Any] | None:
    """A function of a model's `part`.py, None if it has none; WorkbenchError: an unknown model."""
    if name not in model_names():
        raise WorkbenchError(f"model {name!r}: allowed are {', '.join(model_names())}")
    if not (FOLDER / name / f"{part}.py").is_file():
        return None
    module = importlib.import_module(f"models.{name}.{part}")
    attribute: Callable[..., Any] | None = getattr(module, function, None)
    return attribute


def required(
    name: str, part: str, function: str, problem: str, hint: str = ""
) -> Callable[..., Any]:
    """As `offered`, but a model without the function is a problem, which names the `able` ones."""
    attribute = offered(name, part, function)
    if attribute is None:
        able = ", ".join(models_with(part, function))
        raise WorkbenchError(problem.format(name=name, able=able), hint)
    return attribute


def models_with(part: str, function: str) -> list[str]:
    return [name for name in model_names() if offered(name, part, function)]


def attention_of(name: str) -> Callable[..., Any]:
    """`attention(checkpoint, inputs, device, split)` of a model; WorkbenchError if it has none."""
    problem = "model {name!r} has no attention; {able} have"
    return required(name, "attention", "attention", problem)


def model_function(name: str, function: str) -> Callable[..., Any]:
    """`prepare` or `scorer` of a model, which all have; WorkbenchError for an unknown model."""
    return required(name, "model", function, f"models/{name}/model.py: offers no {function}")
