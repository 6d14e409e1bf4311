"""Where features may come from other than a network or an encoder here, a file each: its name is
what `image_features.source` or `sentences.encoding` of params.yaml says. All are asked for the
vectors that are `Wanted`."""

from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from pipeline.runtime.registry import Registry

IMPORTS = Registry(
    "pipeline.features.imports",
    "import of vectors",
    "import_job",
    "import_job(settings, wanted, corpus_sha256, described) -> FeatureJob",
)


@dataclass(frozen=True)
class Wanted:
    """The images or captions for which vectors are wanted."""

    table: pd.DataFrame  # of the corpus, in whose order the vectors are stored
    key: str  # image_id or caption_id, its column of ids
    setting: str  # the key of params.yaml that leaves out rows of other ids, for messages
    captions: pd.DataFrame | None = None  # of images, for folders that name images by captions

    @cached_property
    def ids(self) -> list[str]:
        """The N ids, in the order of the table."""
        return list(self.table[self.key])

    @property
    def are_images(self) -> bool:
        """Whether they are images, and no captions."""
        return self.key == "image_id"
