"""The code of every stage: which files it may load under the present parameters, what it reads
from outside, and settings that DVC would not see.

`check_params` writes a list of files and their digests for each stage that dvc.yaml names one of,
`train@vse` or `evaluate`. When a stage begins and when it ends, stages.common.as_recorded compares
it with what is there and with the files that the stage has loaded.
"""

import json
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from models.phrases import phrase_module
from models.registry import UNCALLED, model_file, model_names, module_of
from pipeline.runtime.code import EMPTY, Sources, machinery_of
from pipeline.runtime.files import write_text
from pipeline.runtime.graph import MORE
from pipeline.runtime.recipes import leaves
from pipeline.runtime.registry import relative
from pipeline.runtime.text import Values
from stages.common import CODE
from stages.params import CommonParams
from stages.registries import chosen_modules

PICTURES = "record_attention"
OF_MODELS = ("train", "score", PICTURES)  # programs that load the model of their item
OF_PHRASES = ("train_phrases", "evaluate_phrases")  # and those that load a model of phrases
# DVC's run cache finds an earlier run by everything but what has these names, wherever it stands:
# they are those of its own notes of files (dvc.stage.cache). A setting of that name would bring
# back the outputs of another value.
UNSEEN = frozenset({"size", "nfiles"})


def write_lists(
    folder: Path,
    memory: Path,
    params: CommonParams,
    stages: Mapping[str, set[str]],
    named: Mapping[str, str],
    values: Values,
) -> None:
    """Write the list of every stage.

    Args:
        folder: Of the lists.
        memory: File that keeps digests of code for the next time.
        params: The present parameters.
        stages: Keys of params.yaml that a stage reads, by the name of its list.
        named: Digest of the file that a key of params.yaml names, by the key.
        values: The content of params.yaml.
    """
    sources = Sources(memory=memory)
    unseen = {
        key: json.dumps(value) for key, value in leaves(values) if UNSEEN & set(key.split("."))
    }
    texts = {
        name: code_list(sources, name, keys, params) + _lines_of(keys, {**named, **unseen})
        for name, keys in stages.items()
    }
    machinery_of(sources)  # every stage asks for it, and finds it in the memory
    sources.remember()
    for name, text in texts.items():
        write_text(folder / name, text)


def _lines_of(keys: Collection[str], texts: Mapping[str, str]) -> str:
    """A line for each key of `texts` that a stage reads, itself or a key above it."""
    lines = []
    for key, text in texts.items():
        parts = key.split(".")
        above = {".".join(parts[:depth]) for depth in range(1, len(parts) + 1)}
        if above & set(keys):
            lines.append(f"{key} {text}\n")
    return "".join(lines)


def stage_lists(graph: dict[str, Any]) -> dict[str, set[str]]:
    """The dependencies of a stage and the keys of params.yaml that it reads, by its list's name."""
    lists: dict[str, set[str]] = {}
    usual = graph["stages"].get("train", {}).get("foreach", ())
    # check_params writes the lists of these models whether params.yaml names them or not
    further = [name for name in model_names() if name not in usual]
    pattern = re.compile(rf"{re.escape(CODE.as_posix())}/(\S+)")
    for stage in graph["stages"].values():
        items = stage.get("foreach", [None])
        if items == f"${{{MORE}}}":
            items = further
        body = stage.get("do", stage)
        for item in items if isinstance(items, list | dict) else [None]:
            words: Iterable[str] = map(str, (*body.get("deps", ()), *body.get("params", ())))
            if item is not None:
                words = (re.sub(r"\$\{(key|item)\}", str(item), word) for word in words)
            text = list(words)
            for match in filter(None, map(pattern.fullmatch, text)):
                lists.setdefault(match[1], set()).update(text)
    return lists


def code_list(sources: Sources, name: str, keys: Collection[str], params: CommonParams) -> str:
    """The list of a stage: its program, its model, the types of the sections that it reads, all
    that these import, and the entries of registries that params.yaml chooses.

    Args:
        sources: The first-party code.
        name: Of the list: `evaluate`, or `train@vse`.
        keys: Of params.yaml, that the stage reads.
        params: The present parameters.

    Returns:
        A line `path digest` for each file with code; a package with a docstring alone has none.
    """
    program, _, item = name.partition("@")
    modules = [f"stages.{program}", "pipeline.runtime.kernels"]
    without: dict[str, frozenset[str]] = {}  # by file methods that the stage does not call
    if program in OF_MODELS:
        modules.append(module_of(item))
        if program != PICTURES:
            without[relative(model_file(item))] = UNCALLED
    elif program in OF_PHRASES:
        modules.append(phrase_module(item))
    sections = {key.partition(".")[0] for key in keys} & type(params).model_fields.keys()
    # a stage that runs no model reads a model's section as it stands
    sections -= set(model_names()) - {item}
    modules += [type(getattr(params, section)).__module__ for section in sections]
    files = sources.closure(modules)
    while True:
        chosen = list(chosen_modules(files, sections, params))
        grown = sources.closure([*modules, *chosen])
        if grown == files:
            break
        files = grown
    digests = {file: sources.digest(file, without.get(file, frozenset())) for file in files}
    nothing = sources.digest(EMPTY)
    return "".join(f"{file} {own}\n" for file, own in digests.items() if own != nothing)
