"""The artefacts that models are trained and scored from."""

from dataclasses import dataclass
from pathlib import Path

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import sha256_file


@dataclass(frozen=True)
class Inputs:
    images: Path
    captions: Path
    features: Path  # of the images or their regions
    text: Path  # the folder of the vocabulary, or a file of sentence features
    network: Path | None = None  # the one behind the image features
    classes: Path | None = None  # of the instance loss
    states: Path | None = None  # of the captions' tokens
    encoder: Path | None = None  # of queries alone: what their texts go through

    def required(self, field: str) -> Path:
        """An artefact that not every model reads; WorkbenchError when it was not given."""
        path: Path | None = getattr(self, field)
        if path is None:
            raise WorkbenchError(f"this model needs the option --{field}", "see dvc.yaml")
        return path

    def digests(self) -> dict[str, str]:
        """SHA-256 of everything in every artefact, by field and file name."""
        return {
            f"{field}/{file.name}": sha256_file(file)
            for field, path in sorted(vars(self).items())
            if path is not None
            for file in (sorted(path.iterdir()) if path.is_dir() else [path])
        }
