"""Whichever reader the files of a folder were made for."""

from dataclasses import replace
from itertools import islice
from pathlib import Path

from pipeline.dataset import READERS
from pipeline.dataset.source import Options, Source, require_folder
from pipeline.runtime.errors import WorkbenchError, listing

LOOKED_AT = 100_000  # files of a folder below which a sign is looked for


def read(raw: Path, out: Path, options: Options) -> Source:
    """Read `raw` by the one reader whose files (its SIGNS) are there, and say which it is."""
    require_folder(raw)
    matches = {name: file for name in READERS if (file := _sign(raw, name)) is not None}
    if len(matches) > 1:
        several = listing(f"{file} ({name})" for name, file in matches.items())
        raise WorkbenchError(
            f"{raw}: could be of several kinds: {several}",
            f"set dataset in params.yaml to {' or '.join(matches)}",
        )
    if not matches:
        signs = listing((sign for reader in READERS for sign in _signs(reader)), 100)
        raise WorkbenchError(
            f"{raw}: no captions that are known by their file's name; looked for {signs}",
            "write captions.txt with lines image,caption there, or name the kind with dataset",
        )
    ((name, file),) = matches.items()
    source: Source = READERS.load(name)(raw, out, options)
    return replace(source, remarks=(f"dataset: {name}, because of {file}", *source.remarks))


def _signs(reader: str) -> tuple[str, ...]:
    return tuple(READERS.constant(reader, "SIGNS", ()))


def _sign(raw: Path, name: str) -> str | None:
    """The first file in `raw` that is a sign of the reader, as a path inside it."""
    for sign in _signs(name):
        files = (path for path in islice(raw.glob(sign), LOOKED_AT) if path.is_file())
        if (first := min(files, default=None)) is not None:
            return first.relative_to(raw).as_posix()
    return None
