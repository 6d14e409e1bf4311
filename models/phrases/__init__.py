"""Localising phrases in images: which models there are (Wang et al. 2016, section 3.3).

A model scores the boxes that are proposed for an image for a phrase that speaks of it. What is read
is in data.py, the models in cca.py and two_branch.py; proposals.py proposes and describes boxes,
queries.py finds a phrase that is in no file.
"""

import importlib
from typing import Any

from pipeline.runtime.errors import WorkbenchError

# The names of the models, which are those of their sections: module and class.
PHRASE_MODELS = {
    "phrase_cca": ("models.phrases.cca", "PhraseCCA"),
    "phrase_two_branch": ("models.phrases.two_branch", "PhraseTwoBranch"),
}


def phrase_module(name: str) -> str:
    """The dotted name of the module of a model of phrases; WorkbenchError for an unknown one."""
    if name not in PHRASE_MODELS:
        names = ", ".join(PHRASE_MODELS)
        raise WorkbenchError(f"model of phrases {name!r}: allowed are {names}")
    return PHRASE_MODELS[name][0]


def load_phrase_model(name: str) -> Any:
    """The class of a model of phrases, a models.base.Model whose data are a PhraseData; its file is
    imported, and torch. WorkbenchError for an unknown one."""
    module = importlib.import_module(phrase_module(name))
    return getattr(module, PHRASE_MODELS[name][1])
