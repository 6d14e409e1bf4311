"""A few images on disk, a stand-in for a detector, and regions as other tools write them."""

import base64
import hashlib
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from corpora import images_table
from PIL import Image

from models.detector.selection import RegionOutput
from pipeline.features.regions.file import ImageRegions

WIDTH, PROPOSALS, OBJECTS, ATTRIBUTES = 5, 6, ("cat", "dog", "cow"), ("red", "big")
SPLITS = {"train": 5, "val": 3, "test": 4}


def world(folder: Path) -> pd.DataFrame:
    folder.mkdir(exist_ok=True)
    rng, rows = np.random.default_rng(0), []
    for split, count in SPLITS.items():
        for number in range(count):
            height, width = 24 + number, 40 - number
            path = folder / f"{split}{number}.png"
            Image.fromarray(rng.integers(0, 256, (height, width, 3), np.uint8)).save(path)
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            rows.append((path.name, str(path), split, path.name, width, height, digest))
    return images_table(rows)


def captions_of(images: pd.DataFrame, per_image: int | None = 5) -> pd.DataFrame:
    """Captions; per_image: how many, None for one to four."""
    rows = []
    for number, (name, split) in enumerate(zip(images["image_id"], images["split"], strict=True)):
        for place in range(per_image or 1 + number % 4):
            words = ["a", f"thing{number}", f"no{place}"]
            text = f"A thing{number}, no{place} ."
            rows.append((f"{name}#{place}", name, split, text, words))
    return pd.DataFrame(rows, columns=["caption_id", "image_id", "split", "text", "tokens"])


class Detector:
    """Proposals that depend on the picture's pixels, as a network's do."""

    object_names, attribute_names, region_dim = OBJECTS, ATTRIBUTES, WIDTH

    def regions(self, images):
        return [self.one(image) for image in images]

    def one(self, image: torch.Tensor) -> RegionOutput:
        assert image.dtype == torch.uint8
        height, width = image.shape[1:]
        seed = int(image.long().sum())
        rng = torch.Generator().manual_seed(seed)
        corners = torch.rand(PROPOSALS, 2, 2, generator=rng).sort(1).values
        boxes = (corners * torch.tensor([width, height])).flatten(1)
        draw = [torch.rand(PROPOSALS, n, generator=rng) for n in (WIDTH, 4, len(ATTRIBUTES))]
        return RegionOutput(boxes, draw[0] * 9, (draw[1] * 4).softmax(1), draw[2])


def sample(images: pd.DataFrame, most: int = 4, seed: int = 0) -> list[ImageRegions]:
    """Regions for every image, one to `most` of them, values that float16 holds exactly."""
    rng, found = np.random.default_rng(seed), []
    for size in zip(images["width"], images["height"], strict=True):
        count = int(rng.integers(1, most + 1))
        features = rng.normal(size=(count, WIDTH)).astype(np.float16).astype(np.float32)
        corners = np.sort(rng.uniform(size=(count, 2, 2)), axis=1) * size
        found.append(ImageRegions(size, corners.reshape(count, 4).astype(np.float32), features))
    return found


def encoded(values: np.ndarray, dtype: str = "<f4") -> bytes:
    return base64.b64encode(values.astype(dtype).tobytes())


def tsv_fields(name: str, regions: ImageRegions, dtype: str = "<f4") -> list[bytes]:
    numbers = (*regions.size, len(regions.features))
    return [
        name.encode(),
        *(str(number).encode() for number in numbers),
        encoded(regions.boxes, dtype),
        encoded(regions.features, dtype),
    ]


def write_tsv(path: Path, rows: list[list[bytes]]) -> None:
    path.write_bytes(b"".join(b"\t".join(row) + b"\r\n" for row in rows))
