"""Begin a loss, metric, reader, criterion, ... or model with a copy of one that exists."""

import keyword
import re
from pathlib import Path

import click

from models.backbone.networks import NETWORKS
from models.backbone.poolings import POOLINGS
from models.ranking import LOSSES
from models.registry import class_name, load_model, model_file, model_names
from pipeline.corpus.dataset import READERS
from pipeline.evaluation.criteria import CRITERIA
from pipeline.evaluation.metrics import FILES as METRICS
from pipeline.features.sentences.encodings import ENCODINGS
from pipeline.runtime.code import ROOT
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.files import write_text
from pipeline.runtime.graph import MORE
from pipeline.runtime.registry import ONE_CLASS, Registry
from pipeline.runtime.yaml_text import read_yaml
from stages.common import CODE, command
from stages.params import whole_type

GROUP = "settings"
# By kind: where its files are, what is copied unless --like says, how it is used.
KINDS: dict[str, tuple[Registry, str, str]] = {
    "loss": (LOSSES, "max_margin", "dvc exp run -S loss={}"),
    "metric": (METRICS, "average_precision", "dvc repro"),
    "reader": (READERS, "karpathy_json", "dvc exp run -S dataset={} -S raw=FOLDER"),
    "encoding": (ENCODINGS, "mean_vector", "dvc exp run -S sentences.encoding={}"),
    "criterion": (CRITERIA, "csls", "dvc exp run -S 'inference.criteria=[{}]'"),
    "pooling": (POOLINGS, "mean", "dvc exp run -S image_features.pool={}"),
    "network": (NETWORKS, "", "dvc exp run -S image_features.model={}"),
}
MODEL = "model"
GRAPH = "dvc.yaml"
PARAMS = "params.yaml"


@command
@click.argument("kind", type=click.Choice([*KINDS, MODEL]))
@click.argument("name")
@click.option("--like", help="What is copied; without it the simplest of its kind.")
def main(kind: str, name: str, like: str | None) -> None:
    """Copy an entry of a KIND to a new NAME, ready to run: its place registers it.

    Example: vse new loss my_margin --like max_margin
    """
    if Path.cwd() != ROOT:
        raise WorkbenchError(f"{Path.cwd()}: not the folder of this code", f"run it in {ROOT}")
    if not re.fullmatch("[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise WorkbenchError(
            f"name {name!r}: allowed are lower case letters, digits and _, a letter first"
        )
    texts, use = _new_model(name, like or "vse") if kind == MODEL else _new_entry(kind, name, like)
    for path, text in texts.items():
        write_text(path, text)
    click.echo("\n".join([*(f"written: {path}" for path in texts), f"use it: {use}"]))
    places = list(texts)
    if kind == MODEL:
        places = [_shared_folder(places), GRAPH, PARAMS]
        click.echo(f"its run also writes, for git: metrics/{name}.json data/curves/{name}.tsv")
    click.echo(f"queued runs have only what git tracks: git add {' '.join(places)}")


def _new_entry(kind: str, name: str, like: str | None) -> tuple[dict[str, str], str]:
    """The new file of a registry by its path, and how it is used."""
    registry, simplest, use = KINDS[kind]
    if name in registry:
        raise WorkbenchError(f"{kind} {name!r} exists: {registry.file(name).relative_to(ROOT)}")
    if not (like or simplest):
        raise WorkbenchError(f"--like: there is no {kind} to copy yet", "see docs/extending.md")
    text = registry.file(like or simplest).read_text(encoding="utf-8")
    if registry.offer == ONE_CLASS:
        class_name = "".join(word.capitalize() for word in name.split("_"))
        text = re.sub(rf"\b{registry.offered(like or simplest)}\b", class_name, text)
    if registry is METRICS:  # its name and title
        text, rows = re.subn(r'Metric\("\w+", "[^"]+"', f'Metric("{name}", "{name}"', text)
        if rows != 1:
            raise WorkbenchError(
                f"--like {like!r}: it has not one row with a plain name",
                "copy average_precision",
            )
    path = registry.folder.relative_to(ROOT) / f"{name}.py"
    return {path.as_posix(): text}, use.format(name)


def _new_model(name: str, like: str) -> tuple[dict[str, str], str]:
    """The new files of a model, dvc.yaml and params.yaml by path, and how it is used."""
    if like not in model_names():
        raise WorkbenchError(f"--like {like!r}: models are {listing(model_names())}")
    if name in whole_type().model_fields or name in model_names():
        raise WorkbenchError(f"{name!r} is a model or a section of {PARAMS} already")
    camel = "".join(word.capitalize() for word in name.split("_"))
    texts = {}
    for file in _sources_of(like):
        text = file.read_text(encoding="utf-8")
        text = text.replace(f"models.{like}.", f"models.{name}.").replace(f"`{like}`", f"`{name}`")
        # VSE and VSEConfig, as whole words: titles and citations keep theirs
        text = re.sub(rf"\b{class_name(like)}(?=Config\b|[(:.])", camel, text)
        place = file.relative_to(ROOT / "models").as_posix()
        texts[f"models/{place.replace(like, name, 1)}"] = text.replace(f'"{like}"', f'"{name}"')
    graph, params = (Path(path).read_text(encoding="utf-8") for path in (GRAPH, PARAMS))
    lists = ["score", "train"]
    use = f"dvc exp run -S '+{MORE}.{name}={{}}' evaluate_more@{name}"
    if like in read_yaml(Path(GRAPH))["stages"]["train"]["foreach"]:
        item = _mapping_lines(graph, f"      {like}:", GRAPH)
        graph = graph.replace(item, item + item.replace(f"      {like}:", f"      {name}:", 1), 1)
        use = f"dvc repro evaluate@{name}"
    if load_model(like).attends():
        graph = graph.replace("    foreach: [dp_rnn, ", f"    foreach: [{name}, dp_rnn, ", 1)
        lists.append("record_attention")
    outs = "".join(f"{CODE}/{stage}@{name},\n      " for stage in lists)
    texts[GRAPH] = graph.replace("    outs: [", f"    outs: [{outs}", 1)  # those of check_params
    section = _mapping_lines(params, f"{like}:", PARAMS)
    both = section.rstrip("\n") + f"\n\n{section.replace(like, name, 1)}"
    texts[PARAMS] = params.replace(section, both, 1)
    return texts, use


def _sources_of(name: str) -> list[Path]:
    """The files of a model: one, or those of its folder."""
    file = model_file(name)
    return [file] if file.parent.name == "models" else sorted(file.parent.glob("*.py"))


def _shared_folder(places: list[str]) -> str:
    """The file or the folder of a new model, for git."""
    own = [place for place in places if place.startswith("models/")]
    return own[0] if len(own) == 1 else Path(own[0]).parent.as_posix()


def _mapping_lines(text: str, head: str, path: str) -> str:
    """The lines of a mapping that begins with a line `head`; WorkbenchError where there is none."""
    indent = len(head) - len(head.lstrip())
    match = re.search(rf"^{re.escape(head)}[^\n]*\n(?: {{{indent + 1},}}[^\n]*\n)*", text, re.M)
    if match is None:
        raise WorkbenchError(f"{path}: no {head.strip()}", "copy the model by hand")
    return match[0]
