"""What the tests of readers share: options, small images, and reading a folder to the end."""

import tarfile
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from pipeline.corpus.dataset.read import read_corpus
from pipeline.corpus.dataset.source import Options
from pipeline.corpus.params import CorpusConfig, ShapesConfig

CORPUS = {"val_images": 1, "test_images": 1, "max_megapixels": 1.0}
SHAPES = {"train": 6, "val": 3, "test": 3, "image_size": 64, "captions_per_image": 3}
SHAPES |= {"near_duplicates": 0.5}


def options(seed=0, workers=1, **changed):
    own = {"corpus": CORPUS, "shapes": SHAPES | {"seed": seed}}
    for key, value in changed.items():
        section = "corpus" if key in CorpusConfig.model_fields else "shapes"
        own[section] = own[section] | {key: value}
    return Options(seed, CorpusConfig(**own["corpus"]), ShapesConfig(**own["shapes"]), workers)


def record(name, split, *captions, first=0, **more):
    """An image of a Karpathy JSON; first: the id of its first caption."""
    sentences = [
        {"raw": text, "tokens": text.lower().rstrip(".").split(), "sentid": first + n, "imgid": 7}
        for n, text in enumerate(captions)
    ]
    return {"filename": name, "split": split, "sentences": sentences, "imgid": 7, **more}


def save_images(folder: Path, *names: str) -> None:
    for n, name in enumerate(names):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8 + n, 6), (n, 100, 200)).save(path)


def read_all(dataset, raw, seed=0, **changed):
    """The checked corpus of a folder; rendered files and those out of shards go beside it."""
    return read_corpus(dataset, raw, raw.parent / "out", options(seed, **changed))


def image_bytes(number, kind="JPEG"):
    """A small image file whose bytes differ from those of every other number."""
    stream = BytesIO()
    Image.new("RGB", (8 + number, 6), (number * 5 % 256, 100, 200)).save(stream, kind)
    return stream.getvalue()


def write_tar(path, members, **how):
    """An uncompressed tar file of (name, content) or of finished TarInfo."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w", **how) as archive:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member)
                continue
            header = tarfile.TarInfo(member[0])
            header.size = len(member[1])
            archive.addfile(header, BytesIO(member[1]))


def write_parquet(path, rows, schema=None, **how):
    """Rows as Hugging Face's datasets writes them, of images {bytes, path}."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path, **how)


def write_arrow(path, rows, schema=None, file=False, **how):
    """Rows as Hugging Face's save_to_disk writes them, a batch of two at a time; file: in the file
    format, which other programs write."""
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist(rows, schema=schema)
    new = pa.ipc.new_file if file else pa.ipc.new_stream
    with new(str(path), table.schema, options=pa.ipc.IpcWriteOptions(**how)) as writer:
        for batch in table.to_batches(max_chunksize=2):
            writer.write_batch(batch)


def files_of(corpus):
    table = zip(corpus.images["image_id"], corpus.images["path"], strict=True)
    return {image: Path(path).read_bytes() for image, path in table}


def texts_of(corpus):
    return corpus.captions.groupby("image_id", sort=False)["text"].agg(list).to_dict()
