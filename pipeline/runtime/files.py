"""Files that are whole or absent, and digests that say what they were made from.

Every artefact is written to a temporary name beside its target, fsynced and renamed, so that a
kill at any moment leaves either the old file or the new one.
"""

import ast
import fcntl
import glob
import hashlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from pipeline.runtime.disk import require_room, written
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.yaml_text import plain_yaml

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("pipeline", "models", "stages")
_LOADED = (*PACKAGES, "__main__")


@contextmanager
def atomic_path(target: Path | str, size: int = 0) -> Iterator[Path]:
    """Yield a temporary path beside `target`; on success fsync it and rename it to `target`.

    On an exception the temporary file is removed and `target` is untouched. Temporary files of the
    same target that a killed process left are removed, too.

    Args:
        target: the file; its folder is made.
        size: bytes it will have at least, 0 for not known.

    Raises:
        WorkbenchError: what the operating system refused, and a disk without room for `size`.
    """
    target = Path(target)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.part")
    with written(target, temporary, size):
        make_folder(target.parent)
        require_room(target, size)
        _remove_leftovers(target)
        # Locked as long as it is written: what is not locked was left by a kill.
        with open(temporary, "wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)
            try:
                yield temporary
                publish(temporary, target)
            finally:
                temporary.unlink(missing_ok=True)


def _remove_leftovers(target: Path) -> None:
    for leftover in target.parent.glob(f".{glob.escape(target.name)}.*.part"):
        with suppress(FileNotFoundError), open(leftover, "rb") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue  # another process is writing it
            leftover.unlink()


def publish(finished: Path, target: Path) -> None:
    """Move a finished file to its final name so that it survives a power cut, atomically."""
    with open(finished, "rb+") as handle:
        os.fsync(handle.fileno())
    make_folder(target.parent)
    os.replace(finished, target)
    _bring_to_disk(target.parent)


def make_folder(folder: Path) -> None:
    """Make a folder and those above it that are missing, so that they survive a power cut."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for path in missing:
        _bring_to_disk(path.parent)


def _bring_to_disk(folder: Path) -> None:
    """Bring the names in a folder to the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_text(target: Path | str, text: str) -> None:
    """Write UTF-8 text atomically."""
    write_bytes(target, text.encode("utf-8"))


def write_bytes(target: Path | str, content: bytes | memoryview) -> None:
    """Write bytes that are in memory atomically."""
    with atomic_path(target, len(content)) as temporary:
        temporary.write_bytes(content)


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
    """SHA-256 over the names and contents of `source_files`.

    Part of every resume fingerprint: work begun by other code must not be continued by this code.
    """
    digest = hashlib.sha256()
    for file in sorted(source_files()):
        digest.update(f"{file.relative_to(ROOT)}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()


def source_files() -> set[Path]:
    """The first-party files that this process has loaded, and all that these import anywhere.

    Files and not modules, since the stage that runs is `__main__`. Imports are read from the
    sources, so that one inside a function counts before it is executed, and so does the entry of a
    registry, a string that names a module. A name put together at run time counts once its module
    is loaded, as a model's is by `prepare`. All files of the project would be as safe, but then a
    better drawing would begin a long training again.
    """
    modules = [sys.modules[n] for n in list(sys.modules) if n.split(".")[0] in _LOADED]
    sources = (getattr(module, "__file__", None) for module in modules)
    queue = {Path(source).resolve() for source in sources if source}
    found: set[Path] = set()
    while queue:
        file = queue.pop()
        if file.is_relative_to(ROOT) and file.relative_to(ROOT).parts[0] in PACKAGES:
            found.add(file)
            queue |= _imported(file) - found
    return found


def _imported(file: Path) -> set[Path]:
    """First-party files executed by the imports in a file, those in functions and strings too."""
    files: set[Path] = set()
    for parts in _modules(file.read_bytes()):
        paths = [ROOT.joinpath(*parts[: depth + 1]) for depth in range(len(parts))]
        files.update(path / "__init__.py" for path in paths)  # executed before what is in it
        files.add(paths[-1].with_suffix(".py"))
    return {path for path in files if path.is_file()}


@cache  # a process that runs several stages, as tests do, would parse most sources many times
def _modules(source: bytes) -> frozenset[tuple[str, ...]]:
    """The parts of first-party names in a source that may be modules: imports and strings."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names.add(node.value.partition(":")[0])  # module:name
    split = (tuple(name.split(".")) for name in names)
    return frozenset(
        parts for parts in split if parts[0] in PACKAGES and all(map(str.isidentifier, parts))
    )


def _jsonable(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"cannot fingerprint a {type(value).__name__}")


UNDO = "undo with: touch params.yaml && git checkout params.yaml"
COMPLETE = "keys that params.yaml lacks are added with: vse complete"


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML 1.2 file as plain values; WorkbenchError when it cannot be parsed."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise WorkbenchError(f"{path}: no such file", "run from the repository's root") from None
    except UnicodeDecodeError as error:
        raise WorkbenchError(f"{path}: not UTF-8 text (byte {error.start})", UNDO) from None
    values = plain_yaml(text, str(path), UNDO)
    if not isinstance(values, dict):
        raise WorkbenchError(f"{path}: expected a mapping of parameters at the top level", UNDO)
    return values
