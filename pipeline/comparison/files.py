"""The files of a comparison: given one by one, or as the folders that dvc.yaml writes them to."""

from collections.abc import Sequence
from pathlib import Path

from pipeline.runtime.errors import WorkbenchError, listing


def metrics_files(paths: Sequence[Path], models: Sequence[str]) -> tuple[Path, ...]:
    """Metrics files, folders replaced by what is in them.

    models: those that may have files in a folder, averages too. Raises WorkbenchError naming the
    files of others: they are what is left of a model that is no more.
    """
    found: list[Path] = []
    for path in paths:
        if not path.is_dir():
            found.append(path)
            continue
        inside = sorted(path.glob("*.json"))
        strangers = [str(file) for file in inside if file.stem not in models]
        if strangers:
            raise WorkbenchError(
                f"{listing(strangers)}: dvc.yaml evaluates {listing(models, 100)} alone",
                "delete what is left of a model or an average that is no more, or bring it back: "
                "dvc.yaml lists models, params.yaml averages",
            )
        found += inside
    return tuple(found)


def of_models(paths: Sequence[Path], models: Sequence[str], ending: str) -> tuple[Path, ...]:
    """Files of models, folders replaced by the files in them.

    Args:
        paths: files and folders.
        models: names.
        ending: of a folder's files, after the name of the model.

    Returns:
        The files as they are named, and of each folder those that there are, in the order of the
        models.
    """
    found: list[Path] = []
    for path in paths:
        beside = [path / f"{model}{ending}" for model in models]
        found += [file for file in beside if file.is_file()] if path.is_dir() else [path]
    return tuple(found)
