"""Vectors of images or captions that were made elsewhere, CLIP's or any other: made features of."""

from dataclasses import dataclass

import pandas as pd

IMPORTED = "imported from "  # begins the attribute `model` of what was imported


@dataclass(frozen=True)
class Wanted:
    """The images or captions for which vectors are wanted."""

    table: pd.DataFrame  # of the corpus, in whose order the vectors are stored
    key: str  # image_id or caption_id, its column of ids
    setting: str  # the key of params.yaml that leaves out rows of other ids, for messages
    captions: pd.DataFrame | None = None  # of images, for folders that name images by captions

    @property
    def ids(self) -> list[str]:
        """The N ids, in the order of the table."""
        return list(self.table[self.key])

    @property
    def are_images(self) -> bool:
        """Whether they are images, and no captions."""
        return self.key == "image_id"
