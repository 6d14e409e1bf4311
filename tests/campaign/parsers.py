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
    """What reads a kind of file.

    Attributes:
        cases: of a full run.
        files: good ones, by name; the first is changed.
        read: reads them in a folder.
        signs: characters that mean something in the format.
    """

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
    params = (ROOT / "params.yaml").read_bytes()
    lines = [
        line for line in params.splitlines(keepends=True) if not line.lstrip().startswith(b"#")
    ]
    world = (ROOT / "data/raw/shapes/world.yaml").read_bytes()
    claims = (ROOT / "claims.yaml").read_bytes()
    lock = b"schema: '2.0'\nstages:\n  train@vse:\n    cmd: python\n    deps:\n    - path: a\n"
    lock += b"      hash: md5\n      md5: 0123456789abcdef\n      size: 12\n    outs: []\n"
    marks = b"[]{}:,&*!|>'\"%@`#?-<\t\n"
    setting = b"vse.training.lr=[0.1, {a: 2}]\nloss=sum_margin"
    metrics = (ROOT / "metrics/vse.json").read_bytes()
    vocabulary = {"schema_version": 1, "sentence_markers": False,
                  "tokens": {word: 3 for word in ("<pad>", "<unk>", *WORDS)}}  # fmt: skip
    sealed = vocabulary | {"sha256": content_digest(vocabulary)}
    return {
        "YAML of params": Parser(2_000, {"p.yaml": b"".join(lines[:60])}, _params, marks),
        "YAML of pieces": Parser(
            15_000, {"p.yaml": b"".join(lines[5:12])}, lambda at: read_yaml(at / "p.yaml"), marks
        ),
        "YAML of worlds": Parser(
            1_000, {"world.yaml": world}, lambda at: load_world(at / "world.yaml"), marks
        ),
        "YAML of claims": Parser(
            500, {"c.yaml": claims}, lambda at: read_ledger(at / "c.yaml"), marks
        ),
        "YAML of dvc.lock": Parser(
            3_000,
            {"dvc.lock": lock},
            lambda at: lock_stages((at / "dvc.lock").read_bytes(), "x"),
            marks,
        ),
        "settings": Parser(
            20_000, {"s": setting}, lambda at: parse_settings(_words(at / "s")), marks
        ),
        "JSON": Parser(
            145_000,
            {"x.json": b'{"a": [1e9, null, true, {"b": "\\u00e9"}], "c": "d"}'},
            lambda at: read_json(at / "x.json"),
            b'[]{}:,"\\0e-.',
        ),
        "JSON of metrics": Parser(
            80_000, {"m.json": metrics}, lambda at: read_metrics(at / "m.json"), b'[]{}:,"\\0e-.'
        ),
        "JSON of vocabularies": Parser(
            40_000,
            {"vocabulary.json": json.dumps(sealed).encode()},
            Vocabulary.load,
            b'[]{}:,"\\0e-.',
        ),
    }


def _params(at: Path) -> None:
    values = read_yaml(at / "p.yaml")
    problems = list(find_problems(values))
    assert problems, "some keys are missing"


def _words(path: Path) -> tuple[str, ...]:
    return tuple(path.read_bytes().decode("utf-8", "replace").split("\n"))


def _tables() -> dict[str, Parser]:
    captions = b"image,caption\n" + b"".join(
        f'{name},"a red dog, {number}"\n{name},a dog sleeps\n'.encode()
        for number, name in enumerate(NAMES)
    )
    bars = b"image_name| comment_number| comment\n" + b"".join(
        f"{name}| {number}| a red dog\n".encode() for name in NAMES for number in range(2)
    )
    columns = [*KEYS, "naive.rsum"]
    rows = ["\t".join("1" if name == "seed" else f"{name}" for name in KEYS) + "\t12.5"]
    claims = "\n".join(("\t".join(columns), *rows)) + "\n"
    listed = b"Experiment,rev,typ,State,seed,metrics/vse.json:naive.rsum\n"
    listed += b"main,abc,baseline,,0,100\nbold,def,branch_commit,Success,1,110.5\n"
    return {
        "captions of commas": Parser(60_000, {"captions.txt": captions}, _captions, b',"\n|#'),
        "captions of bars": Parser(50_000, {"captions.txt": bars}, _captions, b',|\n"# '),
        "lists of ids": Parser(
            60_000,
            {"x.ids.txt": b"one\ntwo\r\nthree\n"},
            lambda at: text_ids(at / "x.ids.txt"),
            b"\r\n\t",
        ),
        "tables of claims": Parser(
            4_000,
            {"claims.tsv": claims.encode()},
            lambda at: read_claims(at / "claims.tsv"),
            b'\t\n",',
        ),
        "lists of experiments": Parser(2_000, {"e.csv": listed}, _experiments, b',\n"\t'),
    }


def _captions(at: Path) -> None:
    list(captions_csv.read_captions(at / "captions.txt"))


def _experiments(at: Path) -> None:
    read_experiments((at / "e.csv").read_bytes().decode("utf-8", "replace"))


def _arrays() -> dict[str, Parser]:
    values = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    npy, npz, mat = io.BytesIO(), io.BytesIO(), io.BytesIO()
    np.save(npy, values)
    np.savez(npz, features=values, ids=np.array(NAMES))
    boxes = np.array([[1, 2, 8, 9], [0, 0, 5, 5]], np.float64)
    savemat(mat, {"boxes": boxes})
    proposals = io.BytesIO()
    np.savez(proposals, **{Path(name).stem: boxes for name in NAMES})
    table = pd.DataFrame({"ids": NAMES, "features": list(values)})
    tensors = save_tensors({"features": values})
    ids = "\n".join(NAMES).encode()
    return {
        ".npy headers": Parser(100_000, {"x.npy": npy.getvalue()}, _header, b"()[]{}'\",:<>f4O \n"),
        "embeddings in .npy": Parser(
            15_000, {"x.npy": npy.getvalue(), "x.ids.txt": ids}, _embeddings("x.npy")),
        "embeddings in .npz": Parser(
            10_000, {"x.npz": npz.getvalue()}, _embeddings("x.npz")),
        "embeddings in HDF5": Parser(
            5_000, {"x.h5": _hdf5({"features": values, "ids": np.array(NAMES, "S")})},
            _embeddings("x.h5")),
        "embeddings in parquet": Parser(
            10_000, {"x.parquet": _parquet(table)}, _embeddings("x.parquet")),
        "embeddings in safetensors": Parser(
            20_000, {"x.safetensors": tensors, "x.ids.txt": ids},
            _embeddings("x.safetensors")),
        "matrices of scores": Parser(5_000, {"s.npz": npz.getvalue()}, _matrix),
        "proposals in .npz": Parser(4_000, {"p.npz": proposals.getvalue()}, _proposals("p.npz")),
        "proposals in .mat": Parser(
            3_000, {f"p/{Path(name).stem}.mat": mat.getvalue() for name in NAMES}, _proposals("p")),
        "proposals in text": Parser(
            4_000, {f"p/{Path(name).stem}.txt": b"1 2 8 9 0.5\n0 0 5 5 0.1\n" for name in NAMES},
            _proposals("p"), b" \n,\t."),
    }  # fmt: skip


def _header(at: Path) -> None:
    with open(at / "x.npy", "rb") as file:
        read_header(file, "x", (at / "x.npy").stat().st_size)


def _embeddings(name: str) -> Callable[[Path], None]:
    def read(at: Path) -> None:
        settings = EmbeddingFileConfig(
            path=str(at / name), ids="ids", features="features", other_ids="error"
        )
        _consume(open_embeddings(settings).vectors.blocks())

    return read


def _matrix(at: Path) -> None:
    _consume(open_matrix(at / "s.npz", ("ids",)).blocks())


def _proposals(name: str) -> Callable[[Path], None]:
    def read(at: Path) -> None:
        settings = ProposalsConfig(source="file", path=str(at / name), order="xyxy", origin=0,
                                   number=5, other_images="error")  # fmt: skip
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


def _parquet(table: pd.DataFrame) -> bytes:
    content = io.BytesIO()
    table.to_parquet(content)
    return content.getvalue()


def _vectors() -> dict[str, Parser]:
    values = np.random.default_rng(0).normal(size=(len(WORDS), 5)).astype(np.float32)
    binary = f"{len(WORDS)} 5\n".encode()
    binary += b"".join(
        word.encode() + b" " + struct.pack("<5f", *row)
        for word, row in zip(WORDS, values, strict=True)
    )
    lines = [f"{word} {' '.join(map(str, row))}" for word, row in zip(WORDS, values, strict=True)]
    text = f"{len(WORDS)} 5\n" + "\n".join(lines) + "\n"
    weights = io.BytesIO()
    torch.save({"w": torch.zeros(3, 4), "n": torch.ones(2)}, weights)
    return {
        "word2vec's binary": Parser(
            40_000, {"v.bin": binary}, _reading("word2vec_bin", "v.bin")),
        "word2vec's text": Parser(
            25_000, {"v.txt": text.encode()}, _reading("word2vec_text", "v.txt"), b" \n\t.e-"),
        "GloVe": Parser(
            20_000, {"v.txt": "\n".join(lines).encode()}, _reading("word2vec_text", "v.txt"),
            b" \n\t.e-"),
        "checkpoints of torch": Parser(
            4_000, {"w.pth": weights.getvalue()}, lambda at: read_state_dict(at / "w.pth")),
    }  # fmt: skip


def _reading(source: str, name: str) -> Callable[[Path], None]:
    def read(at: Path) -> None:
        read_vectors(source, at / name, WORDS, background=2)

    return read


def _datasets() -> dict[str, Parser]:
    options = _options()
    sentences = [{"sentid": n, "raw": "A dog.", "tokens": ["a", "dog"], "imgid": 0} for n in (0, 1)]
    karpathy = {"images": [{"filename": name, "imgid": n, "split": split, "sentences": [
        s | {"sentid": s["sentid"] + 2 * n} for s in sentences], "sentids": [0, 1]}
        for n, (name, split) in enumerate(zip(NAMES, ("train", "val", "test"), strict=True))],
        "dataset": "flickr8k"}  # fmt: skip
    three = zip(NAMES, ("train", "val", "test"), strict=True)
    coco = {
        "images": [
            {"id": n, "file_name": name, "height": 9, "width": 9} for n, name in enumerate(NAMES)
        ],
        "annotations": [{"id": n, "image_id": n % 3, "caption": "A dog."} for n in range(6)],
    }
    pedes = [{"split": split, "file_path": name, "id": n + 1, "captions": ["A man walks."],
              "processed_tokens": [["a", "man", "walks"]]}
             for n, (name, split) in enumerate(three)]  # fmt: skip
    xml = ("<annotation><filename>1.jpg</filename><size><width>96</width><height>64</height>"
           "<depth>3</depth></size><object><name>11</name><name>12</name><bndbox><xmin>4</xmin>"
           "<ymin>5</ymin><xmax>30</xmax><ymax>31</ymax></bndbox></object><object><name>13</name>"
           "<scene>1</scene><nobndbox>1</nobndbox></object></annotation>")  # fmt: skip
    marked = b"[/EN#11/people A red block] is left of [/EN#12/other a blue block] .\n"
    images = pd.DataFrame({"image_id": NAMES, "width": 32, "height": 32})
    corpus = ImportCorpus(images)
    features = np.random.default_rng(0).normal(size=(3, 2, 4)).astype(np.float32)
    boxes = np.tile(np.array([1, 2, 8, 9], np.float32), (3, 2, 1))
    shard = pd.DataFrame({"image": [{"bytes": b"abc", "path": name} for name in NAMES],
                          "caption": ["a dog"] * 3})  # fmt: skip
    json_signs = b'[]{}:,"\\0e-.'
    pictures = {f"images/{name}": b"x" for name in NAMES}
    return {
        "Karpathy's JSON": Parser(
            10_000, {"dataset_x.json": json.dumps(karpathy).encode(), **pictures},
            lambda at: karpathy_json.read(at, at / "out", options), json_signs),
        "COCO's JSON": Parser(
            10_000, {"captions_val2017.json": json.dumps(coco).encode(), **pictures},
            lambda at: coco_captions.read(at, at / "out", options), json_signs),
        "CUHK-PEDES's JSON": Parser(
            10_000, {"reid_raw.json": json.dumps(pedes).encode(),
                     **{f"imgs/{name}": b"x" for name in NAMES}},
            lambda at: cuhk_pedes.read(at, at / "out", options), json_signs),
        "annotations of Entities": Parser(
            30_000, {"1.xml": xml.encode()}, lambda at: read_boxes(at / "1.xml", (96, 64)),
            b"<>/&;![]\"'"),
        "sentences of Entities": Parser(
            20_000, {"1.txt": marked}, _sentences, b"[]/#EN \n"),
        "lists of Entities": Parser(
            10_000, {"train.txt": b"1\n2\n", "val.txt": b"3\n", "test.txt": b"4\n"},
            listed_splits, b"\n\r. "),
        "tar of webdataset": Parser(10_000, {"x.tar": _tar()}, _members),
        "parquet shards": Parser(
            5_000, {"x.parquet": _parquet(shard)},
            lambda at: _consume(read_shard_rows(at / "x.parquet", options.corpus))),
        "regions in TSV": Parser(
            5_000, {"r.tsv": _region_lines(features, boxes)},
            lambda at: _regions(TsvRegions(at / "r.tsv", corpus)), b"\t\n=+/"),
        "regions in HDF5": Parser(
            2_500, {"r.h5": _hdf5({"image_features": features, "image_bb": boxes}),
                    "r_ids.txt": "\n".join(NAMES).encode()},
            lambda at: _regions(ButdRegions(at / "r.h5", corpus))),
    }  # fmt: skip


def _options() -> Options:
    values = read_yaml(ROOT / "params.yaml")
    corpus = CorpusConfig(**values["corpus"] | {"val_images": 1, "test_images": 1})
    return Options(0, corpus, None)  # None: of the built-in world alone


def _sentences(at: Path) -> None:
    text = (at / "1.txt").read_bytes().decode("utf-8", "replace")
    _consume(read_sentence("x", text))


def _members(at: Path) -> None:
    with open(at / "x.tar", "rb") as stream:
        try:
            for member in read_members(stream):
                stream.seek(member.offset_data)
                stream.read(min(member.size, 1 << 16))
        except DamagedTar as error:
            raise WorkbenchError(str(error)) from None


def _tar() -> bytes:
    content, picture = io.BytesIO(), io.BytesIO()
    Image.new("RGB", (4, 4)).save(picture, "JPEG")
    with tarfile.open(fileobj=content, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name in ("000.jpg", "000.txt", "é" * 60 + ".jpg"):
            own = picture.getvalue() if name.endswith("jpg") else b"a dog"
            member = tarfile.TarInfo(name)
            member.size = len(own)
            tar.addfile(member, io.BytesIO(own))
    return content.getvalue()


def _region_lines(features: np.ndarray, boxes: np.ndarray) -> bytes:
    return b"".join(
        b"\t".join((name.encode(), b"32", b"32", b"2", base64.b64encode(boxes[n].tobytes()),
                    base64.b64encode(features[n].tobytes()))) + b"\n"
        for n, name in enumerate(NAMES)
    )  # fmt: skip


def _regions(source: Any) -> None:
    for row in range(len(NAMES)):
        source.read(row)
