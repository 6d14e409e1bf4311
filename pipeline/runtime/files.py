"""Files that are whole or absent, and digests that say what they were made from.

Every artefact is written to a temporary name beside its target, fsynced and renamed, so that a
kill at any moment leaves either the old file or the new one.
"""

import hashlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from pipeline.runtime.errors import WorkbenchError

# Editing these changes how a program is run or what it prints, never what it computes.
INFRASTRUCTURE = (
    "pipeline.runtime.errors",
    "pipeline.runtime.files",
    "pipeline.runtime.process",
    "pipeline.runtime.section",
)


@contextmanager
def atomic_path(target: Path | str) -> Iterator[Path]:
    """Yield a temporary path beside `target`; on success fsync it and rename it to `target`.

    On an exception the temporary file is removed and `target` is untouched.
    """
    target = Path(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        yield temporary
        publish(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def publish(finished: Path, target: Path) -> None:
    """Move a finished file to its final name so that it survives a power cut, atomically."""
    with open(finished, "rb+") as handle:
        os.fsync(handle.fileno())
    target.parent.mkdir(parents=True, exist_ok=True)
    os.replace(finished, target)
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write_text(target: Path | str, text: str) -> None:
    """Write UTF-8 text atomically."""
    with atomic_path(target) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(target: Path | str, value: Any) -> None:
    """Write indented JSON atomically, keys in the given order, NaN refused."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    write_text(target, text + "\n")


def sha256_file(path: Path | str) -> str:
    """SHA-256 of a file's bytes as lower-case hex."""
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def fingerprint(**parts: Any) -> str:
    """SHA-256 hex over JSON-able parts (params, digests of inputs), the same for equal values."""
    text = json.dumps(parts, sort_keys=True, allow_nan=False, default=_jsonable)
    return hashlib.sha256(text.encode()).hexdigest()


def source_digest() -> str:
    """SHA-256 over the first-party source files loaded in this process, infrastructure apart.

    Part of every resume fingerprint: work begun by other code must not be continued by this code.
    """
    digest = hashlib.sha256()
    for name, module in sorted(sys.modules.items()):
        source = getattr(module, "__file__", None)
        if name.split(".")[0] in ("pipeline", "models") and name not in INFRASTRUCTURE and source:
            digest.update(name.encode() + b"\0" + Path(source).read_bytes() + b"\0")
    return digest.hexdigest()


def _jsonable(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"cannot fingerprint a {type(value).__name__}")


UNDO = "undo with: touch params.yaml && git checkout params.yaml"


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML 1.2 file as plain values; WorkbenchError when it cannot be parsed."""
    try:
        values = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise WorkbenchError(f"{path}: no such file", "run from the repository's root") from None
    except UnicodeDecodeError as error:
        raise WorkbenchError(f"{path}: not UTF-8 text (byte {error.start})", UNDO) from None
    except MarkedYAMLError as error:
        mark = error.problem_mark
        place = f", line {mark.line + 1}" if mark else ""
        raise WorkbenchError(f"{path}{place}: not valid YAML: {error.problem}", UNDO) from None
    except (YAMLError, RecursionError, ValueError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise WorkbenchError(f"{path}: not valid YAML: {first}", UNDO) from None
    if not isinstance(values, dict):
        raise WorkbenchError(f"{path}: expected a mapping of parameters at the top level", UNDO)
    return values
