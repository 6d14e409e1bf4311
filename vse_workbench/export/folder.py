"""A trained model as a folder that needs neither DVC nor the corpus to answer queries.

It holds copies of the files that queries go through, and the first row of the features that the
model was trained on: their attributes say how an image is to be read, and what the weights need.
"""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from pipeline.features.checkpoint import Checkpoint, read_checkpoint
from pipeline.features.feature_file import FeatureFile, write_features
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.files import publish, sha256_file, write_json
from pipeline.runtime.first_bytes import absent, shown_path, stand_in
from pipeline.runtime.text import Values
from vse_workbench.search.embedder import PRODUCERS, Files

FORMAT = 1
CONFIG = "config.json"
MAX_CONFIG_BYTES = 1 << 20
# By the name of a file of queries, its name in the folder.
NAMES = {
    "checkpoint": "model.safetensors",
    "features": "features.h5",
    "text": "vocabulary",
    "sentences": "sentences.h5",
    "image_network": "image_network.safetensors",
    "encoder": "sentence_encoder.h5",
    "token_encoder": "token_encoder.h5",
    "detector": "detector.safetensors",
}
VOCABULARY = "vocabulary.json"
AGAIN = "export it again: vse export model MODEL --output FOLDER"


@contextmanager
def replacing_export(folder: Path) -> Iterator[Path]:
    """An empty folder whose files take the place of an earlier export in `folder`, all at the end.
    WorkbenchError for a folder with a file that no export wrote, or one that changed since."""
    folder = folder.resolve()
    earlier = _earlier_files(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as temporary:
        yield Path(temporary)
        for path in earlier:  # config.json first: without it a folder is no export
            path.unlink()
        new = [path for path in Path(temporary).rglob("*") if path.is_file()]
        for path in sorted(new, key=lambda path: path.name == CONFIG):
            publish(path, folder / path.relative_to(temporary))


def _earlier_files(folder: Path) -> list[Path]:
    """The files of an earlier export in a folder, config.json first."""
    paths = sorted(path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    try:
        config = _read_config(folder / CONFIG)
        known = {entry["path"]: entry["sha256"] for entry in config["files"].values()}
        known |= config["beside"]
        exported = [folder / CONFIG]
    except WorkbenchError:
        known = {}
        exported = []
    files = {path.relative_to(folder).as_posix(): path for path in paths if path.is_file()}
    exported += [path for name, path in files.items() if known.get(name) == sha256_file(path)]
    strange = [path.relative_to(folder) for path in paths if path not in exported]
    if strange:
        text = f"holds files that no export wrote, or that changed since: {listing(strange)}"
        raise WorkbenchError(f"{folder}: {text}", "choose a new folder, or take them out")
    return exported


def write_folder(folder: Path, files: Files, checkpoint: Checkpoint) -> Values:
    """Copy what the queries of a model need into a folder.

    Args:
        folder: to write to, empty.
        files: by the names that queries use.
        checkpoint: the weights.

    Returns:
        The content of its config.json, which `write_config` writes.
    """
    # a tuned image CNN lies in the weights: images do not go through the one that it was before
    sizes = checkpoint.description.architecture
    spare = {"image_network"} if "image_model" in sizes else set()
    spare |= set() if "state_dim" in sizes else {"token_encoder"}  # it reads words
    copies = {
        name: _copy(files[name], folder / NAMES[name])
        for name in ("checkpoint", *PRODUCERS)
        if name in files and name not in spare
    }
    copies["features"] = _copy_first_row(files["features"], folder / NAMES["features"])
    if files["text"].is_dir():
        words = folder / NAMES["text"] / VOCABULARY
        copies["text"] = _copy(files["text"] / VOCABULARY, words)
    else:
        copies["text"] = _copy_first_row(files["text"], folder / NAMES["sentences"])
    description = checkpoint.description
    entries = {
        name: {"path": path.relative_to(folder).as_posix(), "sha256": sha256_file(path)}
        for name, path in copies.items()
    }
    return {
        "format": FORMAT,
        "model": description.model,
        "checkpoint_sha256": checkpoint.sha256,
        "files": entries,
        "architecture": dict(description.architecture),
        "params": description.params,
        "inputs": description.inputs,
        "epoch": description.epoch,
        "val_rsum": description.val_rsum,
    }


def write_config(folder: Path, config: Values) -> None:
    """Write config.json, with a digest of every file that the queries do not read, too.

    Args:
        folder: with all other files.
        config: of `write_folder`.
    """
    read = {entry["path"] for entry in config["files"].values()}
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    beside = {name: sha256_file(folder / name) for name in sorted(names - read)}
    write_json(folder / CONFIG, config | {"beside": beside})


def read_folder(folder: Path) -> tuple[str, Files, Checkpoint]:
    """The name of an exported model, its files by the names that queries use, and its weights."""
    config = _read_config(folder / CONFIG)
    files: Files = {}
    for name, entry in config["files"].items():
        path = folder / entry["path"]
        if not path.is_file():
            raise WorkbenchError(f"{path}: no such file; {CONFIG} names it as {name}", AGAIN)
        if sha256_file(path) != entry["sha256"]:
            other = stand_in(path)
            if other is not None:
                raise other
            raise WorkbenchError(f"{path}: not the {name} that was exported: another digest", AGAIN)
        files[name] = path.parent if path.name == VOCABULARY else path
    return config["model"], files, read_checkpoint(files["checkpoint"], config["model"])


def _read_config(path: Path) -> Values:
    """The content of config.json, its parts checked; paths are the names that an export gives."""
    if not path.is_file():
        reason = absent(path, "no such file: no exported model")
        raise WorkbenchError(f"{shown_path(path)}: {reason}", AGAIN)
    if path.stat().st_size > MAX_CONFIG_BYTES:
        raise WorkbenchError(f"{path}: too large for a config", AGAIN)
    try:
        config: Values = json.loads(path.read_text(encoding="utf-8"))
        places = {name: (entry["path"], entry["sha256"]) for name, entry in config["files"].items()}
        version = config["model"] and config["format"]
        config["beside"] = dict(config.get("beside", {}))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise WorkbenchError(f"{path}: not the config of an export ({error!r})", AGAIN) from None
    if version != FORMAT:
        raise WorkbenchError(f"{path}: format {version!r}; this version reads {FORMAT}", AGAIN)
    allowed = {*NAMES.values(), f"{NAMES['text']}/{VOCABULARY}"}  # no path out of the folder
    strangers = [name for name, (file, _) in places.items() if file not in allowed]
    if strangers:
        raise WorkbenchError(f"{path}: files that no export has: {listing(strangers)}", AGAIN)
    lost = [name for name in ("checkpoint", "features", "text") if name not in places]
    if lost:
        raise WorkbenchError(f"{path}: does not name {listing(lost)}", AGAIN)
    return config


def _copy(source: Path, target: Path) -> Path:
    if not source.is_file():
        raise WorkbenchError(f"{source}: no such file", "make it with: dvc repro")
    target.parent.mkdir(exist_ok=True)
    return Path(shutil.copyfile(source, target))


def _copy_first_row(source: Path, target: Path) -> Path:
    """A feature file with the first row alone, and all attributes."""
    stored = FeatureFile(source)
    arrays = {name: stored.read([0], name) for name in stored.layouts if name != "ids"}
    attributes = {key: value for key, value in stored.attributes.items() if key != "schema_version"}
    write_features(target, stored.ids[:1], arrays, attributes)
    return target
