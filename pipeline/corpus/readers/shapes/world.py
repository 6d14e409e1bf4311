"""The description of the built-in dataset, read from world.yaml and checked before it is drawn."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import BeforeValidator, Field, ValidationError, model_validator

from pipeline.corpus.dataset.annotations import refusal
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.section import Section
from pipeline.runtime.yaml_text import read_yaml

HINT = "mend the file or restore it with git checkout"

Word = Annotated[str, Field(pattern=r"^[a-z]+$", max_length=30)]
Phrase = Annotated[str, Field(pattern=r"^[a-z]+( [a-z]+)*$", max_length=60)]
Phrases = Annotated[tuple[Phrase, ...], Field(min_length=1, max_length=20, strict=False)]
Words = Annotated[tuple[Word, ...], Field(min_length=1, max_length=20, strict=False)]
Nouns = Annotated[dict[Word, Word], Field(min_length=1, max_length=20)]
MoreWords = Annotated[tuple[Word, ...], Field(max_length=20, strict=False)]
MoreNouns = Annotated[dict[Word, Word], Field(max_length=20)]
Channel = Annotated[int, Field(ge=0, le=255)]
Radius = Annotated[float, Field(ge=0.02, le=0.22)]
Coordinate = Annotated[float, Field(ge=-1, le=1)]
Point = Annotated[tuple[Coordinate, Coordinate], Field(strict=False)]
Frame = Annotated[str, Field(pattern=r"^([a-z]+ )*\{\}( [a-z]+)*$", max_length=60)]

Attribute = Literal["shape", "colour", "size", "texture"]
ATTRIBUTES: tuple[Attribute, ...] = ("shape", "colour", "size", "texture")


def _known_outline(value: object) -> object:
    """The corners that `circle` stands for; anything else as it is."""
    if isinstance(value, str) and value != "circle":
        raise ValueError(f"outline {value[:30]!r}: allowed are circle or a list of corners")
    angles = np.linspace(0, 2 * np.pi, 64, endpoint=False)
    return [(float(np.cos(a)), float(np.sin(a))) for a in angles] if value == "circle" else value


class Shape(Section):
    """An outline within the unit circle and its nouns, singular to plural. Words under `synonyms`,
    here and below, are said only with shapes.synonyms."""

    outline: Annotated[
        tuple[Point, ...],
        Field(min_length=3, max_length=64, strict=False),
        BeforeValidator(_known_outline),
    ]
    words: Nouns
    synonyms: MoreNouns = Field(default_factory=dict)

    @model_validator(mode="after")
    def _visible(self) -> "Shape":
        points = self.points()
        if np.hypot(*points.T).max() > 1.001:
            raise ValueError("outline leaves the unit circle")
        x, y = points.T
        if abs(x @ np.roll(y, 1) - y @ np.roll(x, 1)) / 2 < 0.2:
            raise ValueError("outline covers less than 0.2 of the unit square: too thin to be seen")
        return self

    def points(self) -> np.ndarray:
        """Corners (P, 2), x and y in units of the radius."""
        return np.array(self.outline, dtype=np.float64)


class Colour(Section):
    rgb: Annotated[tuple[Channel, Channel, Channel], Field(strict=False)]
    words: Words
    synonyms: MoreWords = ()


class Size(Section):
    """Least and most radius, as a share of the image's side, and adjectives."""

    radius: Annotated[tuple[Radius, Radius], Field(strict=False)]
    words: Words
    synonyms: MoreWords = ()

    @model_validator(mode="after")
    def _ordered(self) -> "Size":
        if self.radius[0] > self.radius[1]:
            raise ValueError("radius must be least, then most")
        return self


class Texture(Section):
    """A pattern, how often it is drawn relative to the others, and its adjectives."""

    pattern: Literal["none", "stripes", "dots", "checks"]
    weight: Annotated[float, Field(gt=0, le=1000)]
    words: Words
    synonyms: MoreWords = ()


class Relation(Section):
    """A direction from the second object to the first, and prepositions."""

    direction: Literal["left", "right", "up", "down"]
    words: Phrases


class World(Section):
    """Everything that may be drawn and said."""

    objects: Annotated[
        tuple[Annotated[int, Field(ge=2)], Annotated[int, Field(le=8)]], Field(strict=False)
    ]
    rotation: Annotated[float, Field(ge=0, le=45)]
    shapes: Annotated[dict[Word, Shape], Field(min_length=2, max_length=50)]
    anything: Nouns
    colours: Annotated[dict[Word, Colour], Field(min_length=2, max_length=50)]
    sizes: Annotated[dict[Word, Size], Field(min_length=1, max_length=10)]
    textures: Annotated[dict[Word, Texture], Field(min_length=1, max_length=4)]
    relations: Annotated[dict[Word, Relation], Field(min_length=1, max_length=10)]
    between: Phrases
    counts: Words
    frames: Annotated[tuple[Frame, ...], Field(min_length=1, max_length=50, strict=False)]

    @model_validator(mode="after")
    def _unambiguous(self) -> "World":
        if self.objects[0] > self.objects[1]:
            raise ValueError("objects must be fewest, then most")
        if len(self.counts) != self.objects[1] - 1:
            raise ValueError(f"counts must have the words from two to {self.objects[1]}")
        names = Counter([*self.colours, *self.sizes, *self.textures])
        shared = [name for name, uses in names.items() if uses > 1]
        if shared:
            raise ValueError(f"names of more than one attribute: {listing(shared)}")
        twice = [word for word, uses in Counter(self._words()).items() if uses > 1]
        if twice:
            raise ValueError(f"words with more than one meaning: {listing(twice)}")
        return self

    def choices(self, attribute: Attribute) -> tuple[str, ...]:
        """The values an attribute may take, in the order of the file."""
        return tuple(getattr(self, f"{attribute}s"))

    def vocabulary(self) -> frozenset[str]:
        """Every word that a caption may hold, in small letters."""
        said = " ".join([*self._words(), *self.frames]).replace("{}", "")
        return frozenset([*said.split(), "a", "an", "and"])

    def saying_all(self) -> "World":
        """This world with its synonyms among its words."""
        tables: dict[str, dict[str, Section]] = {}
        for table in ("shapes", "colours", "sizes", "textures"):
            tables[table] = {}
            for name, entry in getattr(self, table).items():
                words = entry.words
                words = words | entry.synonyms if table == "shapes" else words + entry.synonyms
                update = {"words": words, "synonyms": type(words)()}
                tables[table][name] = entry.model_copy(update=update)
        return self.model_copy(update=tables)

    def _words(self) -> Iterator[str]:
        shapes = self.shapes.values()
        for nouns in (*(s.words for s in shapes), *(s.synonyms for s in shapes), self.anything):
            yield from {*nouns, *nouns.values()}  # "sheep" may be its own plural
        for table in (self.colours, self.sizes, self.textures):
            for entry in table.values():
                yield from (*entry.words, *entry.synonyms)
        for relation in self.relations.values():
            yield from relation.words
        yield from (*self.between, *self.counts)


def load_world(path: Path) -> World:
    """Read and check a world.yaml; WorkbenchError names every problem."""
    try:
        return World.model_validate(read_yaml(path))
    except ValidationError as error:
        raise refusal(path, error, HINT) from None
    except WorkbenchError as error:
        raise WorkbenchError(error.message, HINT) from None
