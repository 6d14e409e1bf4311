"""Files of weights that we write: safetensors with one entry of metadata and a digest over both."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from pipeline.runtime.errors import WorkbenchError, first_line, listing
from pipeline.runtime.files import write_bytes
from pipeline.runtime.first_bytes import stand_in

KEY = "vse_workbench"


def write_weights(
    path: Path | str, weights: Mapping[str, torch.Tensor], entry: Mapping[str, Any]
) -> None:
    """Write weights and `entry`, JSON-able, atomically; the same content gives the same bytes."""
    tensors = {name: value.detach().cpu().contiguous() for name, value in weights.items()}
    text = as_text({**entry, "sha256": content_digest(entry, tensors)})
    # safetensors' own writer names neither what failed nor the file
    write_bytes(path, save(tensors, {KEY: text}))


def read_weights(
    path: Path | str, kind: str, schema_version: int
) -> tuple[dict[str, Any], dict[str, torch.Tensor], str]:
    """Entry, weights on the CPU, and the digest over both. kind: what the file should be. Raises
    WorkbenchError for a missing, damaged or foreign file, and for weights that are not finite."""
    path = Path(path)
    if not path.is_file():
        raise WorkbenchError(f"{path}: no such {kind}", "make it with: dvc repro")
    other = stand_in(path)
    if other is not None:
        raise other
    try:
        with safe_open(path, framework="pt") as file:
            entry = json.loads((file.metadata() or {}).get(KEY, "null"))
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, ValueError, RecursionError) as error:
        raise damaged(path, first_line(error), kind) from None
    if not isinstance(entry, dict):
        raise damaged(path, f"no metadata under {KEY!r}", kind)
    digest = entry.pop("sha256", None)
    if entry.get("schema_version") != schema_version:
        version = entry.get("schema_version")
        raise damaged(path, f"schema_version {version}, not {schema_version}", kind)
    if digest != content_digest(entry, weights):
        raise damaged(path, "its content does not match its sha256", kind)
    broken = [name for name, value in weights.items() if not torch.isfinite(value).all()]
    if broken:
        raise damaged(path, f"NaN or infinity in {listing(broken)}", kind)
    return entry, weights, digest


def content_digest(entry: Mapping[str, Any], weights: Mapping[str, torch.Tensor]) -> str:
    """SHA-256 over metadata and weights: safetensors has no checksum of its own."""
    digest = hashlib.sha256(as_text(entry).encode())
    for name, value in sorted(weights.items()):
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}\0".encode())
        digest.update(value.contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def as_text(entry: Mapping[str, Any]) -> str:
    return json.dumps(entry, sort_keys=True, allow_nan=False)


def damaged(path: Path, why: str, kind: str = "checkpoint") -> WorkbenchError:
    """The error for a file that cannot be used as what it should be, its `kind`."""
    return WorkbenchError(f"{path}: damaged or foreign {kind}: {why}", "make it again: dvc repro")
