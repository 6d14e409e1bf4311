"""Weights of image networks from files: checked, never unpickled, fetched only when asked for."""

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
from torch import Tensor

from models.backbone import timm_networks
from models.backbone.networks import NETWORKS
from models.backbone.preprocessing import published_weights
from pipeline.runtime.errors import WorkbenchError, first_line
from pipeline.runtime.files import sha256_file
from pipeline.runtime.process import say

CONNECT_SECONDS = 10.0
NESTED = ("model", "state_dict")  # where checkpoints of other programs have their state dict
SAVE = "save the state dict itself with: torch.save(model.state_dict(), path)"
CONVERT = (
    "pickled arrays run code when they are read, so convert them yourself, if you trust the file: "
    "import pickle, torch, safetensors.torch as s; w = pickle.load(open('in.pkl', 'rb'), "
    "encoding='latin1'); s.save_file({k: torch.tensor(v) for k, v in w.get('model', w).items()}, "
    "'out.safetensors')"
)


def published_state(model: str, weights: str) -> dict[str, Tensor] | None:
    """The state dict for `weights`: imagenet or a file's path; None for random."""
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
    """Name -> tensor from a .safetensors file or a state dict saved with torch.save, also under
    `model` or `state_dict`. Only tensors and plain values are read (`weights_only`)."""
    path = Path(path)
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise WorkbenchError(f"{path}: no such weights file") from None
    except PermissionError:
        raise
    except (SafetensorError, OSError, MemoryError) as error:
        raise WorkbenchError(f"{path}: not readable as weights: {first_line(error)}") from None
    except Exception as error:  # torch's unpickler raises nearly any type on damaged files
        # torch's own words on this advise to open the file all the same.
        unsafe = isinstance(error, UnpicklingError)
        why = "damaged, or it holds other things than tensors" if unsafe else first_line(error)
        hint = CONVERT if path.suffix == ".pkl" else SAVE
        raise WorkbenchError(f"{path}: not a plain state dict: {why}", hint) from None
    if isinstance(state, Mapping):
        inner = [state[key] for key in NESTED if _holds_tensors(state.get(key))]
        state = inner[0] if len(inner) == 1 else state
    if not _holds_tensors(state):
        kind = type(state).__name__
        raise WorkbenchError(f"{path}: holds a {kind} of other things than tensors", SAVE)
    return {str(name): value for name, value in state.items()}


def _holds_tensors(state: Any) -> bool:
    return isinstance(state, Mapping) and all(isinstance(v, Tensor) for v in state.values())


def imagenet_state(model: str) -> dict[str, Tensor]:
    """The published ImageNet weights of a torchvision classifier, from torch's cache or the web."""
    url = published_weights(model).url
    path = Path(torch.hub.get_dir()) / "checkpoints" / url.rsplit("/", 1)[1]
    expected = re.search(r"-([0-9a-f]{8,})\.", path.name)
    if not path.is_file():
        _download(url, path, expected[1] if expected else None)
    elif expected and not sha256_file(path).startswith(expected[1]):
        raise WorkbenchError(
            f"{path}: damaged: its SHA-256 does not begin with {expected[1]}",
            f"delete it and fetch it again from {url}",
        )
    return read_state_dict(path)


def timm_state(model: str) -> dict[str, Tensor]:
    """The published weights of one of timm's networks, from torch's cache or the Hugging Face hub:
    files of safetensors alone, which timm reads, as some have the names of other programs."""
    published = timm_networks.published_file(model)
    if published is None:
        raise _unpublished(model)
    url, name = published
    path = Path(torch.hub.get_dir()) / "checkpoints" / name
    if not path.is_file():
        _download(url, path, None)
    read_state_dict(path)  # a damaged file is told from one that does not fit
    try:
        with torch.random.fork_rng(devices=[]):
            return timm_networks.build(model, str(path)).state_dict()
    except (RuntimeError, KeyError, ValueError) as error:
        raise WorkbenchError(
            f"{path}: not the weights of {model}: {first_line(error)}",
            f"delete it and fetch it again from {url}",
        ) from None


def _download(url: str, path: Path, hash_prefix: str | None) -> None:
    say(f"fetching {url}")
    path.parent.mkdir(parents=True, exist_ok=True)
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(CONNECT_SECONDS)
    try:
        torch.hub.download_url_to_file(url, str(path), hash_prefix, progress=False)
    except (URLError, OSError, RuntimeError) as error:
        raise WorkbenchError(
            f"{path.name} is not on this machine and cannot be fetched: {first_line(error)}",
            f"download {url} and put it into {path.parent} as {path.name}, or set weights to "
            "random or to the path of a state dict",
        ) from None
    finally:
        socket.setdefaulttimeout(before)
