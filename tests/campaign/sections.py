"""The sections of the campaign by name, each made when its first case is asked for."""

import random
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path

from tests.campaign.cases import Files
from tests.campaign.disturbed import Disturbed
from tests.campaign.hostile import Hostile
from tests.campaign.parsers import Parsers, parsers
from tests.campaign.whole_runs import WholeRuns
from tests.campaign.world import World

Case = Callable[[random.Random, int], str]

GOOD = (
    "refused",  # a plain message and exit code 1
    "unchanged",  # the same values were read
    "whole",  # read by a parser, or made with the right bytes
    "old file kept",
    "continued",  # to the same bytes
    "told to wait",  # one of two, and the bytes are right
    "both ended",  # with the right bytes
    "left out and counted",
    "read",
    "at chance",
)

# How many cases a full run has of each section.
FULL = {
    "flipped bits": 12_000,
    "flipped bits in files of a run": 8_000,
    "files cut short": 3_000,
    "files of a run cut short": 1_000,
    "files that may not grow": 500,
    "kills while rows are written": 100,
    "kills of stages at any time": 100,
    "kills of stages at every call": 900,
    "pairs of one stage": 60,
    "pairs of two stages": 60,
    "stages on full disks": 320,
    "power cuts": 300,
    "calls that the system refuses": 300,
    "stages with exchanged files": 200,
    "stages that may not write long files": 100,
    "stages on read-only disks": 60,
}
HOSTILE = {
    "hostile images": 196,
    "hostile names": 40,
    "features that say nothing": 40,
    "scores that say nothing": 40,
}
RUNS = {"pairs of dvc repro": 4}
PARSED = {name: parser.cases for name, parser in parsers().items()}
FULL = PARSED | HOSTILE | FULL | RUNS


class Sections:
    """Cases by the name of their section.

    folder: scratch; stages: the last ones of the world, none for all.
    """

    def __init__(self, folder: Path, stages: Sequence[str] = ()) -> None:
        self.folder, self.stages = folder, stages

    def __getitem__(self, name: str) -> Case:
        if name in PARSED:
            return self._parsers[name]
        if name in RUNS:
            return self._runs[name]
        if name in HOSTILE:
            return self._hostile[name]
        return self._files.get(name) or self._disturbed[name]

    @cached_property
    def world(self) -> World:
        """The world that the sections about stages share."""
        made = World(self.folder / "world", self.stages)
        made.folder.mkdir()
        return made

    @cached_property
    def _files(self) -> dict[str, Case]:
        return Files(self.folder / "case", self.world).sections

    @cached_property
    def _parsers(self) -> dict[str, Case]:
        return Parsers(self.folder / "parsed").sections

    @cached_property
    def _runs(self) -> dict[str, Case]:
        return WholeRuns(self.folder / "clone").sections

    @cached_property
    def _hostile(self) -> dict[str, Case]:
        return Hostile(self.folder / "hostile", self.world).sections

    @cached_property
    def _disturbed(self) -> dict[str, Case]:
        return Disturbed(self.folder / "stage", self.world).sections
