"""What a stage loads before it works: libraries that take a second are left to those that use them.

Measured on one core: torch 1.4 s, torchvision 1.5 s more, timm 2.0 more, sklearn 1.0, gensim 0.9,
matplotlib 0.4.
Rankings and criteria count in torch, so that stages of evaluation need it.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from models.base.registry import model_names

ROOT = Path(__file__).resolve().parents[1]
LIGHT = "click,h5py,pandas,pydantic,ruamel.yaml,scipy.linalg"  # no business of this test
HEAVY = {"torch", "torchvision", "timm", "sklearn", "gensim", "matplotlib"}
TORCH, IMAGES = "torch", "torch,torchvision"

# What importing a stage may load of these; more where an option asks for it, inside functions.
STAGES = {
    "analyse_model": "torch,matplotlib",
    "apply_recipe": "",
    "average_scores": TORCH,
    "build_index": "",
    "build_vocabulary": "",
    "check_params": "",
    "cluster_pseudo_classes": "",
    "compare": "torch,matplotlib",
    "compare_runs": TORCH,
    "complete_params": "",
    "digest_external": "",
    "draw_attention": TORCH,
    "embed_plots": "",
    "encode_phrases": "",
    "encode_sentences": "",
    "evaluate": TORCH,
    "evaluate_phrases": TORCH,
    "export_image_network": IMAGES,
    "export_model": IMAGES,
    "export_regions": TORCH,
    "export_run": TORCH,
    "extract_image_features": IMAGES,
    "extract_proposals": IMAGES,
    "extract_region_features": IMAGES,
    "import_scores": TORCH,
    "inspect_features": "",
    "judge_claims": TORCH,
    "judge_run": "",
    "keep_results": TORCH,
    "localise": IMAGES,
    "prepare_corpus": "",
    "prepare_phrases": "",
    "queue_claims": TORCH,
    "record_attention": TORCH,
    "score": TORCH,
    "score_external": TORCH,
    "search": IMAGES,
    "serve": IMAGES,
    "tabulate_plots": TORCH,
    "tabulate_runs": "",
    "train": TORCH,
    "train_detector": IMAGES,
    "train_phrases": TORCH,
}
MODELS = {name: IMAGES if name == "dual_path" else TORCH for name in model_names()}
ALLOWED = {f"stages.{name}": allowed for name, allowed in STAGES.items()}
ALLOWED |= {f"models.{name}.model": allowed for name, allowed in MODELS.items()}


@pytest.fixture(scope="module")
def loaded():
    """All libraries that are loaded by importing each module of ALLOWED."""
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


def test_every_stage_is_listed():
    commands = {path.stem for path in (ROOT / "stages").glob("*.py")}
    assert commands - {"__init__", "__main__", "common", "params"} == set(STAGES)


@pytest.mark.parametrize("module", ALLOWED)
def test_importing_a_stage_loads_no_library_that_it_can_do_without(loaded, module):
    assert module in loaded[module], f"{module}: cannot be imported"
    spare = HEAVY & set(loaded[module]) - set(ALLOWED[module].split(","))
    assert not spare, f"import {sorted(spare)} in the functions of {module}, or not at all"
