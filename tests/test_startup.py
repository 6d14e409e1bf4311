"""What a program loads before it works: a library that takes a second is left to those that use it.

Measured on one core: torch 1.4 s, torchvision 1.5 s more, timm 2.0 more, sklearn 1.0, gensim 0.9,
matplotlib 0.4.
Rankings and criteria need none of these; torch multiplies embeddings where no scores were kept.
"""

import json
import os
import subprocess
import sys

import pytest
from clone import ROOT

from models.registry import model_names, module_of

LIGHT = "click,h5py,pandas,pydantic,ruamel.yaml,scipy.linalg"  # no business of this test
HEAVY = {"torch", "torchvision", "timm", "sklearn", "gensim", "matplotlib", "sentence_transformers"}
TORCH, IMAGES = "torch", "torch,torchvision"

# What importing a program may load of these, "" where it is not listed; more where an option asks
# for it, inside functions.
STAGES = {
    "compare": "matplotlib",
    "evaluate_phrases": TORCH,
    "extract_image_features": IMAGES,
    "extract_proposals": IMAGES,
    "extract_region_features": IMAGES,
    "record_attention": TORCH,
    "score": TORCH,
    "train": TORCH,
    "train_detector": IMAGES,
    "train_phrases": TORCH,
}
COMMANDS = {
    "analyse": "torch,matplotlib",
    "attention": TORCH,
    "export_image_network": IMAGES,
    "export_model": IMAGES,
    "export_regions": TORCH,
    "localise": IMAGES,
    "search": IMAGES,
    "serve": IMAGES,
}
MODELS = {name: IMAGES if name == "dual_path" else TORCH for name in model_names()}


def programs(package, heavier):
    names = {path.stem for path in (ROOT / package.replace(".", "/")).glob("[!_]*.py")}
    assert set(heavier) <= names, f"{package}: no {sorted(set(heavier) - names)}"
    return {f"{package}.{name}": heavier.get(name, "") for name in sorted(names)}


ALLOWED = programs("stages", STAGES) | programs("vse_workbench.commands", COMMANDS)
ALLOWED |= {module_of(name): allowed for name, allowed in MODELS.items()}


@pytest.fixture(scope="module")
def loaded():
    found = {}
    for allowed in sorted(set(ALLOWED.values())):
        modules = [module for module in ALLOWED if ALLOWED[module] == allowed]
        script = ROOT / "tests/support/loaded_libraries.py"
        output = subprocess.run(
            [sys.executable, script, f"{LIGHT},{allowed}", *modules],
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        found |= json.loads(output)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("module", ALLOWED)
def test_importing_a_program_loads_no_library_that_it_can_do_without(loaded, module):
    assert module in loaded[module], f"{module}: cannot be imported"
    spare = HEAVY & set(loaded[module]) - set(ALLOWED[module].split(","))
    assert not spare, f"import {sorted(spare)} in the functions of {module}, or not at all"
