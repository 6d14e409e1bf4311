"""First weights of image networks: random, published, of a file, or the detector's.

`classifier_with_weights` builds a network with them. Files come from anywhere: they are checked and
never unpickled (`read_state_dict`), brought to the network's names (`load_weights`), and fetched
from the web only where params.yaml asks for published ones.
"""

import re
import socket
from collections.abc import Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any
from urllib.error import URLError

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from models.backbone import timm_networks
from models.backbone.network import Backbone, BackboneError, Misfits, classifier, load_strict
from models.backbone.networks import NETWORKS
from models.backbone.preprocessing import published_weights
from models.detector.file import BODY, read_detector
from pipeline.runtime.errors import (
    WorkbenchError,
    counted,
    first_line,
    listing,
    ran_out_of_memory,
)
from pipeline.runtime.files import sha256_file
from pipeline.runtime.first_bytes import absent, explain, kind_of, python_line, shown_path
from pipeline.runtime.process import say

CONNECT_SECONDS = 10.0
NESTED = ("model", "state_dict")  # where checkpoints of other programs have their state dict
READ = ("safetensors", "torch", "pickle")  # kinds of files, of pickles tensors alone
SAVE = "save the state dict itself with: torch.save(model.state_dict(), path)"
# Parts of networks, by the beginning of their names, that only give the classes of a training: of
# torchvision, timm and others. Those of other classes, or none, do for the layers before them.
HEADS = frozenset(
    ("fc", "classifier", "head", "heads", "last_linear", "logits", "aux1", "aux2", "AuxLogits")
)
# Whatever the file holds, the state dicts in it: for those who trust the file.
PLAIN = (
    "import torch; t = lambda v: isinstance(v, torch.Tensor); "
    "f = lambda v: v.state_dict() if hasattr(v, 'state_dict') else v; "
    "w = f(torch.load({source!r}, map_location='cpu', weights_only=False)); "
    "torch.save({{k: f(v) for k, v in w.items() "
    "if t(v) or isinstance(f(v), dict) and all(map(t, f(v).values()))}}, {target!r})"
)
SCRIPT = (
    "import torch; torch.save(torch.jit.load({source!r}, map_location='cpu').state_dict(), "
    "{target!r})"
)
ARRAYS = (
    "import pickle, torch, safetensors.torch as s; w = pickle.load(open({source!r}, 'rb'), "
    "encoding='latin1'); s.save_file({{k: torch.tensor(v) for k, v in w.get('model', w).items()}}, "
    "{target!r})"
)


def classifier_with_weights(model: str, weights: str) -> nn.Module:
    """A whole network with its first weights.

    Args:
        model: as `image_features.model` of params.yaml.
        weights: random, imagenet, the path of a file, or detector: those come when the network is
            cut (`load_detector_body`). Random ones are the same whatever `seed` is: runs with
            other seeds then share their features.

    Returns:
        The network in evaluation mode, its classifier included; weights of the classifier that the
        file lacks are NaN.

    Raises:
        BackboneError: there is no such network, or these are not its weights.
        WorkbenchError: a file that cannot be read or fetched.
    """
    network = classifier(model)
    state = None if weights == "detector" else published_state(model, weights)
    if state is not None:
        load_weights(network, state)
    return network


def load_detector_body(backbone: Backbone, model: str, detector: Path, section: str) -> None:
    """Load the detector's ResNet, as far as the cut network reaches.

    Args:
        backbone: changed in place.
        model: the network that was cut, such as resnet18.
        detector: the file of the detector.
        section: of params.yaml, for messages.

    Raises:
        BackboneError: the file lacks tensors that the backbone needs.
        WorkbenchError: the detector holds another network, or its file is damaged.
    """
    description, state = read_detector(detector)
    if description.architecture != f"fpn_{model}":
        raise WorkbenchError(
            f"{section}.weights = detector: the detector is a {description.architecture}, "
            f"{section}.model a {model}",
            "give both the same ResNet, as fpn_resnet18 and resnet18",
        )
    body = {name.replace(BODY, "graph.", 1): value for name, value in state.items()}
    needed = backbone.state_dict()
    load_strict(backbone, {name: value for name, value in body.items() if name in needed})


def published_state(model: str, weights: str) -> dict[str, Tensor] | None:
    """The state dict that a name of weights stands for.

    Args:
        model: as in params.yaml.
        weights: random, imagenet, or the path of a file.

    Returns:
        Tensors by name, None for random weights.

    Raises:
        WorkbenchError: none are published for the model, or the file cannot be read or fetched.
    """
    if weights == "random":
        return None
    if weights != "imagenet":
        return read_state_dict(weights)
    if model in NETWORKS:
        raise _unpublished(model)
    fetch = timm_state if model.startswith(timm_networks.PREFIX) else imagenet_state
    return fetch(model)


def _unpublished(model: str) -> WorkbenchError:
    message = f"weights = imagenet: none are published for {model!r}"
    return WorkbenchError(message, "set it to random, or to the path of a state dict")


def read_state_dict(path: Path | str) -> dict[str, Tensor]:
    """Name -> tensor from a file of safetensors or a state dict saved with torch.save, also inside
    a checkpoint. Only tensors and plain values are read (`weights_only`)."""
    path = Path(path)
    if not path.is_file():
        raise WorkbenchError(f"{shown_path(path)}: {absent(path, 'no such weights file')}")
    kind = kind_of(path)
    if kind is not None and kind.key == "torchscript":
        raise WorkbenchError(f"{path}: {kind.title}, which is code", _convert(SCRIPT, path, ".pth"))
    other = explain(path, READ, "weights are read from safetensors and from files of torch.save")
    if other is not None:
        raise other
    is_plain = path.suffix == ".safetensors" if kind is None else kind.key == "safetensors"
    try:
        if is_plain:
            return load_file(path)
        with open(path, "rb") as handle:  # of a path torch would look at the ending
            state = torch.load(handle, map_location="cpu", weights_only=True)
    except PermissionError:
        raise
    except (SafetensorError, OSError, MemoryError) as error:
        raise WorkbenchError(f"{path}: not readable as weights: {first_line(error)}") from None
    except Exception as error:  # torch's unpickler raises nearly any type on damaged files
        raise _not_plain(path, error, kind is not None and kind.key == "pickle") from None
    return _inner(path, state)


def _not_plain(path: Path, error: Exception, is_pickle: bool) -> WorkbenchError:
    """The error for what torch does not read as tensors alone; is_pickle: not written by torch."""
    convert = _convert(ARRAYS, path, ".safetensors") if is_pickle else _convert(PLAIN, path, ".pth")
    what = f"{path}: not a plain state dict"
    if not isinstance(error, UnpicklingError):
        return WorkbenchError(f"{what}: {first_line(error)}", convert)
    # torch's own words on this advise to open the file all the same.
    try:
        objects = torch.serialization.get_unsafe_globals_in_checkpoint(path)
    except Exception:  # of files older than PyTorch 1.6, or damaged ones
        objects = []
    held = f" ({listing(objects, 3)})" if objects else ""
    return WorkbenchError(
        f"{what}: damaged, or it holds objects other than tensors{held}, which run code", convert
    )


def _convert(code: str, path: Path, ending: str) -> str:
    """The way out of a file whose reading runs code, as a command."""
    target = f"{path}.plain{ending}"
    line = python_line(code.format(source=str(path), target=target))
    return f"if you trust the file, take its tensors out and name {target} instead: {line}"


def _inner(path: Path, state: Any) -> dict[str, Tensor]:
    """The state dict in what torch read: all of it, or the one mapping of tensors in it."""
    if isinstance(state, Mapping) and not _holds_tensors(state):
        inner = {str(key): value for key, value in state.items() if _holds_tensors(value)}
        usual = [key for key in NESTED if key in inner]
        chosen = usual if len(usual) == 1 else list(inner)
        if len(chosen) > 1:
            raise WorkbenchError(
                f"{path}: holds several state dicts: {listing(chosen)}",
                f"save the one you want: torch.save(checkpoint[{chosen[0]!r}], path)",
            )
        if chosen and (len(inner) > 1 or chosen[0] not in NESTED):
            others = [key for key in inner if key != chosen[0]]
            ending = f", not those under {listing(map(repr, others))}" if others else ""
            say(f"{path}: the weights are those under {chosen[0]!r}{ending}")
        state = inner[chosen[0]] if chosen else state
    if not _holds_tensors(state):
        kind = type(state).__name__
        raise WorkbenchError(f"{path}: holds a {kind} of other things than tensors", SAVE)
    return {str(name): value for name, value in state.items()}


def _holds_tensors(state: Any) -> bool:
    if not isinstance(state, Mapping) or not state:
        return False
    return all(isinstance(value, Tensor) for value in state.values())


def load_weights(network: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Load a state dict of others in place, and say what of it was not taken as it is.

    Args:
        network: a whole network.
        state: its tensors by name, perhaps with something before all of the names, such as the
            `module.` of a training on several GPUs, and with a head of other classes or none. What
            of the network's head the file does not have becomes NaN, so that a layer that needs it
            is refused when the network is cut.

    Raises:
        BackboneError: other names or shapes differ, or several prefixes give the whole network.
    """
    expected = network.state_dict()
    prefix = _prefix_of(expected, state)
    bare = under_prefix(state, prefix)
    misfits = Misfits.of(expected, bare)
    if not all(map(_is_of_head, misfits.names)):
        raise BackboneError(f"the state dict does not fit the model; {misfits}")
    lost = [*misfits.missing, *misfits.ill_shaped]
    taken = {name: bare[name] for name in bare if name in expected and name not in lost}
    floats = (name for name in lost if expected[name].is_floating_point())
    unknown = {name: torch.full_like(expected[name], torch.nan) for name in floats}
    network.load_state_dict({**expected, **taken, **unknown})
    if prefix:
        others = len(state) - len(bare)
        ending = f"; {counted(others, 'tensor')} without it left out" if others else ""
        say(f"weights: the names begin with {prefix!r}, which is taken away{ending}")
    if misfits.names:
        say(f"weights: a head that is not this network's is left out ({misfits})")


def under_prefix(state: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors of a part of a state dict.

    Args:
        state: tensors by name.
        prefix: what the names of the part begin with; "" takes all.

    Returns:
        The part's tensors, by the rest of their names.
    """
    return {
        name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)
    }


def prefixes_before(state: Mapping[str, Tensor], name: str) -> list[str]:
    """What stands before a name in a state dict, wherever the name occurs.

    Args:
        state: tensors by name.
        name: the end of some of its names, such as `fc.weight`.

    Returns:
        "" for the name itself, and prefixes that end in a dot, such as `module.`.
    """
    found = (key.removesuffix(name) for key in state if key.endswith(name))
    return [prefix for prefix in found if not prefix or prefix.endswith(".")]


def _prefix_of(expected: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> str:
    """The prefix under which a state dict has all of a network but perhaps its head; "" where none
    does. BackboneError where several do."""
    body = [name for name in expected if not _is_of_head(name)]
    prefixes = prefixes_before(state, body[0]) if body else []
    whole = [
        prefix
        for prefix in prefixes
        if all(map(_is_of_head, Misfits.of(expected, under_prefix(state, prefix)).names))
    ]
    if len(whole) > 1:
        raise BackboneError(
            f"the state dict has the model several times, under {listing(map(repr, whole))}; save "
            f"one: torch.save({{k.removeprefix({whole[0]!r}): v for k, v in state.items() "
            f"if k.startswith({whole[0]!r})}}, path)"
        )
    return whole[0] if whole else ""


def _is_of_head(name: str) -> bool:
    return name.partition(".")[0] in HEADS


def imagenet_state(model: str) -> dict[str, Tensor]:
    """The published ImageNet weights of a torchvision classifier, from torch's cache or the web."""
    url = published_weights(model).url
    name = url.rsplit("/", 1)[1]
    digest = re.search(r"-([0-9a-f]{8,})\.", name)
    return read_state_dict(_cached_file(url, name, digest[1] if digest else None))


def timm_state(model: str) -> dict[str, Tensor]:
    """The published weights of one of timm's networks, from torch's cache or the Hugging Face hub:
    files of safetensors alone, which timm reads, as some have the names of other programs."""
    published = timm_networks.published_file(model)
    if published is None:
        raise _unpublished(model)
    url, name = published
    path = _cached_file(url, name, None)
    read_state_dict(path)  # a damaged file is told from one that does not fit
    try:
        with torch.random.fork_rng(devices=[]):
            return timm_networks.build(model, str(path)).state_dict()
    except (RuntimeError, KeyError, ValueError) as error:
        if ran_out_of_memory(error):
            raise
        raise WorkbenchError(
            f"{path}: not the weights of {model}: {first_line(error)}",
            f"delete it and fetch it again from {url}",
        ) from None


def _cached_file(url: str, name: str, digest: str | None) -> Path:
    """A file in torch's cache, fetched where it is not there yet; digest: what its SHA-256 begins
    with, None where its publisher does not say."""
    path = Path(torch.hub.get_dir()) / "checkpoints" / name
    if path.is_file():
        if digest and not sha256_file(path).startswith(digest):
            raise WorkbenchError(
                f"{path}: damaged: its SHA-256 does not begin with {digest}",
                f"delete it and fetch it again from {url}",
            )
        return path
    say(f"fetching {url}")
    path.parent.mkdir(parents=True, exist_ok=True)
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(CONNECT_SECONDS)
    try:
        torch.hub.download_url_to_file(url, str(path), digest, progress=False)
    except (URLError, OSError, RuntimeError) as error:
        raise WorkbenchError(
            f"{path.name} is not on this machine and cannot be fetched: {first_line(error)}",
            f"download {url} and put it into {path.parent} as {path.name}, or set weights to "
            "random or to the path of a state dict",
        ) from None
    finally:
        socket.setdefaulttimeout(before)
    return path
