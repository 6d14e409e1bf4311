"""The corpus as galleries show it: looked up by id, pictures made once for all models."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from pipeline.evaluation.file import RankRecord
from pipeline.report.thumbnails import thumbnail
from pipeline.runtime.errors import WorkbenchError, listing

REMEDY = "score the corpus that is there now: dvc repro"


@dataclass(frozen=True)
class Entry:
    """An image or a caption in a gallery.

    Attributes:
        id: in the corpus.
        picture: data URI of an image, empty for a caption.
        text: of a caption, empty for an image.
    """

    id: str
    picture: str = ""
    text: str = ""


class Shelf:
    """Images and captions of the corpus by id."""

    def __init__(self, images: pd.DataFrame, captions: pd.DataFrame) -> None:
        """images and captions: the corpus tables."""
        self._paths: dict[str, str] = dict(zip(images["image_id"], images["path"], strict=True))
        self._texts = dict(zip(captions["caption_id"], captions["text"], strict=True))
        self._owners = dict(zip(captions["caption_id"], captions["image_id"], strict=True))
        groups = dict(zip(images["image_id"], images["group"], strict=True))
        self._groups = {name: groups[image] for name, image in self._owners.items()}
        self._pictures: dict[str, str] = {}

    def captions_of_images(self, captions: Sequence[str]) -> np.ndarray:
        """How many of these captions each of their images has: (images,) int64."""
        return np.unique([self._owners[name] for name in captions], return_counts=True)[1]

    def check(self, path: Path, record: RankRecord) -> None:
        """Raise WorkbenchError, naming the rank file `path`, unless its ids are the corpus's."""
        captions = zip(record.caption_ids, record.caption_groups, strict=True)
        moved = [f"{c} ({g})" for c, g in captions if self._groups.get(c, g) != g]
        problems = [
            f"{len(bad)} {what}: {listing(bad, 5)}"
            for what, bad in (
                ("images that are not in the corpus", _unknown(record.image_ids, self._paths)),
                ("captions that are not in the corpus", _unknown(record.caption_ids, self._texts)),
                ("captions of another image or person than in the corpus", moved),
            )
            if bad
        ]
        if problems:
            raise WorkbenchError(f"{path}: ranks of " + "; ".join(problems), REMEDY)

    def check_pairs(self, path: Path, pairs: Sequence[tuple[str, str]]) -> None:
        """Raise WorkbenchError, naming the file `path`, unless the corpus has the images and
        captions of all pairs of an image's and a caption's id."""
        images, captions = zip(*pairs, strict=True) if pairs else ((), ())
        lost = _unknown(images, self._paths) + _unknown(captions, self._texts)
        if lost:
            raise WorkbenchError(f"{path}: the corpus does not have {listing(lost, 5)}", REMEDY)

    def path(self, image_id: str) -> str:
        """The file of an image."""
        return self._paths[image_id]

    def image(self, image_id: str) -> Entry:
        """An image with its thumbnail; WorkbenchError naming the file when it is not readable."""
        if image_id not in self._pictures:
            self._pictures[image_id] = thumbnail(self._paths[image_id])
        return Entry(image_id, picture=self._pictures[image_id])

    def caption(self, caption_id: str) -> Entry:
        """A caption with its raw text."""
        return Entry(caption_id, text=self._texts[caption_id])


def _unknown(ids: Sequence[str], known: dict[str, str]) -> list[str]:
    return [name for name in ids if name not in known]
