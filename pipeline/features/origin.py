"""Whether a file of features is the one that params.yaml asks for.

DVC does not look into files: features put there by hand could be of other settings. Files say what
they were made with in the attributes `model` and `params`, which must agree with it.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.features.data import Inputs
from pipeline.features.feature_file import FeatureFile
from pipeline.features.groups import GroupFile
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.recipes import merge


@dataclass(frozen=True)
class Origin:
    section: str
    stage: str
    model: str | None  # whose features they are, None where the file tells
    params: Mapping[str, Any]  # settings by key, without those that the file tells alone
    own: str  # the setting that brings in a file of the user's, empty where none does
    unsaid: Mapping[str, Any] = field(default_factory=dict)  # what goes without saying in a file

    @property
    def way_out(self) -> str:
        again = f"make it again with: dvc repro {self.stage}"
        elsewhere = f"features made elsewhere are brought in by {self.own} (docs/features.md)"
        return f"{again}; {elsewhere}" if self.own else again


def check_origins(inputs: Inputs, origins: Mapping[str, Origin]) -> None:
    """Refuse files of features that were not made with the settings of params.yaml.

    Args:
        inputs: the files that a model reads; those of features, sentences and token states are
            looked at.
        origins: what params.yaml asks of them, under regions, image_features, sentences and
            token_states.

    Raises:
        WorkbenchError: the first file that was made otherwise, with the values of both.
    """
    features = FeatureFile(inputs.features)
    # other kinds of files in either place are refused by whoever reads them
    check_origin(features, origins["regions" if "boxes" in features.layouts else "image_features"])
    if inputs.text.is_file():
        check_origin(FeatureFile(inputs.text), origins["sentences"])
    if inputs.states:
        states = GroupFile(inputs.states)
        if states.layouts:
            check_origin(states, origins["token_states"])


def check_origin(file: FeatureFile | GroupFile, origin: Origin) -> None:
    """Refuse a file that names another origin than params.yaml, or none.

    Only what both name is compared: a file of an earlier version lacks the keys that came later.

    Args:
        file: its attributes `params` (JSON) and `model` say what it was made with.
        origin: what params.yaml asks for.

    Raises:
        WorkbenchError: the file says nothing, has other settings or another model, or none of the
            settings that its stage would have written.
    """
    if "params" not in file.attributes:
        raise WorkbenchError(
            f"{file.path}: does not say what it was made with (no attribute 'params')",
            origin.way_out,
        )
    said = _settings(file.path, str(file.attributes["params"]))
    stored = merge(origin.unsaid, said)
    others = list(_differing(stored, merge(origin.unsaid, origin.params), f"{origin.section}."))
    model = file.attributes.get("model", origin.model)
    if not others and origin.model is not None and model != origin.model:
        others = [f"model = {_short(model)} (params.yaml: {_short(origin.model)})"]
    if not others and said and not said.keys() & origin.params.keys():
        raise WorkbenchError(
            f"{file.path}: not made by {origin.stage}: its 'params' are {_short(said)}",
            origin.way_out,
        )
    if others:
        raise WorkbenchError(
            f"{file.path}: not made with the settings of params.yaml: {', '.join(others)}",
            origin.way_out,
        )


def _settings(path: Path, text: str) -> dict[str, Any]:
    try:
        settings = json.loads(text)
    except (ValueError, RecursionError):
        settings = None
    if not isinstance(settings, dict):
        raise WorkbenchError(f"{path}: attribute 'params' is no mapping of settings")
    return settings


def _differing(stored: Mapping[str, Any], wanted: Mapping[str, Any], prefix: str) -> Iterator[str]:
    for key in (name for name in wanted if name in stored):
        old = stored[key]
        new = wanted[key]
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from _differing(old, new, f"{prefix}{key}.")
        elif old != new:
            yield f"{prefix}{key} = {_short(old)} (params.yaml: {_short(new)})"


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
