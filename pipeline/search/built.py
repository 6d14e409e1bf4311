"""Indexes of a score file's embeddings on the disk, with what says that they belong to it.

A folder holds a file of faiss for the images and one for the captions of each split, and
index.json, written last: what they were built from and with, their digests, and their recall
against exact search. Ids and vectors are those of the score file, whose digests are named.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import ValidationError

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import fingerprint, sha256_file, write_json
from pipeline.runtime.section import Count, Natural, Section, Share
from pipeline.search.approximate import (
    Parameters,
    build,
    library,
    needed,
    one_thread,
    opened,
    write,
)
from pipeline.search.index import KINDS, SHORTLIST, Index, read_index
from pipeline.search.params import HNSWConfig, IVFPQConfig, SearchConfig
from pipeline.search.recall import recalls
from pipeline.storage.groups import GroupFile

NAME = "index.json"
FORMAT = 1
MAX_BYTES = 1 << 20  # of index.json
QUERIES = 1000  # recall is measured with, at most
MADE_FROM = ("checkpoint_sha256", "images_sha256", "captions_sha256")  # as the score file says
WHAT = {
    "model": "its model",
    "index": "its kind",
    "checkpoint_sha256": "the digest of its model's weights",
    "images_sha256": "the digest of its corpus's images",
    "captions_sha256": "the digest of its corpus's captions",
    "parameters": "what it was built with",
}


class Part(Section):
    """One index, of `number` vectors of a width.

    ids_sha256 and embeddings_sha256 are of the datasets in the score file, sha256 of the index.
    Recall was measured with so many `queries` of the other kind: the share whose nearest is found,
    and the mean share of the ten nearest that are found.
    """

    split: str
    kind: Literal["image", "caption"]
    number: Count
    width: Count
    ids_sha256: str
    embeddings_sha256: str
    sha256: str
    queries: Count
    recall_at_1: Share
    recall_at_10: Share


class IndexDescription(Section):
    """What index.json says.

    `shortlist` is how many the index was asked for when recall was measured; `exact` names sets
    with too few vectors for such an index, which exact search takes.
    """

    format: Literal[1]
    model: str
    checkpoint_sha256: str
    images_sha256: str
    captions_sha256: str
    index: Literal["hnsw", "ivf_pq"]
    parameters: HNSWConfig | IVFPQConfig
    seed: Natural
    faiss: str
    shortlist: Count
    parts: list[Part]
    exact: list[str]


def write_indexes(
    folder: Path, scores: Path, model: str, settings: SearchConfig, seed: int
) -> IndexDescription:
    """Build the indexes of all embeddings in a score file; equal embeddings give equal bytes.

    WorkbenchError for scores of another model or without embeddings, or sets all too small.
    """
    file = GroupFile(scores)
    if file.attributes.get("model") != model:
        raise WorkbenchError(f"{scores}: not scores of {model}")
    made_from = {name: str(file.attributes.get(name, "")) for name in MADE_FROM}
    (folder / NAME).unlink(
        missing_ok=True
    )  # that of an earlier build describes no half of this one
    least, parts, exact = needed(settings.parameters), [], []
    for split in sorted(file.layouts):
        sides = {
            kind: read_index(scores, split, kind, made_from["checkpoint_sha256"]) for kind in KINDS
        }
        for kind, other in zip(KINDS, reversed(KINDS), strict=True):
            name, vectors = f"{split}_{kind}", sides[kind].embeddings
            if len(vectors) < least:
                exact.append(name)
                continue
            path = folder / f"{name}.faiss"
            write(build(vectors, settings.parameters, seed), path)
            queries = drawn(sides[other].embeddings, seed)
            described = {"split": split, "kind": kind, **digests(file, split, kind)}
            parts.append(described | _measured(path, sides[kind], queries, settings.parameters))
    if not parts:
        raise WorkbenchError(
            f"{scores}: {settings.index} needs {least:,} vectors, and every set has fewer",
            "set search.index to hnsw, or to flat, which is fast for so few",
        )
    content = {
        "format": FORMAT,
        "model": model,
        **made_from,
        "index": settings.index,
        "parameters": settings.parameters.model_dump(),
        "seed": seed,
        "faiss": library().__version__,
        "shortlist": SHORTLIST,
        "parts": parts,
        "exact": exact,
    }
    said = IndexDescription.model_validate(content)
    write_json(folder / NAME, content | {"sha256": fingerprint(**content)})
    return said


def _measured(
    path: Path, exact: Index, queries: np.ndarray, parameters: Parameters
) -> dict[str, Any]:
    """Of an index that was just written: its sizes, digest and recall, by the names of a Part."""
    number, width = exact.embeddings.shape
    found = replace(exact, nearest=opened(path, number, width, parameters))
    with one_thread():
        one, ten = recalls(found, queries, [1, 10])
    return {
        "number": number,
        "width": width,
        "sha256": sha256_file(path),
        "queries": len(queries),
        "recall_at_1": round(one, 4),
        "recall_at_10": round(ten, 4),
    }


def drawn(vectors: np.ndarray, seed: int) -> np.ndarray:
    """Queries (Q, K) to measure recall with: some of N vectors (N, K), by the seed."""
    count = min(len(vectors), QUERIES)
    rows = np.random.default_rng(seed).choice(len(vectors), count, replace=False)
    return vectors[np.sort(rows)]


def digests(file: GroupFile, split: str, kind: str) -> dict[str, str]:
    """Of the ids and vectors that an index's rows stand for, by the names of a Part."""
    names = {"ids_sha256": f"{kind}_ids", "embeddings_sha256": f"{kind}_embeddings"}
    return {key: str(file.layouts[split][name].sha256) for key, name in names.items()}


class BuiltIndexes:
    """A folder of `write_indexes`; WorkbenchError if it does not fit score file or settings."""

    def __init__(self, folder: Path, scores: Path, model: str, settings: SearchConfig) -> None:
        self.folder, self.file, self.settings = folder, GroupFile(scores), settings
        self.remedy = f"build it again: dvc repro build_index@{model}"
        said = self._read(folder / NAME)
        wanted = {name: self.file.attributes.get(name, "") for name in MADE_FROM}
        wanted |= {"model": model, "index": settings.index}
        given = said.model_dump()
        for name, value in [*wanted.items(), ("parameters", settings.parameters.model_dump())]:
            if given[name] != value:
                raise WorkbenchError(
                    f"{folder / NAME}: {WHAT[name]} is {told(given[name])}, not {told(value)}",
                    self.remedy,
                )
        self.parts = {f"{part.split}_{part.kind}": part for part in said.parts}

    def attached(self, index: Index, split: str, kind: str) -> Index:
        """An exact index with the built one that finds its nearest, where there is one."""
        part = self.parts.get(f"{split}_{kind}")
        if part is None:
            return index
        path, shape = self.folder / f"{split}_{kind}.faiss", (part.number, part.width)
        own = digests(self.file, split, kind)
        if any(getattr(part, name) != value for name, value in own.items()):
            raise WorkbenchError(f"{path}: an index of other {kind} embeddings", self.remedy)
        if not path.is_file() or sha256_file(path) != part.sha256:
            raise WorkbenchError(f"{path}: missing or damaged: not the file built", self.remedy)
        return replace(index, nearest=opened(path, *shape, self.settings.parameters))

    def _read(self, path: Path) -> IndexDescription:
        try:
            if path.stat().st_size > MAX_BYTES:
                raise ValueError("too large")
            content = json.loads(path.read_bytes())
            recorded = content.pop("sha256")
            if recorded != fingerprint(**content):
                raise ValueError("its sha256 is another")
            return IndexDescription.model_validate_json(json.dumps(content))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            fault = "not what was written" if isinstance(error, ValidationError) else error
            raise WorkbenchError(f"{path}: damaged: {fault}", self.remedy) from None


def told(value: object) -> str:
    text = str(value)
    return f"{text[:12]}..." if len(text) == 64 else text
