"""params.yaml as typed, frozen sections: the only reader of that file.

Every key is required and no other key is accepted, so that a run is described by what the file
says and a misspelt override never passes unnoticed. All problems are reported at once.
"""

import difflib
import os
import reprlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from pipeline.errors import WorkbenchError

UNDO = "undo with: touch params.yaml && git checkout params.yaml"

Count = Annotated[int, Field(ge=1)]
Natural = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]
Name = Annotated[str, Field(min_length=1)]


class Section(BaseModel):
    """A frozen mapping of params.yaml without implicit conversions and without unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Runtime(Section):
    """Where a run takes place; not part of what it computes."""

    device: Literal["auto", "cpu", "cuda"]
    threads: Count


class Corpus(Section):
    """How the files under `raw` are read and checked."""

    annotations: Name | None
    images: Name | None
    restval: Literal["train", "drop"]
    split_files: Name | None
    val_images: Count
    test_images: Count
    skip_bad_images: bool
    max_megapixels: Positive


class Shapes(Section):
    """Sizes of the rendered built-in world."""

    train: Count
    val: Count
    test: Count
    image_size: Annotated[int, Field(ge=32, le=1024)]
    captions_per_image: Annotated[int, Field(ge=1, le=20)]
    near_duplicates: Share


class Vocabulary(Section):
    """Words and their vectors."""

    source: Literal["train", "word2vec_bin", "word2vec_text", "gensim"]
    vectors: Name | None
    dim: Count
    window: Count
    epochs: Count
    min_count: Count
    known_words_only: bool
    sentence_markers: bool


class ImageFeatures(Section):
    """Which network sees the images, and what is kept of it."""

    model: Name
    weights: Name
    layers: Annotated[tuple[Name, ...], Field(min_length=1, strict=False)]
    pool: Literal["mean", "max", "mean_max"]
    views: Literal["center", "flip", "ten_crop"]
    size: Annotated[int, Field(ge=32, le=1024)] | None
    precision: Literal["fp32", "bf16"]
    compile: bool
    batch_size: Count
    workers: Natural


class Ranking(Section):
    """The ranking loss chosen by the top-level `loss`."""

    margin: Positive
    k: Count
    warmup_epochs: Natural
    reduction: Literal["sum", "mean"]


class Training(Section):
    """Optimisation of one model."""

    epochs: Count
    batch_size: Annotated[int, Field(ge=2)]
    lr: Positive
    lr_step: Count
    lr_factor: Annotated[float, Field(gt=0, le=1)]
    clip: NonNegative
    precision: Literal["fp32", "bf16"]


class VSE(Section):
    """The VSE model: widths, word initialisation, optimisation."""

    dim: Count
    hidden: Count
    word_dim: Count
    word_vectors: Literal["random", "pretrained"]
    standardise_images: bool
    training: Training


class Evaluation(Section):
    """Protocol and confidence intervals."""

    folds: Count
    bootstrap: Natural
    confidence: Annotated[float, Field(gt=0, lt=1)]


class Params(Section):
    """The whole of params.yaml."""

    loss: Literal["sum_margin", "max_margin", "knn_margin"]
    dataset: Literal["shapes", "karpathy_json", "captions_csv"]
    raw: Name
    seed: Annotated[int, Field(ge=0, lt=2**32)]
    runtime: Runtime
    corpus: Corpus
    shapes: Shapes
    vocabulary: Vocabulary
    image_features: ImageFeatures
    ranking: Ranking
    vse: VSE
    evaluation: Evaluation


def load_params(path: Path | str = "params.yaml") -> Params:
    """Read and validate a params.yaml.

    Raises WorkbenchError naming every unknown, missing, ill-typed, out-of-range or contradictory
    key with its value and what is allowed.
    """
    values = read_yaml(Path(path))
    problems = list(find_problems(values))
    if problems:
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        raise WorkbenchError(f"{path}: {count}\n  " + "\n  ".join(problems), UNDO)
    return Params.model_validate(values)


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML 1.2 file as plain values; WorkbenchError when it cannot be parsed."""
    try:
        values = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise WorkbenchError(f"{path}: no such file", "run from the repository's root") from None
    except UnicodeDecodeError as error:
        raise WorkbenchError(f"{path}: not UTF-8 text (byte {error.start})", UNDO) from None
    except MarkedYAMLError as error:
        mark = error.problem_mark
        place = f", line {mark.line + 1}" if mark else ""
        raise WorkbenchError(f"{path}{place}: not valid YAML: {error.problem}", UNDO) from None
    except (YAMLError, RecursionError, ValueError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise WorkbenchError(f"{path}: not valid YAML: {first}", UNDO) from None
    if not isinstance(values, dict):
        raise WorkbenchError(f"{path}: expected a mapping of parameters at the top level", UNDO)
    return values


def find_problems(values: dict[str, Any]) -> Iterator[str]:
    """Yield one line per problem: first of single keys, then of combinations that can be judged."""
    try:
        Params.model_validate(values)
    except ValidationError as error:
        for detail in error.errors():
            yield describe(detail)
    yield from contradictions(values)


def describe(detail: ErrorDetails) -> str:
    """One line for one pydantic error: key, value, what is allowed."""
    location = list(detail["loc"])
    key = ".".join(str(part) for part in location)
    value, kind, context = detail["input"], detail["type"], detail.get("ctx", {})
    if kind == "extra_forbidden":
        near = difflib.get_close_matches(str(location[-1]), _siblings(location[:-1]), n=1)
        return f"{key} = {_brief(value)}: unknown key" + (
            f"; did you mean {near[0]}?" if near else ""
        )
    if kind == "missing":
        return f"{key}: missing; every key must be given"
    if kind == "literal_error":
        return f"{key} = {_brief(value)}: allowed are {_plain(context['expected'])}"
    if kind in ("string_too_short", "too_short"):
        return f"{key} = {_brief(value)}: must not be empty"
    if kind in ("model_type", "model_attributes_type"):
        return f"{key} = {_brief(value)}: must be a section with keys {_keys(location)}"
    allowed = detail["msg"].replace("Input should be", "must be").replace("Input", "value")
    return f"{key} = {_brief(value)}: {allowed}"


def contradictions(values: dict[str, Any]) -> Iterator[str]:
    """Combinations that are wrong although each value is allowed."""

    def get(key: str) -> Any:
        node: Any = values
        for part in key.split("."):
            node = node.get(part) if isinstance(node, dict) else None
        return node

    raw = get("raw")
    if isinstance(raw, str) and raw and not os.path.exists(raw):
        yield f"raw = {raw!r}: no such file or folder"
    source, vectors = get("vocabulary.source"), get("vocabulary.vectors")
    if source in ("word2vec_bin", "word2vec_text", "gensim"):
        if vectors is None:
            yield f"vocabulary.vectors = None: source {source!r} needs the path of a vector file"
        elif isinstance(vectors, str) and not os.path.isfile(vectors):
            yield f"vocabulary.vectors = {vectors!r}: no such file"
    if source == "train":
        if vectors is not None:
            yield f"vocabulary.vectors = {vectors!r}: must be null when source is 'train'"
        if get("vocabulary.known_words_only") is True:
            yield "vocabulary.known_words_only = True: needs a source of vectors other than 'train'"
        word_dim, dim = get("vse.word_dim"), get("vocabulary.dim")
        if get("vse.word_vectors") == "pretrained" and word_dim != dim:
            yield (
                f"vse.word_dim = {word_dim!r}: must equal vocabulary.dim = {dim!r} "
                "when vse.word_vectors is 'pretrained'"
            )
    weights = get("image_features.weights")
    named = weights in ("random", "imagenet", "") or not isinstance(weights, str)
    if not named and not os.path.isfile(weights):
        yield (
            f"image_features.weights = {weights!r}: no such file; "
            "allowed are random, imagenet or the path of a state dict"
        )
    warmup, epochs = get("ranking.warmup_epochs"), get("vse.training.epochs")
    if isinstance(warmup, int) and isinstance(epochs, int) and warmup >= epochs:
        yield f"ranking.warmup_epochs = {warmup}: must be below vse.training.epochs = {epochs}"


def _brief(value: Any) -> str:
    """A value for a message; cut, because aliases let a small file stand for a huge value."""
    short = reprlib.Repr()
    short.maxlevel, short.maxstring, short.maxother = 3, 120, 120
    return short.repr(value)


def _plain(expected: str) -> str:
    return expected.replace("'", "").replace(" or ", ", ")


def _keys(location: list[Any]) -> str:
    return ", ".join(_siblings(location))


def _siblings(location: list[Any]) -> list[str]:
    section: Any = Params
    for part in location:
        field = section.model_fields.get(part)
        section = field.annotation if field else None
        if not (isinstance(section, type) and issubclass(section, BaseModel)):
            return []
    return list(section.model_fields)
