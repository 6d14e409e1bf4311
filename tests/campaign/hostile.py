"""Hostile images and names through the corpus and the extraction, and features that say nothing."""

import io
import json
import os
import random
import resource
import struct
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from PIL import Image
from ruamel.yaml import YAML

from pipeline.runtime.text import safe_lines
from pipeline.runtime.yaml_text import read_yaml
from pipeline.scores.file import SplitScores, read_scores, write_scores
from pipeline.storage.features import FeatureFile
from pipeline.storage.layout import digest_of, encode_ids, structure_of
from tests.campaign.world import ALWAYS, Files, World, merged, put, run

GOOD_IMAGES = 8
MEMORY = 6 << 30  # bytes of addresses that a stage may have
NAMES = ("\x1b[31mred.jpg", "a\u202egpj.exe", "line\nbreak.jpg", "tab\tbed.jpg", "é" * 80 + ".jpg")
NAMES += ("../../up.jpg", "/etc/passwd", "a\\b.jpg", "%s%n.jpg", "'; drop.jpg", "\ud800.jpg")
NAMES += ("x" * 300 + ".jpg", "nul\0.jpg", "<script>.jpg", "", " ", "a//b.jpg", "\u200b.jpg")
MODELS = ("vse", "two_branch", "cca", "scan")


class Hostile:
    """The sections about images and degenerate features; folder: scratch."""

    def __init__(self, folder: Path, world: World) -> None:
        self.folder, self.world = folder, world
        self.sections: dict[str, Callable[[random.Random, int], str]] = {
            "hostile images": self.image,
            "hostile names": self.name,
            "features that say nothing": self.features,
            "scores that say nothing": self.scores,
        }

    def image(self, draw: random.Random, number: int) -> str:
        """One image of a corpus is none, or an odd one."""
        kinds = list(IMAGES)
        kind = kinds[number % len(kinds)]
        name = f"odd.{draw.choice(('jpg', 'png', 'gif', 'tiff', 'JPEG'))}"
        return self._prepared(name, lambda at: IMAGES[kind](at, draw), draw.random() < 0.5, kind)

    def name(self, draw: random.Random, number: int) -> str:
        """One image of a corpus has an odd name."""
        name = NAMES[number % len(NAMES)]
        return self._prepared(name, lambda at: at.write_bytes(picture()), draw.random() < 0.5, name)

    def features(self, draw: random.Random, number: int) -> str:
        """A model trained and scored on features that are all the same, zero, huge or NaN."""
        models = [model for model in MODELS if f"evaluate@{model}" in self.world.stages]
        model, kind = models[number % len(models)], draw.choice(list(VALUES))
        stages = [self.world.stages[f"{step}@{model}"] for step in ("train", "score", "evaluate")]
        files = self.world.before(stages[0]) | self.world.before(stages[1])
        files = {name: files[name] for name in files if not name.startswith("data/checkpoints")}
        files |= {name: content for name, content in self.world.everything().items()
                  if name == "data/corpus/relevance.parquet"}  # fmt: skip
        put(self.folder, files)
        source = "regions" if model == "scan" else "image"
        rewrite(self.folder / f"data/features/{source}.h5", VALUES[kind], draw)
        for stage in stages:
            ended = run(stage, self.folder)
            if ended.code:
                return "refused" if ended.is_refusal else f"{model}, {kind}: {ended.fault}"
        return self._at_chance(model, f"{model}, {kind}", spread=100 / 6)

    def scores(self, draw: random.Random, number: int) -> str:
        """Scores that are all the same, NaN, infinite, or the same for every image or caption."""
        stage = self.world.stages["evaluate@vse"]
        put(self.folder, self.world.before(stage))
        path = self.folder / "data/scores/vse.h5"
        found = read_scores(path, "test")
        kind = draw.choice(("constant", "NaN", "infinite", "zero", "tiny"))
        value = {"constant": draw.random(), "NaN": np.nan, "infinite": np.inf, "zero": 0.0,
                 "tiny": 1e-45}[kind]  # fmt: skip
        numbers = np.full(found.scores.shape, value, np.float32)
        if kind == "NaN" and draw.random() < 0.5:
            numbers = np.array(found.scores)
            numbers[draw.randrange(len(numbers)), draw.randrange(numbers.shape[1])] = np.nan
        split = SplitScores(numbers, found.image_ids, found.caption_ids,
                            found.caption_image_ids, found.image_groups)  # fmt: skip
        try:
            write_scores(path, {"test": split, "val": split}, {"model": "vse"})
        except Exception as error:
            return "refused" if type(error).__name__ == "WorkbenchError" else f"{kind}: {error!r}"
        ended = run(stage, self.folder)
        if ended.code:
            return "refused" if ended.is_refusal else f"{kind}: {ended.fault}"
        return self._at_chance("vse", kind, spread=0.0)

    def _at_chance(self, model: str, what: str, spread: float) -> str:
        """spread: percent by which few queries may be right by luck."""
        content = json.loads((self.folder / f"metrics/{model}.json").read_text())
        figures = content["naive"]
        for way, most in (("i2t", 100 / 6), ("t2i", 100 / 6)):
            if figures[way]["r1"] > most + spread + 1e-6:
                return f"above chance: {what}: {way} R@1 {figures[way]['r1']}"
        return "at chance"

    def _prepared(
        self, name: str, write: Callable[[Path], Any], is_skipping: bool, what: str
    ) -> str:
        files = self._files(is_skipping)
        good = [f"good{number}.jpg" for number in range(GOOD_IMAGES)]
        images = [
            {"filename": image, "split": split, "sentids": [n],
             "sentences": [{"sentid": n, "raw": "a red dog", "tokens": ["a", "red", "dog"]}]}
            for n, (image, split) in enumerate(
                zip((*good, name), ("train",) * 4 + ("val", "test") * 2 + ("train",), strict=True))
        ]  # fmt: skip
        raw = "data/raw/shapes"
        files |= {f"{raw}/images/{image}": picture(n) for n, image in enumerate(good)}
        files[f"{raw}/dataset_odd.json"] = json.dumps({"images": images}).encode()
        put(self.folder, files)
        with suppress(OSError, ValueError):  # where no file can have that name it is missing
            write(self.folder / raw / "images" / name)
        for step in ("prepare_corpus", "extract_image_features"):
            stage = self.world.stages[step]
            ended = run(stage, self.folder, _in_bounds)
            if ended.said != safe_lines(ended.said):
                return f"unsafe text: {what!r}"
            if ended.code and not ended.is_refusal:
                return f"{what!r}: {ended.fault}"
            if ended.code:
                named = any(word in ended.said for word in (ascii(name)[1:-1], name))
                is_early = step == "prepare_corpus" and (named or "odd" not in name)
                return "refused" if is_early else f"refused late: {what!r}"
        rejects = (self.folder / "data/corpus/rejects.tsv").read_text().splitlines()
        return "left out and counted" if len(rejects) > 1 else "read"

    def _files(self, is_skipping: bool) -> Files:
        stage = self.world.stages["extract_image_features"]
        wanted = [name for name in ALWAYS if not name.startswith("data/corpus")]
        wanted.append("data/checkpoints/detector.safetensors")
        files = {n: own for n, own in self.world.before(stage).items() if n in wanted}
        values = read_yaml(self.world.folder / "params.yaml")
        values["external"] = {}  # its folder is not among these files
        changes = {"dataset": "karpathy_json", "phrases": {"source": "none"},
                   "corpus": {"skip_bad_images": is_skipping, "max_megapixels": 4},
                   "detector": {"weights": "random"}}  # fmt: skip
        text = io.StringIO()
        YAML(typ="safe", pure=True).dump(merged(values, changes), text)
        return files | {"params.yaml": text.getvalue().encode()}


def _in_bounds() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def picture(seed: int = 0, mode: str = "RGB", form: str = "JPEG", size: tuple[int, int] = (40, 36),
            **options: Any) -> bytes:  # fmt: skip
    """The bytes of an image file of noise."""
    noise = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 4), np.uint8)
    image = Image.fromarray(noise, "RGBA").convert("RGB")
    content = io.BytesIO()
    image.convert(mode).save(content, form, **options)
    return content.getvalue()


def _put(content: Callable[[random.Random], bytes]) -> Callable[[Path, random.Random], Any]:
    return lambda at, draw: at.write_bytes(content(draw))


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _bomb(draw: random.Random) -> bytes:
    side = draw.choice((3000, 30_000, 0x7FFFFFFF))
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    data = zlib.compress(bytes(3 * 10_000))
    chunks = _chunk(b"IHDR", header) + _chunk(b"IDAT", data) + _chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


def _text_bomb(draw: random.Random) -> bytes:
    """A PNG whose compressed text unfolds to 200 MB."""
    whole = picture(form="PNG")
    packed = zlib.compress(bytes(200_000_000), 1)
    return whole[:33] + _chunk(b"zTXt", b"Comment\0\0" + packed) + whole[33:]


def _turned(draw: random.Random) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = draw.choice((*range(10), 255))
    return picture(exif=exif.tobytes())


def _animated(draw: random.Random) -> bytes:
    frames = [Image.open(io.BytesIO(picture(n))) for n in range(5)]
    content = io.BytesIO()
    frames[0].save(content, "GIF", save_all=True, append_images=frames[1:])
    return content.getvalue()


def _long(draw: random.Random) -> bytes:
    sides = draw.choice(((51 * 8, 8), (8, 51 * 8), (8, 60 * 8), (1, 50), (50, 1), (51, 1)))
    return picture(size=sides)


def _broken(content: bytes, draw: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(draw.randint(1, 20)):
        changed[draw.randrange(len(changed))] = draw.randrange(256)
    return bytes(changed)


FORMS = ("JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP", "PPM")
IMAGES: dict[str, Callable[[Path, random.Random], Any]] = {
    "huge in its header": _put(_bomb),
    "text that unfolds": _put(_text_bomb),
    "cut short": _put(lambda draw: (whole := picture(form=draw.choice(FORMS)))[
        : draw.randrange(1, len(whole))]),
    "changed here and there": _put(lambda draw: _broken(picture(form=draw.choice(FORMS)), draw)),
    "another kind's beginning": _put(lambda draw: b"\x89PNG\r\n\x1a\n" + picture()),
    "of 50:1": _put(_long),
    "CMYK": _put(lambda draw: picture(mode="CMYK")),
    "16 bits": _put(lambda draw: picture(mode="I;16", form="PNG")),
    "of floats": _put(lambda draw: picture(mode="F", form="TIFF")),
    "a palette": _put(lambda draw: picture(mode="P", form="PNG", transparency=3)),
    "alpha": _put(lambda draw: picture(mode="LA", form="PNG")),
    "turned by EXIF": _put(_turned),
    "rubbish in EXIF": _put(lambda draw: picture(exif=b"Exif\0\0" + draw.randbytes(60))),
    "animated": _put(_animated),
    "HTML": _put(lambda draw: b"<html><body>404 Not Found</body></html>"),
    "PDF": _put(lambda draw: b"%PDF-1.4\n%\xe2\xe3"),
    "random bytes": _put(lambda draw: draw.randbytes(draw.randrange(1, 3000))),
    "no bytes": _put(lambda draw: b""),
    "one pixel": _put(lambda draw: picture(size=(1, 1))),
    "a link to itself": lambda at, draw: at.symlink_to(at.name),
    "a link to a device": lambda at, draw: at.symlink_to("/dev/zero"),
    "a pipe": lambda at, draw: os.mkfifo(at),
    "a folder": lambda at, draw: at.mkdir(),
    "not there": lambda at, draw: None,
}  # fmt: skip


VALUES: dict[str, Callable[[np.ndarray, random.Random], np.ndarray]] = {
    "constant": lambda values, draw: np.full_like(values, draw.random()),
    "zero": lambda values, draw: np.zeros_like(values),
    "the same row": lambda values, draw: np.repeat(values[:1], len(values), 0),
    "NaN": lambda values, draw: np.full_like(values, np.nan),
    "one NaN": lambda values, draw: _one(values, draw, np.nan),
    "one infinity": lambda values, draw: _one(values, draw, np.inf),
    "huge": lambda values, draw: np.full_like(values, np.finfo(values.dtype).max),
    "tiny": lambda values, draw: np.full_like(values, np.finfo(values.dtype).tiny),
}


def _one(values: np.ndarray, draw: random.Random, value: float) -> np.ndarray:
    changed = np.array(values)
    changed.reshape(-1)[draw.randrange(changed.size)] = value
    return changed


def rewrite(
    path: Path, change: Callable[[np.ndarray, random.Random], np.ndarray], draw: random.Random
) -> None:
    """Give a feature file other values of `features`, with the digests that belong to them."""
    file = FeatureFile(path)
    with h5py.File(path) as opened:
        names = [name for name in opened if name != "ids"]
        ordered = sorted(names, key=lambda name: opened[name].id.get_offset() or 0)
    arrays = {name: file.load(name) for name in ordered}
    arrays["features"] = np.ascontiguousarray(change(arrays["features"], draw))
    attributes = {name: value for name, value in file.attributes.items()
                  if name not in ("schema_version", "sha256")}  # fmt: skip
    ids = encode_ids(file.ids)
    digests = {name: digest_of(array) for name, array in arrays.items()} | {"ids": digest_of(ids)}
    kinds = {name: (array.shape[1:], array.dtype) for name, array in arrays.items()}
    structure = structure_of(ids, kinds, attributes, digests)
    path.unlink()
    structure.begin(path)
    structure.put(path, {"ids": ids, **arrays})
