"""Inputs of every parser of files from outside: refused or read, in bounded time and memory.

A parser gets a good file that was changed here and there; what is refused must be refused by a
WorkbenchError.
"""

import base64
import io
import json
import random
import resource
import shutil
import signal
import struct
import tarfile
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
from PIL import Image
from safetensors.numpy import save as save_tensors
from scipy.io import savemat

from models.backbone.weights import read_state_dict
from pipeline.arrays.ids import text_ids
from pipeline.arrays.npy import read_header
from pipeline.comparison.ablation import read_experiments
from pipeline.comparison.results import read_metrics
from pipeline.corpus.vocabulary import Vocabulary, content_digest
from pipeline.dataset.params import CorpusConfig
from pipeline.dataset.source import Options
from pipeline.dataset.tar import DamagedTar, read_members
from pipeline.embeddings.job import open_embeddings
from pipeline.phrases.entities import listed_splits, read_boxes, read_sentence
from pipeline.phrases.params import ProposalsConfig
from pipeline.phrases.proposal_files import ProposalFiles
from pipeline.readers import captions_csv, coco_captions, cuhk_pedes, karpathy_json
from pipeline.readers.parquet_shards import read_rows as read_shard_rows
from pipeline.readers.shapes.world import load_world
from pipeline.regions.imports.butd_h5 import ButdRegions
from pipeline.regions.imports.source import ImportCorpus
from pipeline.regions.imports.tsv import TsvRegions
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.recipes import parse_settings
from pipeline.runtime.section import EmbeddingFileConfig
from pipeline.runtime.text import read_json
from pipeline.runtime.yaml_text import read_yaml
from pipeline.scores.matrix_file import open_matrix
from pipeline.words.vectors import read_vectors
from stages.params import find_problems
from tests.campaign.mutations import mutated
from tests.campaign.world import ROOT, Files, largest_memory
from vse_workbench.claims.ledger import read_ledger
from vse_workbench.claims.recorded import lock_stages
from vse_workbench.claims.results import KEYS
from vse_workbench.claims.results import read_rows as read_claims

LONGEST = 5.0  # seconds that an input may take
LARGEST = 1 << 28  # bytes by which it may make the process grow
HEADROOM = 4 << 30  # bytes of addresses that it may ask for
NAMES = ("one.jpg", "two.jpg", "three.jpg")
WORDS = ("red", "dog", "sleeps", "a")


class TooSlow(BaseException):
    """Raised by the timer: no `except Exception` of a parser may take it."""


@dataclass(frozen=True)
class Parser:
    """What reads a kind of file."""

    cases: int
    files: Files
    read: Callable[[Path], Any]
    signs: bytes = b""


class Parsers:
    """The sections about parsers; folder: scratch."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._parsers = parsers()
        self._there = ""
        self.sections = {
            name: lambda draw, number, name=name: self.case(name, draw) for name in self._parsers
        }

    def case(self, name: str, draw: random.Random) -> str:
        """One changed file."""
        parser = self._parsers[name]
        target, content = next(iter(parser.files.items()))
        if self._there != name:
            shutil.rmtree(self.folder, ignore_errors=True)
            for file, own in parser.files.items():
                (self.folder / file).parent.mkdir(parents=True, exist_ok=True)
                (self.folder / file).write_bytes(own)
            assert _bounded(lambda: parser.read(self.folder)) == "whole", name
            self._there = name
        with open(self.folder / target, "wb", buffering=0) as file:
            file.write(mutated(content, draw, parser.signs))
        return _bounded(lambda: parser.read(self.folder))


def _bounded(read: Callable[[], Any]) -> str:
    before, hard = resource.getrlimit(resource.RLIMIT_AS)
    memory = largest_memory()
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + HEADROOM, hard))
    signal.signal(signal.SIGALRM, _stop)
    signal.setitimer(signal.ITIMER_REAL, LONGEST)
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
        signal.setitimer(signal.ITIMER_REAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, (before, hard))
    return "too large" if largest_memory() - memory > LARGEST else told


def _stop(number: int, frame: FrameType | None) -> None:
    raise TooSlow


def parsers() -> dict[str, Parser]:
    """All of them by the name of their section."""
    return _texts() | _tables() | _arrays() | _vectors() | _datasets()


def _texts() -> dict[str, Parser]:
    lines = (ROOT / "params.yaml").read_bytes().splitlines(keepends=True)
    lines = [line for line in lines if not line.lstrip().startswith(b"#")]
    world, claims, metrics = (
        (ROOT / name).read_bytes()
        for name in ("data/raw/shapes/world.yaml", "claims.yaml", "metrics/vse.json")
    )
    lock = b"schema: '2.0'\nstages:\n  train@vse:\n    cmd: python\n    deps:\n    - path: a\n"
    lock += b"      hash: md5\n      md5: 0123456789abcdef\n      size: 12\n    outs: []\n"
    setting = b"vse.training.lr=[0.1, {a: 2}]\nloss=sum_margin"
    vocabulary = {"schema_version": 1, "sentence_markers": False}
    vocabulary["tokens"] = dict.fromkeys(("<pad>", "<unk>", *WORDS), 3)
    sealed = json.dumps(vocabulary | {"sha256": content_digest(vocabulary)}).encode()
    plain = b'{"a": [1e9, null, true, {"b": "\\u00e9"}], "c": "d"}'
    yaml, json_signs = b"[]{}:,&*!|>'\"%@`#?-<\t\n", b'[]{}:,"\\0e-.'
    pieces = b"".join(lines[5:12])
    return {
        "YAML of params": Parser(2_000, {"x": b"".join(lines[:60])}, _params, yaml),
        "YAML of pieces": Parser(15_000, {"x": pieces}, lambda at: read_yaml(at / "x"), yaml),
        "YAML of worlds": Parser(1_000, {"x": world}, lambda at: load_world(at / "x"), yaml),
        "YAML of claims": Parser(500, {"x": claims}, lambda at: read_ledger(at / "x"), yaml),
        "YAML of dvc.lock": Parser(
            3_000, {"x": lock}, lambda at: lock_stages((at / "x").read_bytes(), "x"), yaml
        ),
        "settings": Parser(
            20_000, {"x": setting}, lambda at: parse_settings(tuple(_text(at).split("\n"))), yaml
        ),
        "JSON": Parser(145_000, {"x": plain}, lambda at: read_json(at / "x"), json_signs),
        "JSON of metrics": Parser(
            80_000, {"m.json": metrics}, lambda at: read_metrics(at / "m.json"), json_signs
        ),
        "JSON of vocabularies": Parser(
            40_000, {"vocabulary.json": sealed}, Vocabulary.load, json_signs
        ),
    }


def _params(at: Path) -> None:
    problems = list(find_problems(read_yaml(at / "x")))
    assert problems, "some keys are missing"


def _text(at: Path) -> str:
    return (at / "x").read_bytes().decode("utf-8", "replace")


def _tables() -> dict[str, Parser]:
    captions = b"image,caption\n" + b"".join(
        f'{name},"a red dog, {number}"\n{name},a dog sleeps\n'.encode()
        for number, name in enumerate(NAMES)
    )
    bars = b"image_name| comment_number| comment\n" + b"".join(
        f"{name}| {number}| a red dog\n".encode() for name in NAMES for number in range(2)
    )
    values = "\t".join("1" if name == "seed" else name for name in KEYS)
    claims = "\t".join([*KEYS, "naive.rsum"]) + f"\n{values}\t12.5\n"
    listed = b"Experiment,rev,typ,State,seed,metrics/vse.json:naive.rsum\n"
    listed += b"main,abc,baseline,,0,100\nbold,def,branch_commit,Success,1,110.5\n"
    ids = b"one\ntwo\r\nthree\n"
    return {
        "captions of commas": Parser(60_000, {"x": captions}, _captions, b',"\n|#'),
        "captions of bars": Parser(50_000, {"x": bars}, _captions, b',|\n"# '),
        "lists of ids": Parser(60_000, {"x": ids}, lambda at: text_ids(at / "x"), b"\r\n\t"),
        "tables of claims": Parser(
            4_000, {"x": claims.encode()}, lambda at: read_claims(at / "x"), b'\t\n",'
        ),
        "lists of experiments": Parser(
            2_000, {"x": listed}, lambda at: read_experiments(_text(at)), b',\n"\t'
        ),
    }


def _captions(at: Path) -> None:
    list(captions_csv.read_captions(at / "x"))


def _arrays() -> dict[str, Parser]:
    values = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    npy = _saved(lambda file: np.save(file, values))
    npz = _saved(lambda file: np.savez(file, features=values, ids=np.array(NAMES)))
    boxes = np.array([[1, 2, 8, 9], [0, 0, 5, 5]], np.float64)
    mat = _saved(lambda file: savemat(file, {"boxes": boxes}))
    stems = [Path(name).stem for name in NAMES]
    proposals = _saved(lambda file: np.savez(file, **dict.fromkeys(stems, boxes)))
    parquet = _saved(pd.DataFrame({"ids": NAMES, "features": list(values)}).to_parquet)
    tensors = {"x.safetensors": save_tensors({"features": values})}
    hdf5 = _hdf5({"features": values, "ids": np.array(NAMES, "S")})
    ids = {"x.ids.txt": "\n".join(NAMES).encode()}
    mats = {f"p/{stem}.mat": mat for stem in stems}
    lines = {f"p/{stem}.txt": b"1 2 8 9 0.5\n0 0 5 5 0.1\n" for stem in stems}
    signs = b"()[]{}'\",:<>f4O \n"
    return {
        ".npy headers": Parser(100_000, {"x.npy": npy}, _header, signs),
        "embeddings in .npy": Parser(15_000, {"x.npy": npy} | ids, _embeddings("x.npy")),
        "embeddings in .npz": Parser(10_000, {"x.npz": npz}, _embeddings("x.npz")),
        "embeddings in HDF5": Parser(5_000, {"x.h5": hdf5}, _embeddings("x.h5")),
        "embeddings in parquet": Parser(10_000, {"x.parquet": parquet}, _embeddings("x.parquet")),
        "embeddings in safetensors": Parser(20_000, tensors | ids, _embeddings("x.safetensors")),
        "matrices of scores": Parser(
            5_000, {"s.npz": npz}, lambda at: _consume(open_matrix(at / "s.npz", ("ids",)).blocks())
        ),
        "proposals in .npz": Parser(4_000, {"p.npz": proposals}, _proposals("p.npz")),
        "proposals in .mat": Parser(3_000, mats, _proposals("p")),
        "proposals in text": Parser(4_000, lines, _proposals("p"), b" \n,\t."),
    }


def _saved(save: Callable[[io.BytesIO], Any]) -> bytes:
    content = io.BytesIO()
    save(content)
    return content.getvalue()


def _header(at: Path) -> None:
    with open(at / "x.npy", "rb") as file:
        read_header(file, "x", (at / "x.npy").stat().st_size)


def _embeddings(name: str) -> Callable[[Path], None]:
    keys = {"ids": "ids", "features": "features", "other_ids": "error"}
    return lambda at: _consume(
        open_embeddings(EmbeddingFileConfig(path=str(at / name), **keys)).vectors.blocks()
    )


def _proposals(name: str) -> Callable[[Path], None]:
    def read(at: Path) -> None:
        settings = ProposalsConfig(source="file", path=str(at / name), number=5)
        found = ProposalFiles(settings, NAMES)
        for image in NAMES:
            found(image, (32, 32))

    return read


def _consume(blocks: Iterable[Any]) -> None:
    for _ in blocks:
        pass


def _hdf5(datasets: dict[str, np.ndarray]) -> bytes:
    content = io.BytesIO()
    with h5py.File(content, "w") as file:
        for name, values in datasets.items():
            file[name] = values
    return content.getvalue()


def _vectors() -> dict[str, Parser]:
    values = np.random.default_rng(0).normal(size=(len(WORDS), 5)).astype(np.float32)
    rows = list(zip(WORDS, values, strict=True))
    head = f"{len(WORDS)} 5\n".encode()
    binary = b"".join(word.encode() + b" " + struct.pack("<5f", *row) for word, row in rows)
    text = "\n".join(f"{word} {' '.join(map(str, row))}" for word, row in rows).encode()
    weights = _saved(lambda file: torch.save({"w": torch.zeros(3, 4), "n": torch.ones(2)}, file))
    read_text, signs = _reading("word2vec_text"), b" \n\t.e-"
    return {
        "word2vec's binary": Parser(40_000, {"x": head + binary}, _reading("word2vec_bin")),
        "word2vec's text": Parser(25_000, {"x": head + text + b"\n"}, read_text, signs),
        "GloVe": Parser(20_000, {"x": text}, read_text, signs),
        "checkpoints of torch": Parser(4_000, {"x": weights}, lambda at: read_state_dict(at / "x")),
    }


def _reading(source: str) -> Callable[[Path], Any]:
    return lambda at: read_vectors(source, at / "x", WORDS, background=2)


def _datasets() -> dict[str, Parser]:
    corpus = read_yaml(ROOT / "params.yaml")["corpus"] | {"val_images": 1, "test_images": 1}
    options = Options(0, CorpusConfig(**corpus), None)  # None: of the built-in world alone
    splits = list(enumerate(zip(NAMES, ("train", "val", "test"), strict=True)))
    spoken = {"raw": "A dog.", "tokens": ["a", "dog"], "imgid": 0}
    karpathy = [{"filename": name, "imgid": n, "split": split, "sentids": [0, 1],
                 "sentences": [spoken | {"sentid": 2 * n + place} for place in (0, 1)]}
                for n, (name, split) in splits]  # fmt: skip
    sizes = [{"id": n, "file_name": name, "height": 9, "width": 9} for n, (name, _) in splits]
    coco = [{"id": n, "image_id": n % 3, "caption": "A dog."} for n in range(6)]
    told = {"captions": ["A man walks."], "processed_tokens": [["a", "man", "walks"]]}
    pedes = [told | {"split": split, "file_path": name, "id": n + 1} for n, (name, split) in splits]
    files = {
        "dataset_x.json": {"images": karpathy, "dataset": "flickr8k"},
        "captions_val2017.json": {"images": sizes, "annotations": coco},
        "reid_raw.json": pedes,
    }
    content = {name: {name: json.dumps(value).encode()} for name, value in files.items()}
    pictures = {f"images/{name}": b"x" for name in NAMES}
    people = {f"imgs/{name}": b"x" for name in NAMES}
    xml = ("<annotation><filename>1.jpg</filename><size><width>96</width><height>64</height>"
           "<depth>3</depth></size><object><name>11</name><name>12</name><bndbox><xmin>4</xmin>"
           "<ymin>5</ymin><xmax>30</xmax><ymax>31</ymax></bndbox></object><object><name>13</name>"
           "<scene>1</scene><nobndbox>1</nobndbox></object></annotation>")  # fmt: skip
    marked = b"[/EN#11/people A red block] is left of [/EN#12/other a blue block] .\n"
    lists = {"train.txt": b"1\n2\n", "val.txt": b"3\n", "test.txt": b"4\n"}
    images = ImportCorpus(pd.DataFrame({"image_id": NAMES, "width": 32, "height": 32}))
    features = np.random.default_rng(0).normal(size=(3, 2, 4)).astype(np.float32)
    boxes = np.tile(np.array([1, 2, 8, 9], np.float32), (3, 2, 1))
    shard = pd.DataFrame({"image": [{"bytes": b"abc", "path": name} for name in NAMES]})
    rows = {"x": _saved(shard.assign(caption="a dog").to_parquet)}
    regions = {"r.h5": _hdf5({"image_features": features, "image_bb": boxes})}
    regions["r_ids.txt"] = "\n".join(NAMES).encode()
    tsv = {"x": _region_lines(features, boxes)}

    def read_with(reader: Any) -> Callable[[Path], Any]:
        return lambda at: reader.read(at, at / "out", options)

    signs = b'[]{}:,"\\0e-.'
    return {
        "Karpathy's JSON": Parser(
            10_000, content["dataset_x.json"] | pictures, read_with(karpathy_json), signs
        ),
        "COCO's JSON": Parser(
            10_000, content["captions_val2017.json"] | pictures, read_with(coco_captions), signs
        ),
        "CUHK-PEDES's JSON": Parser(
            10_000, content["reid_raw.json"] | people, read_with(cuhk_pedes), signs
        ),
        "annotations of Entities": Parser(
            30_000, {"x": xml.encode()}, lambda at: read_boxes(at / "x", (96, 64)), b"<>/&;![]\"'"
        ),
        "sentences of Entities": Parser(
            20_000, {"x": marked}, lambda at: _consume(read_sentence("x", _text(at))), b"[]/#EN \n"
        ),
        "lists of Entities": Parser(10_000, lists, listed_splits, b"\n\r. "),
        "tar of webdataset": Parser(10_000, {"x": _tar()}, _members),
        "parquet shards": Parser(
            5_000, rows, lambda at: _consume(read_shard_rows(at / "x", options.corpus))
        ),
        "regions in TSV": Parser(
            5_000, tsv, lambda at: _regions(TsvRegions(at / "x", images)), b"\t\n=+/"
        ),
        "regions in HDF5": Parser(
            2_500, regions, lambda at: _regions(ButdRegions(at / "r.h5", images))
        ),
    }


def _members(at: Path) -> None:
    with open(at / "x", "rb") as stream:
        try:
            for member in read_members(stream):
                stream.seek(member.offset_data)
                stream.read(min(member.size, 1 << 16))
        except DamagedTar as error:
            raise WorkbenchError(str(error)) from None


def _tar() -> bytes:
    content, picture = io.BytesIO(), _saved(lambda at: Image.new("RGB", (4, 4)).save(at, "JPEG"))
    with tarfile.open(fileobj=content, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name in ("000.jpg", "000.txt", "é" * 60 + ".jpg"):
            own = picture if name.endswith("jpg") else b"a dog"
            member = tarfile.TarInfo(name)
            member.size = len(own)
            tar.addfile(member, io.BytesIO(own))
    return content.getvalue()


def _region_lines(features: np.ndarray, boxes: np.ndarray) -> bytes:
    packed = [[base64.b64encode(own[n].tobytes()) for own in (boxes, features)] for n in range(3)]
    rows = zip(NAMES, packed, strict=True)
    return b"".join(b"\t".join((n.encode(), b"32", b"32", b"2", *own)) + b"\n" for n, own in rows)


def _regions(source: Any) -> None:
    for row in range(len(NAMES)):
        source.read(row)
