"""State of an interrupted training, with the optimiser and the random generators, so that it ends
as if it had not been interrupted. It lies outside DVC's outputs, belongs to a fingerprint of
everything that decides the result, and is deleted at the end."""

import hashlib
import io
import random
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pipeline.runtime.code import code_digest
from pipeline.runtime.files import atomic_path, fingerprint
from pipeline.runtime.kernels import loaded_kernels
from pipeline.runtime.process import say

DIGEST_BYTES = 32


class ResumeFolder:
    """Where one training keeps its unfinished work: a folder for each part that it trains in turn.

    Args:
        work: Folder of all unfinished work.
        name: Of the model.
        params: What decides the weights, of params.yaml.
        inputs: Digests of what it reads.
        device: That it runs on.
        threads: Of the CPU, which decide the last bits.
    """

    def __init__(
        self,
        work: Path,
        name: str,
        params: Mapping[str, Any],
        inputs: Mapping[str, str],
        device: torch.device,
        threads: int,
    ) -> None:
        decides = {
            "model": name,
            "params": params,
            "inputs": inputs,
            "source": code_digest(),
            "torch": torch.__version__,
            "device": device.type,
            "threads": threads,
            "kernels": loaded_kernels(),
        }
        # digests by what they are of, to say in which way two processes differ
        self.digests = {what: fingerprint(value=value) for what, value in decides.items()}
        self.key = fingerprint(**decides)
        self.folder = work / f"train-{name}-{self.key[:16]}"
        self.files: list[ResumeFile] = []

    def open(self, part: str) -> "ResumeFile":
        """The state of a part; "" for a model that is trained as a whole."""
        folder = self.folder.with_name(f"{self.folder.name}-{part}") if part else self.folder
        file = ResumeFile(folder, self.key)
        self.files.append(file)
        return file

    def remove(self) -> None:
        """Remove all states: the training is over."""
        for file in self.files:
            file.remove()


class ResumeFile:
    """One file of resumable state, written once in `interval` seconds at most.

    Args:
        folder: Where it lies, as state.pt; it is made when the state is first written.
        fingerprint: Of all that decides the result; a state with another one is not used.
        interval: Seconds between two writings; what a kill may cost.
    """

    def __init__(self, folder: Path, fingerprint: str, interval: float = 30.0) -> None:
        self.path = folder / "state.pt"
        self.fingerprint = fingerprint
        self.interval = interval
        self.written = time.monotonic()

    def due(self) -> bool:
        return time.monotonic() - self.written >= self.interval

    def save(self, state: dict[str, Any]) -> None:
        """Write tensors and plain values, with a digest: torch checks no checksum on reading."""
        buffer = io.BytesIO()
        torch.save({"fingerprint": self.fingerprint, "state": state}, buffer)
        payload = buffer.getbuffer()
        size = DIGEST_BYTES + len(payload)
        with atomic_path(self.path, size) as temporary, open(temporary, "wb") as file:
            file.write(hashlib.sha256(payload).digest())
            file.write(payload)
        self.written = time.monotonic()

    def load(self) -> dict[str, Any] | None:
        """The state, or None when there is none or none that can be used; the latter is said."""
        if not self.path.exists():
            return None
        content = self.path.read_bytes()
        digest = content[:DIGEST_BYTES]
        payload = content[DIGEST_BYTES:]
        if hashlib.sha256(payload).digest() != digest:
            return self._discard("is damaged")
        saved = torch.load(io.BytesIO(payload), map_location="cpu", weights_only=True)
        if saved["fingerprint"] != self.fingerprint:
            return self._discard("belongs to another training")
        state: dict[str, Any] = saved["state"]
        return state

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
        for leftover in self.path.parent.glob(f".{self.path.name}.*.part"):
            leftover.unlink()
        if self.path.parent.exists():
            self.path.parent.rmdir()

    def _discard(self, why: str) -> dict[str, Any] | None:
        say(f"{self.path} {why}: discarded, training starts from the beginning")
        self.path.unlink()
        return None


def random_states() -> dict[str, Any]:
    """States of the generators of python, numpy and torch, as values torch.load takes back."""
    kind, keys, *rest = np.random.get_state(legacy=True)  # noqa: NPY002
    version, internal, gauss = random.getstate()
    return {
        "python": [version, list(internal), gauss],
        "numpy": [kind, torch.from_numpy(np.asarray(keys, np.int64)), *rest],
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else [],
    }


def restore_random_states(states: dict[str, Any]) -> None:
    version, internal, gauss = states["python"]
    random.setstate((version, tuple(internal), gauss))
    kind, keys, *rest = states["numpy"]
    np.random.set_state((kind, keys.numpy().astype(np.uint32), *rest))  # noqa: NPY002
    torch.set_rng_state(states["torch"])
    if states["cuda"]:
        torch.cuda.set_rng_state_all(states["cuda"])
