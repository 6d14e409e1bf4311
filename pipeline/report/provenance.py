"""The parameters of a run as plain lines, without dates, hosts or paths; versions; its commit."""

import hashlib
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path, PurePath

from pipeline.runtime.yaml_text import plain_text

LEFT_OUT = ("runtime",)  # where a run took place, not what it computed


def parameters(values: Mapping[str, object]) -> dict[str, str]:
    """params.yaml as key -> value, keys joined by dots, absolute paths cut to their last part."""
    return dict(_flat("", {key: part for key, part in values.items() if key not in LEFT_OUT}))


def versions() -> dict[str, str]:
    """Versions of what computes: they are of the process that writes the page."""
    python = ".".join(map(str, sys.version_info[:2]))
    return {"python": python} | {name: version(name) for name in ("torch", "torchvision", "numpy")}


def commit_query(output: Path) -> str:
    """The command that finds the commit which recorded an output, and its date. A page cannot name
    them: it is written before the commit, and equal inputs give equal bytes at any commit."""
    digest = hashlib.md5(output.read_bytes(), usedforsecurity=False).hexdigest()  # as in dvc.lock
    return f"git log --all --reverse --format='%h %cs' -S{digest} -- dvc.lock"


def _flat(prefix: str, values: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(f"{prefix}{key}.", value)
        else:
            place = PurePath(value) if isinstance(value, str) else PurePath()
            yield f"{prefix}{key}", place.name if place.is_absolute() else plain_text(value)
