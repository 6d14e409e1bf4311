"""Networks of sentence-transformers: found by name or folder, checked, loaded, never trusted.

Reimers & Gurevych 2019, Sentence-BERT. A network is the bytes of its files: settings, tokeniser,
weights. Only these are loaded, from a folder of their own: nothing else in the user's folder
counts, and a copy of them is the whole network. The library takes seconds to load: it is imported
in functions.
"""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

import torch

from pipeline.corpus.words.transformer import model_folder
from pipeline.runtime.errors import WorkbenchError, first_line, listing
from pipeline.runtime.first_bytes import stand_in
from pipeline.runtime.process import say

Network = Any  # a SentenceTransformer, of a library without types that is imported late
Files = Mapping[str, bytes]  # by the name inside the folder, `/` between folders

KEY = "sentences.transformer.model"
MODULES = "modules.json"
SETTINGS = "config.json"
READ = (".json", ".txt", ".model", ".safetensors")  # settings, vocabularies, sentencepiece, weights
PICKLED = (".bin", ".pt", ".pth", ".pkl", ".ckpt", ".h5")
TOKENISER = re.compile(r"(^|/)(tokenizer\.json|vocab[\w.-]*|[\w.-]+\.model)$")
LIBRARY = "sentence_transformers."
SAFE_NAME = re.compile(r"(\w[\w.-]*/)*\w[\w.-]*")
TEMPORARY = "text-network-"
PROBE = ["a dog", "the quick brown fox"]
A_MODEL = "give the folder of a sentence-transformers model: modules.json and what it names"


def find_network(model: str) -> Path:
    """The folder of a network, by its path or by its name on the Hugging Face hub, whose copy is in
    the hub's cache or is fetched."""
    _library()
    if os.path.isdir(model):
        return Path(model)
    if not re.fullmatch(r"[\w-][\w.-]*/[\w-][\w.-]*", model):
        raise WorkbenchError(
            f"{KEY} = {model}: no such folder, and no name as on the Hugging Face hub",
            "name a folder, or a model such as sentence-transformers/all-MiniLM-L6-v2",
        )
    folder = model_folder(model, MODULES)
    if folder and any(folder.rglob("*.safetensors")):  # else an interrupted download
        return folder
    from huggingface_hub import snapshot_download

    say(f"fetching {model} from the Hugging Face hub")
    try:
        return Path(snapshot_download(model, allow_patterns=[f"*{ending}" for ending in READ]))
    except Exception as error:  # of the network, of the hub, of access: dozens of types
        raise WorkbenchError(
            f"{model} is not on this machine and cannot be fetched: {first_line(error)}",
            f"fetch it elsewhere with: hf download {model} --local-dir FOLDER, bring the folder "
            f"here and set {KEY} to it",
        ) from None


def read_network(folder: Path) -> dict[str, bytes]:
    """The files that a network is made of; WorkbenchError for a folder that holds none, code,
    pickled weights, no tokeniser, or pointers in the place of files."""
    if not (folder / MODULES).is_file():
        plain = (folder / SETTINGS).is_file()
        what = "a model without pooling" if plain else "no sentence-transformers model"
        raise WorkbenchError(f"{folder}: {what}: it has no {MODULES}", A_MODEL)
    places = _places(folder, (folder / MODULES).read_bytes())
    paths = [path for part in places for path in sorted((folder / part).glob("*"))]
    names = {path.relative_to(folder).as_posix(): path for path in paths if path.is_file()}
    for path in names.values():
        other = stand_in(path)
        if other is not None:
            raise other
    files = {name: path.read_bytes() for name, path in names.items() if path.suffix in READ}
    files = {name: content for name, content in files.items() if content}
    for part in places:
        kinds = {path.suffix for path in (folder / part).glob("*")}
        if ".safetensors" not in kinds and kinds & set(PICKLED):
            raise WorkbenchError(
                f"{folder / part}: its weights are pickled, which can run code; only safetensors "
                "are read",
                "if you trust them, save the model again with sentence-transformers, which writes "
                "safetensors: SentenceTransformer(FOLDER).save(NEW)",
            )
    for name, content in files.items():
        if name.endswith(".json") and b'"auto_map"' in content:
            raise _has_code(f"{folder / name}: auto_map")
    if not any(map(TOKENISER.search, files)):  # the library would make one that knows no word
        raise WorkbenchError(
            f"{folder}: has no tokeniser, such as tokenizer.json or vocab.txt",
            "fetch the model again, or copy the tokeniser's files into the folder",
        )
    return files


def network_digest(files: Files) -> str:
    """SHA-256 hex of all files with their names."""
    whole = hashlib.sha256()
    for name, content in sorted(files.items()):
        whole.update(name.encode() + b"\0" + hashlib.sha256(content).digest())
    return whole.hexdigest()


def load_network(files: Files, name: str, checked: bool = False) -> Network:
    """Load a network, float32, on the CPU, without any access to the internet.

    Args:
        files: contents of its files by name, from `read_network`.
        name: of the network, for messages.
        checked: that nothing of it is drawn at random was seen before; else it is loaded twice.

    Returns:
        The SentenceTransformer, in evaluation mode.

    Raises:
        WorkbenchError: for files that the library cannot load, weights that are missing, a
            tokeniser of another network, and vectors that are not finite.
    """
    try:
        network = _loaded(files, 0)
        _check_ids(network, name)
        vectors = _probed(network)
        if not checked and not torch.equal(vectors, _probed(_loaded(files, 1))):
            raise WorkbenchError(
                f"{name}: weights of the network are missing, so that its vectors would be random",
                "fetch the model again: model.safetensors is not that of config.json",
            )
    except WorkbenchError:
        raise
    except Exception as error:  # transformers raises nearly any type on settings that do not fit
        reason = re.sub(rf"\S*{TEMPORARY}\w+", "the folder", first_line(error))
        raise WorkbenchError(f"{name}: cannot be loaded: {reason}", A_MODEL) from None
    if vectors.ndim != 2 or not torch.isfinite(vectors).all():
        raise WorkbenchError(f"{name}: its vectors are not finite numbers", A_MODEL)
    return network


def pooling_of(network: Network) -> str:
    """How the states of a caption's tokens become one vector, as its module says."""
    modes = [getattr(module, "pooling_mode", None) for module in network]
    named = [mode if isinstance(mode, str) else "+".join(mode) for mode in modes if mode]
    return ", ".join(named) or "its own"


def _places(folder: Path, content: bytes) -> list[str]:
    """The folders of the modules, `.` the first, by modules.json."""
    try:
        modules = json.loads(content)
        types = [module["type"] for module in modules]
        places = [str(PurePosixPath(module["path"] or ".")) for module in modules]
        if not places:
            raise ValueError("no modules")
        foreign = [kind for kind in types if not kind.startswith(LIBRARY)]
        outside = [path for path in places if path != "." and not SAFE_NAME.fullmatch(path)]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise WorkbenchError(f"{folder / MODULES}: damaged: {first_line(error)}", A_MODEL) from None
    if foreign:
        raise _has_code(f"{folder / MODULES}: {listing(foreign)}")
    if outside:
        raise WorkbenchError(f"{folder / MODULES}: {listing(outside)}: outside the folder", A_MODEL)
    return list(dict.fromkeys([".", *places]))


def _has_code(what: str) -> WorkbenchError:
    return WorkbenchError(
        f"{what}: this model needs code that it brings along, which is not run",
        "choose a model of the library's own networks, or bring vectors in with "
        "sentences.encoding: file",
    )


def _library() -> Any:
    """sentence_transformers, told to be quiet and to use the threads of torch alone."""
    os.environ |= {"HF_HUB_DISABLE_TELEMETRY": "1", "TOKENIZERS_PARALLELISM": "false"}
    try:
        import sentence_transformers
        from transformers.utils import logging
    except ImportError as error:
        raise WorkbenchError(
            f"{KEY}: {error.name} is not installed",
            "pip install --editable '.[text]'",
        ) from None
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    return sentence_transformers


def _loaded(files: Files, seed: int) -> Network:
    """The network; weights that the files lack are drawn by the seed."""
    library = _library()
    with TemporaryDirectory(prefix=TEMPORARY) as root, torch.random.fork_rng(devices=[]):
        folder = Path(root)
        for name, content in files.items():
            if not SAFE_NAME.fullmatch(name):
                raise ValueError(f"the name {name!r} leads outside the folder")
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        read_network(folder)  # files of an encoder were checked when it was made, perhaps elsewhere
        torch.manual_seed(seed)
        network = library.SentenceTransformer(
            root,
            device="cpu",
            local_files_only=True,
            model_kwargs={"use_safetensors": True, "dtype": torch.float32},
        )
    return network.eval()


def _check_ids(network: Network, name: str) -> None:
    """Refuse a tokeniser that gives ids beyond the table of vectors."""
    body = network.transformers_model
    if body is None:  # such as StaticEmbedding
        raise WorkbenchError(f"{name}: its first module is no transformer", A_MODEL)
    rows = len(getattr(body, "text_model", body).get_input_embeddings().weight)
    largest = max(network.tokenizer.get_vocab().values())
    if largest >= rows:
        raise WorkbenchError(
            f"{name}: its tokeniser gives ids to {largest:,}, its network has vectors of {rows:,}",
            "tokenizer.json is of another model: fetch the model again",
        )


def _probed(network: Network) -> torch.Tensor:
    """(2, D) vectors of two short texts; WorkbenchError where the network gives none."""
    with torch.inference_mode():
        output = network(network.preprocess(PROBE))
    if "sentence_embedding" not in output:
        raise WorkbenchError("the model has no pooling: it gives no vector of a sentence", A_MODEL)
    vectors: torch.Tensor = output["sentence_embedding"]
    return vectors
