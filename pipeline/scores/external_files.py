"""The files of another program's scores or embeddings, and their digests."""

from pathlib import Path

from pipeline.arrays.ids import file_beside
from pipeline.runtime.files import sha256_file
from pipeline.scores.params import ExternalConfig

IDS, BOTH = ("ids",), ("image_ids", "caption_ids")  # of embeddings, of a matrix of scores
FILES = {"scores": BOTH, "val_scores": BOTH, "images": IDS, "captions": IDS}


def files_of(config: ExternalConfig) -> dict[str, tuple[Path, tuple[str, ...]]]:
    """Each file by its key in params.yaml, with the lists of ids that it may have."""
    given = {key: getattr(config, key) for key in FILES}
    return {key: (Path(path), FILES[key]) for key, path in given.items() if path is not None}


def digests_of(config: ExternalConfig) -> dict[str, str]:
    """SHA-256 of each file by its key, and of each list of ids beside it, such as `images.ids`."""
    found: dict[str, str] = {}
    for key, (path, names) in files_of(config).items():
        found[key] = sha256_file(path)
        lists = {f"{key}.{name}": file_beside(path, name) for name in names}
        found |= {said: sha256_file(place) for said, place in lists.items() if place}
    return found
