"""Karpathy's dataset_flickr8k.json, dataset_flickr30k.json and dataset_coco.json."""

from pathlib import Path
from typing import Annotated, Literal

import pandas as pd
from pydantic import BaseModel, Field

from pipeline.dataset.annotations import read_annotations
from pipeline.dataset.source import Options, Source, find_annotations, find_image_folder
from pipeline.runtime.errors import counted
from pipeline.runtime.section import Name

SIGNS = ("dataset_*.json",)


class _Sentence(BaseModel):
    raw: str
    sentid: int | str
    tokens: list[str] = []


class _Image(BaseModel):
    filename: Name
    filepath: str = ""  # MS-COCO has images in several folders
    split: Literal["train", "val", "test", "restval"]
    sentences: list[_Sentence]

    @property
    def image_id(self) -> str:
        return f"{self.filepath}/{self.filename}" if self.filepath else self.filename


class _Dataset(BaseModel):
    images: Annotated[list[_Image], Field(min_length=1)]


def read(raw: Path, out: Path, options: Options) -> Source:
    """Read a Karpathy JSON file: image_id is filepath/filename (MS-COCO) or filename, caption_id
    the sentid. The tokens are the file's; where it has none the words are cut later."""
    path = find_annotations(raw, options.corpus.annotations, SIGNS)
    hint = "expected is the format of Karpathy's dataset_*.json"
    records: list[_Image] = read_annotations(path, _Dataset, hint).images
    restval = options.corpus.restval
    kept = [image for image in records if (image.split, restval) != ("restval", "drop")]
    splits = ["train" if image.split == "restval" else image.split for image in kept]
    files = [image.image_id for image in kept]
    captions = [
        (str(s.sentid), file, s.raw, " ".join(s.tokens).lower().split())
        for file, image in zip(files, kept, strict=True)
        for s in image.sentences
    ]
    dropped = len(records) - len(kept)
    return Source(
        root=find_image_folder(raw, options.corpus.images, files),
        images=pd.DataFrame({"image_id": files, "split": splits}),
        captions=pd.DataFrame(captions, columns=["caption_id", "image_id", "text", "tokens"]),
        remarks=(f"left out: {counted(dropped, 'image')} of split restval",) if dropped else (),
    )
