"""Section `published` of params.yaml: rows of papers' tables, to stand beside what is measured."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Annotated

from pydantic import Field
from pydantic_core import InitErrorDetails

from pipeline.evaluation.known_splits import SPLITS
from pipeline.runtime.section import Name, Section, cross_check, one_of, wrong_value, wrong_whole

OTHER_SPLIT = "other"  # of published figures: their images are not those of any known split
RECALLS = ("r1", "r5", "r10")
Percent = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]


class PublishedRecalls(Section):
    """A paper's figures of one direction: recalls in percent, the median rank; null: not given."""

    r1: Percent | None = None
    r5: Percent | None = None
    r10: Percent | None = None
    medr: Annotated[float, Field(ge=1, allow_inf_nan=False)] | None = None

    @cross_check
    def _recalls_rise(self) -> Iterator[InitErrorDetails]:
        given = [(key, value) for key, value in self if key in RECALLS and value is not None]
        for (lower, small), (higher, large) in pairwise(given):
            if large < small:
                yield wrong_value(higher, large, f"must not be below {lower} = {small:g}")


class PublishedConfig(Section):
    """One row of a paper's table, which is shown beside what `model` reaches here."""

    model: Name
    criterion: Name = "naive"
    paper: Name
    table: Name
    row: Name
    split: Annotated[str, one_of([*SPLITS, OTHER_SPLIT])]
    i2t: PublishedRecalls = PublishedRecalls()
    t2i: PublishedRecalls = PublishedRecalls()
    differs: str | None = None

    @cross_check
    def _some_figure(self) -> Iterator[InitErrorDetails]:
        if not self.figures():
            yield wrong_whole("", "has no figure; give i2t: {r1: 50.0}, or t2i")

    def figures(self) -> dict[tuple[str, str], float]:
        """The figures that the row gives, by direction and metric: ("i2t", "r1")."""
        return {
            (way, name): value
            for way in ("i2t", "t2i")
            for name, value in getattr(self, way)
            if value is not None
        }


def exchanged_splits(published: Sequence[PublishedConfig]) -> Iterator[tuple[int, str]]:
    """Rows of one paper and model whose figures on the harder split are above those on the easier.

    Ranking among five times as many of the same images cannot find more within the first K.

    Args:
        published: rows of tables.

    Yields:
        The number of the row of the harder split, and what is wrong with it.
    """
    for number, hard in enumerate(published):
        easier = SPLITS[hard.split].easier if hard.split in SPLITS else None
        for easy in published:
            if easy.split == easier and _same_run(easy, hard):
                yield from ((number, text) for text in _above(easy, hard))


def _same_run(one: PublishedConfig, other: PublishedConfig) -> bool:
    """Whether two rows are what one paper reports of one model."""
    key = ("model", "criterion", "paper")
    return all(getattr(one, name) == getattr(other, name) for name in key)


def _above(easy: PublishedConfig, hard: PublishedConfig) -> Iterator[str]:
    on_easy = easy.figures()
    for (way, name), value in hard.figures().items():
        other = on_easy.get((way, name))
        if name in RECALLS and other is not None and value > other:
            yield (
                f"{way} {name} = {value:g} on {SPLITS[hard.split].title} is above {other:g} on "
                f"{SPLITS[easy.split].title}: are the two exchanged?"
            )
