"""Inputs of every parser of files from outside: refused or read, in bounded time and memory.

A parser gets a good file that was changed here and there; what is refused must be refused by a
WorkbenchError.
"""

import base64
import faulthandler
import io
import json
import random
import resource
import shutil
import signal
from collections.abc import Callable, Iterable
from contextlib import redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import h5py
import numpy as np
import pandas as pd
import torch
from gensim.models import KeyedVectors
from scipy.io import savemat

from models.backbone.weights import read_state_dict
from pipeline.corpus.dataset.rows import RowFormat, find_columns, read_rows
from pipeline.corpus.dataset.table import read_captions
from pipeline.corpus.readers import (
    coco_captions,
    cuhk_pedes,
    image_beside_text,
    karpathy_json,
    name_lists,
    parquet_shards,
    records_json,
    save_to_disk,
)
from pipeline.corpus.readers.shapes.world import load_world
from pipeline.corpus.readers.webdataset import DamagedTar, read_members
from pipeline.corpus.words.vectors import read_vectors
from pipeline.evaluation.matrix_file import open_matrix
from pipeline.features.arrays.ids import text_ids
from pipeline.features.imports import Wanted
from pipeline.features.regions.imports.butd_h5 import ButdRegions
from pipeline.features.regions.imports.tsv import TsvRegions
from pipeline.features.regions.source import ImportCorpus
from pipeline.features.vector_files import open_source
from pipeline.phrases.entities import read_boxes, read_sentence
from pipeline.phrases.params import ProposalsConfig
from pipeline.phrases.proposal_files import ProposalFiles
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.recipes import parse_settings
from pipeline.runtime.section import EmbeddingFileConfig
from pipeline.runtime.yaml_text import read_yaml
from stages.params import find_problems
from tests.campaign.mutations import mutated
from tests.campaign.world import ROOT
from tests.support.embedding_files import FORMATS, write_vectors
from tests.support.entities_cases import HEIGHT, WIDTH, write_entities
from tests.support.reader_cases import (
    image_bytes,
    options,
    write_arrow,
    write_parquet,
    write_tar,
)
from tests.support.transformer_files import write_model

LONGEST = 5.0  # seconds that an input may take
HUNG = 60.0  # seconds after which the campaign ends
LARGEST = 1 << 28  # bytes by which it may make the process grow
HEADROOM = 4 << 30  # bytes of addresses that it may ask for
NAMES = ("one.jpg", "two.jpg", "three.jpg")
WORDS = ("red", "dog", "sleeps", "a")
VALUES = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
BOXES = np.array([[1, 2, 8, 9], [0, 0, 5, 5]], np.float32)
IMAGES = ImportCorpus(pd.DataFrame({"image_id": NAMES, "width": 32, "height": 32}))


class TooSlow(BaseException):
    """Raised by the timer: no `except Exception` of a parser may take it."""


@dataclass(frozen=True)
class Parser:
    cases: int
    target: str  # the file that is changed
    write: Callable[[Path], object]  # it and those beside it, into a folder
    read: Callable[[Path], object]


class Parsers:
    def __init__(self, folder: Path) -> None:
        self.folder, self._there, self._content = folder, "", b""

    def case(self, name: str, draw: random.Random, number: int) -> str:
        parser = PARSERS[name]
        target = self.folder / parser.target
        if self._there != name:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder.mkdir()
            parser.write(self.folder)
            assert _bounded(lambda: parser.read(self.folder)) == "whole", name
            self._there, self._content = name, target.read_bytes()
        target.write_bytes(mutated(self._content, draw))
        return _bounded(lambda: parser.read(self.folder))


def _bounded(read: Callable[[], object]) -> str:
    before, hard = resource.getrlimit(resource.RLIMIT_AS)
    memory = _largest_memory()
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + HEADROOM, hard))
    signal.signal(signal.SIGALRM, _stop)
    signal.setitimer(signal.ITIMER_REAL, LONGEST)
    faulthandler.dump_traceback_later(HUNG, exit=True)  # where the timer is not heard; it tells who
    try:
        with redirect_stderr(io.StringIO()):
            read()
        told = "whole"
    except WorkbenchError:
        told = "refused"
    except OSError as error:  # of which a command says the file and the reason
        if error.errno is None or error.filename is None:
            raise
        told = "refused"
    except TooSlow:
        told = "too slow"
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.setitimer(signal.ITIMER_REAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, (before, hard))
    return "too large" if _largest_memory() - memory > LARGEST else told


def _largest_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _stop(number: int, frame: FrameType | None) -> None:
    raise TooSlow


def _text(cases: int, content: bytes, read: Callable[[Path], object]) -> Parser:
    return Parser(cases, "x", lambda at: (at / "x").write_bytes(content), lambda at: read(at / "x"))


def _rows(path: Path, form: RowFormat) -> None:
    columns = find_columns(form.read_schema(path), options().corpus)
    _consume(read_rows(form, path, columns))


def _consume(blocks: Iterable[object]) -> None:
    for _ in blocks:
        pass


def _lines(path: Path) -> list[str]:
    return path.read_bytes().decode("utf-8", "replace").split("\n")


def _captions(cases: int, head: str, lines: list[str]) -> Parser:
    read = lambda path: _consume(read_captions(path))  # noqa: E731
    return _text(cases, "".join([head, *lines]).encode(), read)


def _embeddings(ending: str) -> Parser:
    def read(at: Path) -> None:
        keys = {"ids": "ids", "features": "features", "other_ids": "error"}
        config = EmbeddingFileConfig(path=str(at / f"clip{ending}"), **keys)
        wanted = Wanted(pd.DataFrame({"image_id": NAMES}), "image_id", "file.other_ids")
        _consume(open_source(config, wanted).vectors.blocks())

    write = lambda at: write_vectors(at, ending, NAMES, VALUES)  # noqa: E731
    return Parser(10_000, f"clip{ending}", write, read)


def _proposals(cases: int, name: str, write: Callable[[Path], object]) -> Parser:
    def read(at: Path) -> None:
        path = str(at / name.split("/")[0])
        found = ProposalFiles(ProposalsConfig(source="file", path=path, number=5), NAMES)
        for image in NAMES:
            found(image, (32, 32))

    return Parser(cases, name, write, read)


def _write_mats(at: Path) -> None:
    (at / "p").mkdir()
    for name in NAMES:
        savemat(at / "p" / Path(name).with_suffix(".mat"), {"boxes": BOXES.astype(float)})


def _write_npz(at: Path) -> None:
    np.savez(at / "p.npz", **{Path(name).stem: BOXES for name in NAMES})


def _words(cases: int, source: str) -> Parser:
    def write(at: Path) -> None:
        vectors = KeyedVectors(4)
        vectors.add_vectors(list(WORDS), np.vstack([VALUES, VALUES[:1]]))
        vectors.save_word2vec_format(str(at / "x"), binary=source == "word2vec_bin")

    read = lambda at: read_vectors(source, at / "x", WORDS, background=2)  # noqa: E731
    return Parser(cases, "x", write, read)


def _dataset(reader: Any, name: str, folder: str, content: object) -> Parser:
    return _files(reader, folder, {name: json.dumps(content)})


def _files(reader: Any, folder: str, texts: dict[str, str]) -> Parser:
    """A reader of a folder of different images and of texts, the first of which is changed."""

    def write(at: Path) -> None:
        (at / folder).mkdir(exist_ok=True)
        for image in NAMES:
            (at / folder / image).write_text(image)
        for name, text in texts.items():
            (at / name).write_text(text)

    target = next(iter(texts))
    return Parser(10_000, target, write, lambda at: reader.read(at, at / "out", options()))


def _annotated() -> dict[str, Parser]:
    splits = list(enumerate(zip(NAMES, ("train", "val", "test"), strict=True)))
    spoken = {"raw": "A dog.", "tokens": ["a", "dog"], "imgid": 0}
    karpathy = [
        {
            "filename": name,
            "imgid": n,
            "split": split,
            "sentids": [0, 1],
            "sentences": [spoken | {"sentid": 2 * n + place} for place in (0, 1)],
        }
        for n, (name, split) in splits
    ]
    sizes = [{"id": n, "file_name": name, "height": 9, "width": 9} for n, (name, _) in splits]
    coco = [{"id": n, "image_id": n % 3, "caption": "A dog."} for n in range(6)]
    told = {"captions": ["A man walks."], "processed_tokens": [["a", "man", "walks"]]}
    pedes = [told | {"split": split, "file_path": name, "id": n + 1} for n, (name, split) in splits]
    blip = [{"image": name, "caption": ["A dog.", "It runs."]} for name in NAMES]
    lists = {"all_images.txt": "\n".join(NAMES), "all.en": "A dog.\nA cat.\nA boat.\n"}
    return {
        "Karpathy's JSON": _dataset(
            karpathy_json, "dataset_x.json", "images", {"images": karpathy, "dataset": "flickr8k"}
        ),
        "COCO's JSON": _dataset(
            coco_captions, "captions_val2017.json", "images", {"images": sizes, "annotations": coco}
        ),
        "CUHK-PEDES's JSON": _dataset(cuhk_pedes, "reid_raw.json", "imgs", pedes),
        "BLIP's JSON": _dataset(records_json, "all.json", "images", blip),
        "records on lines": _files(
            records_json, "images", {"all.jsonl": "\n".join(map(json.dumps, blip))}
        ),
        "a text beside an image": _files(
            image_beside_text, ".", {Path(name).stem + ".txt": "A dog." for name in NAMES}
        ),
        "a list of images": _files(name_lists, "images", lists),
        "a list of captions": _files(name_lists, "images", dict(reversed(lists.items()))),
    }


def _entities(cases: int, name: str, read: Callable[[Path], object]) -> Parser:
    write = lambda at: write_entities(at, {"train": 1, "val": 1, "test": 1})  # noqa: E731
    return Parser(cases, f"entities/{name}", write, lambda at: read(at / "entities" / name))


def _members(path: Path) -> None:
    with open(path, "rb") as stream:
        try:
            for member in read_members(stream):
                stream.seek(member.offset_data)
                stream.read(min(member.size, 1 << 16))
        except DamagedTar as error:
            raise WorkbenchError(str(error)) from None


def _region_lines() -> bytes:
    packed = [base64.b64encode(own.tobytes()) for own in (BOXES, VALUES[:2])]
    return b"".join(b"\t".join((n.encode(), b"32", b"32", b"2", *packed)) + b"\n" for n in NAMES)


def _write_butd(at: Path) -> None:
    with h5py.File(at / "r.h5", "w") as file:
        file["image_features"], file["image_bb"] = np.stack([VALUES[:2]] * 3), np.stack([BOXES] * 3)
    (at / "r_ids.txt").write_text("\n".join(NAMES))


PARAMS = (ROOT / "params.yaml").read_text().splitlines(keepends=True)
CAPTIONS = [f'{name},"a red dog, {number}"\n' for number, name in enumerate(NAMES * 2)]
BARS = [f"{name}| {number}| a red dog\n" for name in NAMES for number in range(2)]
TAR = [("000.jpg", image_bytes(0)), ("000.txt", b"a dog"), ("é" * 60 + ".jpg", image_bytes(1))]
SHARD = [{"image": {"bytes": b"abc", "path": name}, "caption": "a dog"} for name in NAMES]
SETTINGS = b"vse.training.lr=[0.1, {a: 2}]\nloss=sum_margin"


PARSERS = {
    "YAML of params": _text(
        2_000,
        "".join(line for line in PARAMS if line.lstrip()[:1] != "#")[:2000].encode(),
        lambda path: _consume(find_problems(read_yaml(path))),
    ),
    "YAML of worlds": _text(1_000, (ROOT / "data/raw/shapes/world.yaml").read_bytes(), load_world),
    "settings": _text(20_000, SETTINGS, lambda path: parse_settings(tuple(_lines(path)))),
    "captions of commas": _captions(60_000, "image,caption\n", CAPTIONS),
    "captions of bars": _captions(50_000, "image_name| comment_number| comment\n", BARS),
    "lists of ids": _text(60_000, b"one\ntwo\r\nthree\n", text_ids),
    **{f"embeddings in {ending}": _embeddings(ending) for ending in FORMATS},
    "matrices of scores": Parser(
        5_000,
        "clip.npz",
        lambda at: write_vectors(at, ".npz", NAMES, VALUES),
        lambda at: _consume(open_matrix(at / "clip.npz", ("ids",)).blocks()),
    ),
    "proposals in .npz": _proposals(4_000, "p.npz", _write_npz),
    "proposals in .mat": _proposals(3_000, "p/one.mat", _write_mats),
    "word2vec's binary": _words(40_000, "word2vec_bin"),
    "word2vec's text": _words(25_000, "word2vec_text"),
    "words of a transformer": Parser(
        20_000,
        "tokenizer.json",
        lambda at: write_model(at, "BPE", WORDS),
        lambda at: read_vectors("transformer", at, WORDS, background=2),
    ),
    "checkpoints of torch": Parser(
        4_000,
        "x",
        lambda at: torch.save({"w": torch.zeros(3, 4), "n": torch.ones(2)}, at / "x"),
        lambda at: read_state_dict(at / "x"),
    ),
    **_annotated(),
    "annotations of Entities": _entities(
        30_000, "Annotations/1000001.xml", lambda path: read_boxes(path, (WIDTH, HEIGHT))
    ),
    "sentences of Entities": _entities(
        20_000, "Sentences/1000001.txt", lambda at: _consume(read_sentence("x", _lines(at)[0]))
    ),
    "tar of webdataset": Parser(
        10_000, "x", lambda at: write_tar(at / "x", TAR), lambda at: _members(at / "x")
    ),
    "parquet shards": Parser(
        5_000,
        "x",
        lambda at: write_parquet(at / "x", SHARD),
        lambda at: _rows(at / "x", parquet_shards.FORMAT),
    ),
    "arrow files of save_to_disk": Parser(
        5_000,
        "x",
        lambda at: write_arrow(at / "x", SHARD),
        lambda at: _rows(at / "x", save_to_disk.FORMAT),
    ),
    "regions in TSV": _text(
        5_000, _region_lines(), lambda at: _consume(map(TsvRegions(at, IMAGES).read, range(3)))
    ),
    "regions in HDF5": Parser(
        2_500,
        "r.h5",
        _write_butd,
        lambda at: _consume(map(ButdRegions(at / "r.h5", IMAGES).read, range(3))),
    ),
}
