"""Files of weights: safetensors with one entry of metadata, a JSON text, and a digest over both.

safetensors has no checksum of its own. Checkpoints, image networks and detectors are such files,
told apart by what their entry says.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from pipeline.runtime.errors import WorkbenchError, first_line, listing, other_version
from pipeline.runtime.files import write_bytes
from pipeline.runtime.first_bytes import stand_in

KEY = "vse_workbench"
MAKE_AGAIN = "make it again: dvc repro"


def write_weights(
    path: Path | str, weights: Mapping[str, torch.Tensor], entry: Mapping[str, object]
) -> None:
    """Write weights and what describes them, atomically; the same content gives the same bytes.

    Args:
        path: of the file.
        weights: tensors by name, on any device.
        entry: JSON-able, with `schema_version`; the digest is added to it.

    Raises:
        WorkbenchError: where the disk has no room or refuses the file.
    """
    tensors = {name: value.detach().cpu().contiguous() for name, value in weights.items()}
    text = as_text({**entry, "sha256": content_digest(entry, tensors)})
    # safetensors' own writer names neither what failed nor the file
    write_bytes(path, save(tensors, {KEY: text}))


def read_weights(
    path: Path | str, kind: str, schema_version: int
) -> tuple[dict[str, Any], dict[str, torch.Tensor], str]:
    """Read what `write_weights` wrote, and check it.

    Args:
        path: of the file.
        kind: what the file should be, for messages: "checkpoint".
        schema_version: the one that its entry must have.

    Returns:
        The entry without its digest, the weights on the CPU, and the digest, SHA-256 as hex.

    Raises:
        WorkbenchError: for a missing, damaged or foreign file, and for weights that are not finite.
    """
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
    version = entry.get("schema_version")
    if version != schema_version:
        raise other_version(path, version, schema_version, MAKE_AGAIN)
    if digest != content_digest(entry, weights):
        raise damaged(path, "its content does not match its sha256", kind)
    broken = [name for name, value in weights.items() if not torch.isfinite(value).all()]
    if broken:
        raise damaged(path, f"NaN or infinity in {listing(broken)}", kind)
    return entry, weights, digest


def content_digest(entry: Mapping[str, object], weights: Mapping[str, torch.Tensor]) -> str:
    """The digest over metadata and weights.

    Args:
        entry: the metadata without its digest.
        weights: tensors on the CPU, by name.

    Returns:
        SHA-256 as lower-case hex; names, types and shapes count, the order does not.
    """
    digest = hashlib.sha256(as_text(entry).encode())
    for name, value in sorted(weights.items()):
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}\0".encode())
        digest.update(value.contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def as_text(entry: Mapping[str, object]) -> str:
    """The entry as the JSON text of the file, the same for equal entries."""
    return json.dumps(entry, sort_keys=True, allow_nan=False)


def damaged(path: Path, why: str, kind: str = "checkpoint") -> WorkbenchError:
    """The error for a file that cannot be used as what it should be.

    Args:
        path: the file, with which the message begins.
        why: what is wrong with it, a clause without a full stop.
        kind: what it should be.

    Returns:
        The error, to be raised; its hint says how to make the file again.
    """
    return WorkbenchError(f"{path}: damaged or foreign {kind}: {why}", MAKE_AGAIN)
