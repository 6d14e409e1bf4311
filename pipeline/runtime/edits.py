"""Edits of params.yaml while a stage runs.

DVC writes into dvc.lock the values that stand in params.yaml when a stage ends, though the stage
has read those of its beginning. Where they differ, DVC would take what was made of the old values
for what the new ones make. So a stage says what it sees, and does not end well.
"""

import os
from pathlib import Path

from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.process import say
from pipeline.runtime.recipes import leaves
from pipeline.runtime.text import Values
from pipeline.runtime.yaml_text import plain_text, read_yaml

STAGE = "DVC_STAGE"  # the stage that DVC runs here, such as train@vse; of DVC's making
PARAMS = Path("params.yaml")
GRAPH = Path("dvc.yaml")
MISSING = object()


class Edits:
    """What this process has read of params.yaml, compared with what stands there."""

    def __init__(self) -> None:
        self.begun_with: Values | None = None
        self.said: list[str] = []

    def remember(self, values: Values) -> None:
        """Note what params.yaml has; what was noted first stays.

        Args:
            values: the content of the file.
        """
        if self.begun_with is None:
            self.begun_with = values

    def found(self) -> list[str]:
        """The keys that DVC records for the running stage and that have other values now.

        Returns:
            A phrase for each, with both values; none where DVC runs no stage here.

        Raises:
            WorkbenchError: params.yaml cannot be read.
        """
        stage = os.environ.get(STAGE)
        if stage is None or self.begun_with is None:
            return []
        now = read_yaml(PARAMS)
        if now == self.begun_with:
            return []
        before = dict(leaves(self.begun_with))
        after = dict(leaves(now))
        recorded = recorded_keys(stage, now)
        return [
            f"{key} is {_shown(after, key)} and was {_shown(before, key)}"
            for key in dict.fromkeys([*before, *after])
            if before.get(key, MISSING) != after.get(key, MISSING)
            and any(key == own or key.startswith(f"{own}.") for own in recorded)
        ]

    def say_new(self) -> None:
        """Print what was edited since this was last called, or that it was taken back."""
        try:
            found = self.found()
        except WorkbenchError:  # somebody is just writing it: the end of the stage looks again
            return
        if found == self.said:
            return
        self.said = found
        if found:
            say(
                f"{PARAMS}: {listing(found)}: DVC would take this stage for one of the new values; "
                "set them back before it ends, or it must run again"
            )
        else:
            say(f"{PARAMS} has the values of this stage again")

    def check(self) -> None:
        """Raise WorkbenchError naming what was edited."""
        found = self.found()
        if found:
            raise WorkbenchError(
                f"{PARAMS} was edited while {os.environ[STAGE]} ran: {listing(found)}",
                "run the same command for the new values; for the old ones set them back first, "
                "and what was trained or extracted is taken over",
            )


EDITS = Edits()  # of this process


def recorded_keys(stage: str, values: Values) -> list[str]:
    """The keys of params.yaml that DVC records for a stage.

    Args:
        stage: as DVC calls it, with the item behind an `@`.
        values: the content of params.yaml, all of which a stage may depend on.

    Returns:
        Dotted keys, as dvc.yaml lists them under `params`.
    """
    name, _, item = stage.partition("@")
    entry = read_yaml(GRAPH)["stages"].get(name, {})  # none: of a stage that was taken out
    entry = entry.get("do", entry)
    if PARAMS.name in entry.get("deps", []):
        return list(values)
    keys = entry.get("params", [])
    return [key.replace("${key}", item).replace("${item}", item) for key in keys]


def _shown(values: Values, key: str) -> str:
    return plain_text(values[key]) if key in values else "missing"
