"""The files of a comparison: given one by one, or as the folders that dvc.yaml writes them to."""

from collections.abc import Sequence
from pathlib import Path

from pipeline.runtime.errors import WorkbenchError, listing


def metrics_files(paths: Sequence[Path], models: Sequence[str]) -> tuple[Path, ...]:
    """Metrics files, folders replaced by their files; WorkbenchError for those of other models."""
    inside = [file for path in paths if path.is_dir() for file in sorted(path.glob("*.json"))]
    if strangers := [str(file) for file in inside if file.stem not in models]:
        raise WorkbenchError(
            f"{listing(strangers)}: dvc.yaml evaluates {listing(models, 100)} alone",
            "delete what is left of a model or an average that is no more, or bring it back: "
            "dvc.yaml lists models, params.yaml averages",
        )
    return of_models(paths, models, ".json")


def of_models(paths: Sequence[Path], models: Sequence[str], ending: str) -> tuple[Path, ...]:
    """Files of models: those named, and of each folder the files <model><ending> that there are."""
    files: list[Path] = []
    for path in paths:
        beside = [path / f"{model}{ending}" for model in models]
        files += [file for file in beside if file.is_file()] if path.is_dir() else [path]
    return tuple(files)
