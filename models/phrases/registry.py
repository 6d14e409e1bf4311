"""The models that localise phrases, by name. Each module offers `prepare` and `NETWORK`."""

import importlib
from types import ModuleType

from pipeline.runtime.errors import WorkbenchError

MODELS = {
    "phrase_cca": "models.phrases.cca",
    "phrase_two_branch": "models.phrases.two_branch",
}


def phrase_model(name: str) -> ModuleType:
    """The module of a model; WorkbenchError for a name that is none."""
    if name not in MODELS:
        raise WorkbenchError(f"model {name!r}: phrases are localised by {', '.join(MODELS)}")
    return importlib.import_module(MODELS[name])
