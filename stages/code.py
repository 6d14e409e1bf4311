"""The code of every stage: which files it may load under the present parameters.

`check_params` writes a list for each stage that dvc.yaml names one of, `train@vse` or `evaluate`: a
line for each file, with its digest. At its end a stage is checked against its list
(pipeline.runtime.code.check_loaded): a missing file is an error, never a stale result.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from pipeline.runtime.code import Sources
from pipeline.runtime.files import write_text
from pipeline.runtime.yaml_text import read_yaml
from stages.common import CODE
from stages.params import CommonParams
from stages.registries import chosen_modules

# What a program loads by the name of its item, beside what it imports.
BY_ITEM = {
    "train": "models.{}.model",
    "score": "models.{}.model",
    "record_attention": "models.{}.attention",
    "train_phrases": "models.phrases.models.{}",
    "evaluate_phrases": "models.phrases.models.{}",
}
ALWAYS = ("pipeline.runtime.kernels",)


def write_lists(
    folder: Path, memory: Path, params: CommonParams, graph: Path = Path("dvc.yaml")
) -> None:
    """Write the list of every stage, also those that stay the same.

    `memory` is the file in which digests of sources are kept for the next time.
    """
    sources = Sources(memory=memory)
    texts = {
        name: _listing(sources, name, keys, params)
        for name, keys in _stages(read_yaml(graph)).items()
    }
    sources.remember()
    for name, text in texts.items():
        write_text(folder / name, text)


def _stages(graph: dict[str, Any]) -> dict[str, set[str]]:
    """The sections of params.yaml that a stage reads, by the name of its list."""
    found: dict[str, set[str]] = {}
    pattern = re.compile(rf"{re.escape(CODE.as_posix())}/(\S+)")
    for stage in graph["stages"].values():
        items = stage.get("foreach", [None])
        body = stage.get("do", stage)
        for item in items if isinstance(items, list | dict) else [None]:
            text = [re.sub(r"\$\{(key|item)\}", str(item), str(word))
                    for word in (*body.get("deps", ()), *body.get("params", ()))]  # fmt: skip
            names = [match[1] for word in text if (match := pattern.fullmatch(word))]
            for name in names:
                found.setdefault(name, set()).update(word.partition(".")[0] for word in text)
    return found


def _modules(name: str, keys: Iterable[str], params: CommonParams) -> Iterator[str]:
    """What a stage loads by name: its program, its model, the types of the sections it reads."""
    program, _, item = name.partition("@")
    yield f"stages.{program}"
    yield from ALWAYS
    if item:
        yield BY_ITEM[program].format(item)
    for key in keys:
        if key in type(params).model_fields:
            yield type(getattr(params, key)).__module__


def _listing(sources: Sources, name: str, keys: Collection[str], params: CommonParams) -> str:
    """The lines of a list: what a stage loads by name, what that imports, chosen entries."""
    modules, chosen = list(_modules(name, keys, params)), list[str]()
    files: list[str] = []
    while files != (files := sources.closure([*modules, *chosen])):
        chosen = list(chosen_modules(files, keys, params))
    return "".join(f"{file} {sources.digest(file)}\n" for file in files)
