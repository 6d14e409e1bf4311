"""The loop over images that fills the files of proposals and of phrases' own boxes."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from models.backbone.preprocessing import Pictures, check_aspects
from models.phrases.regions import Describer, as_tensors
from models.phrases.views import Proposed, View
from pipeline.corpus.loading import ImageFiles, decode_ahead, whole_batches
from pipeline.corpus.tables import images_digest
from pipeline.phrases.boxes import rows_of_images
from pipeline.phrases.params import PhrasesConfig
from pipeline.phrases.tables import DistinctRegions
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.process import Progress
from pipeline.storage.features import FeatureWriter

FromFile = Callable[[str, tuple[int, int]], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Sources:
    describer: Describer
    # proposes boxes; the describer itself where it does, None where a file has them
    proposer: Describer | None
    # from an image's id and size to its boxes and scores, None where the proposer has them
    file: FromFile | None
    number: int  # R, proposals of an image at most

    def look(self, images: Sequence[Tensor], ids: Sequence[str]) -> tuple[View, list[Proposed]]:
        """A view of B images, uint8 RGB (3, H, W) on the device, and the proposals of each."""
        view = self.describer.see(images)
        kept = [
            Proposed(*(part[: self.number] for part in group if part is not None))
            for group in self._proposed(view, images, ids)
        ]
        if self.proposer is not self.describer:
            vectors = view.features([group.boxes for group in kept])
            kept = [group._replace(features=f) for group, f in zip(kept, vectors, strict=True)]
        return view, kept

    def _proposed(self, view: View, images: Sequence[Tensor], ids: Sequence[str]) -> list[Proposed]:
        if self.file is not None:
            sizes = [(image.shape[-1], image.shape[-2]) for image in images]
            read = [self.file(name, size) for name, size in zip(ids, sizes, strict=True)]
            device = images[0].device
            return [Proposed(*(torch.from_numpy(a).to(device) for a in arrays)) for arrays in read]
        assert self.proposer is not None, "boxes come from a file or from a proposer"
        seen: Any = view if self.proposer is self.describer else self.proposer.see(images)
        proposed: list[Proposed] = seen.proposals()
        return proposed


def described(
    settings: PhrasesConfig, sources: Sources, images: pd.DataFrame
) -> dict[str, str | int | float]:
    proposals = settings.proposals.model_dump(exclude={"path", "other_images"})
    features = settings.features.model_dump(mode="json", exclude={"workers", "batch_size"})
    if settings.features.source == "detector":
        del features["network"]
    elif not settings.features.network.long_side:
        # Files name the limit where there is one, so that vectors made alike have equal bytes.
        del features["network"]["long_side"]
    maker = sources.describer
    return {
        "model": maker.model,
        "layer": maker.layer,
        "weights_sha256": maker.weights,
        "params": json.dumps({"proposals": proposals, "features": features}, sort_keys=True),
        "corpus_sha256": images_digest(images),
    }


def proposal_datasets(number: int, width: int) -> dict[str, tuple[tuple[int, ...], str]]:
    """Shape of a row and type of every dataset; number: R; width: D."""
    return {
        "features": ((number, width), "float16"),
        "boxes": ((number, 4), "float32"),
        "scores": ((number,), "float32"),
        "counts": ((), "int32"),
        "sizes": ((2,), "int32"),
    }


def extract_boxes(
    images: pd.DataFrame,
    regions: DistinctRegions,
    sources: Sources,
    proposals: FeatureWriter,
    truth: FeatureWriter,
    settings: PhrasesConfig,
    device: torch.device,
    max_pixels: int,
) -> None:
    """Compute the missing rows of both files: `proposal_datasets` of the images, and `features`
    (D,) of the regions of phrases."""
    check_aspects(images)
    ids = images["image_id"].tolist()
    owners = pd.Index(ids).get_indexer(pd.Index(regions.image_ids))
    regions_of = rows_of_images(owners, len(ids))
    missing = np.union1d(proposals.missing, owners[truth.missing])
    todo = whole_batches(missing, settings.features.batch_size, len(ids))
    source = Pictures(ImageFiles(images, max_pixels), todo)
    done = len(ids) - sum(map(len, todo))
    with Progress("proposals", len(ids), "images", done=done) as progress:
        for batch in decode_ahead(source, settings.features.workers, "phrases.features"):
            names = [ids[row] for row in batch.rows]
            per_image = [regions_of[row] for row in batch.rows]
            boxes = [torch.from_numpy(regions.boxes[rows]).to(device) for rows in per_image]
            with torch.inference_mode():
                pictures = as_tensors(batch.pictures, device)
                view, kept = sources.look(pictures, names)
                none = [name for name, one in zip(names, kept, strict=True) if not len(one.boxes)]
                if none:
                    raise WorkbenchError(
                        f"no proposals in image {none[0]}",
                        "train the detector longer, or see phrases.proposals.source",
                    )
                vectors = torch.cat(view.features(boxes))
            sizes = [(picture.shape[1], picture.shape[0]) for picture in batch.pictures]
            rows = np.concatenate(per_image)
            if len(rows):
                truth.write(rows, features=vectors.float().cpu().numpy())
            proposals.write(batch.rows, **_packed(kept, sizes, sources.number))
            progress.update(len(batch.rows))


def _packed(
    proposed: Sequence[Proposed], sizes: Sequence[tuple[int, int]], number: int
) -> dict[str, np.ndarray]:
    """The datasets' rows of B images: zeros beyond the counts."""
    assert proposed[0].features is not None, "proposals have vectors"
    shapes = proposal_datasets(number, proposed[0].features.shape[1])
    arrays = {
        name: np.zeros((len(proposed), *row), "float32" if name == "features" else kind)
        for name, (row, kind) in shapes.items()
    }
    for row, (group, size) in enumerate(zip(proposed, sizes, strict=True)):
        count = len(group.boxes)
        arrays["counts"][row], arrays["sizes"][row] = count, size
        for name, values in group._asdict().items():
            arrays[name][row, :count] = values.float().cpu().numpy()
    return arrays
