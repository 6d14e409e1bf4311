"""What a value of params.yaml may be: types of keys, and how keys contradict each other."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Final, Literal, LiteralString, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    FieldSerializationInfo,
    PlainSerializer,
    PlainValidator,
    ValidationError,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from pipeline.runtime.first_bytes import absent
from pipeline.runtime.kernels import Choice

QUEUED = "/.dvc/tmp/exps/"  # above the copies in which DVC runs what was queued
# Files of vectors that are not read, and of which opening says the command that saves them.
CONVERTED = (".pt", ".pth", ".pkl", ".pickle", ".json", ".csv")
VECTOR_FILES = (".npy", ".npz", ".h5", ".hdf5", ".parquet", ".safetensors", ".mat")

# Context of model_dump: values as params.yaml writes them, `none` for no projection.
AS_WRITTEN: Final = {"written": True}

# Types of errors whose text is complete: `key = value: text`, and `key: text` for a whole.
WRONG_VALUE: Final = "wrong_value"
WRONG_WHOLE: Final = "wrong_whole"


def _count_or(word: str, meaning: str | None) -> PlainValidator:
    def check(value: object) -> int | str | None:
        if isinstance(value, str) and value == word:
            return meaning
        if type(value) is int and value >= 1:
            return value
        raise _error(WRONG_VALUE, f"must be a whole number from 1, or {word}")

    return PlainValidator(check)


def _as_written(value: int | None, info: FieldSerializationInfo) -> int | str | None:
    return "none" if value is None and info.context is AS_WRITTEN else value


def _count_or_share(value: object) -> int | float:
    if type(value) is int and value >= 1:
        return value
    if type(value) is float and 0.0 < value < 1.0:
        return value
    raise _error(WRONG_VALUE, "must be a whole number from 1, or a share between 0 and 1")


@dataclass(frozen=True)
class NamesFile:
    """Marks a key that may name a file or folder outside of DVC's sight (pipeline.runtime.named).
    words: values of the key that name none."""

    words: tuple[str, ...] = ()


def in_queued_run() -> bool:
    """Whether this is the copy of the repository in which DVC runs what was queued."""
    return QUEUED in f"{Path.cwd().as_posix()}/"


def not_found(path: str, what: str = "file or folder") -> str:
    """What a message says of a path of params.yaml that leads nowhere, and why it may.

    Args:
        path: As params.yaml has it.
        what: What is looked for there.

    Returns:
        The text behind the value in a message.
    """
    text = f"no such {what}"
    if path.startswith("~"):
        whole = os.path.expanduser(path)
        return f"{text}; ~ is not filled in: write {whole if whole != path else 'the whole path'}"
    if absent(path, text) != text:  # an address
        return absent(path)
    if in_queued_run():
        copy = "not in this copy of the repository: a queued run has tracked files only"
        return f"{copy}; give an absolute path, or track it with dvc add, and commit"
    return text


def _existing(value: str) -> str:
    if not os.path.exists(value):
        raise _error(WRONG_VALUE, not_found(value))
    return value


def one_of(names: Iterable[str]) -> PlainValidator:
    """The type of a key that names an entry of a registry: `Annotated[str, one_of(READERS)]`."""
    allowed = tuple(names)

    def check(value: object) -> str:
        if isinstance(value, str) and value in allowed:
            return value
        raise _error(WRONG_VALUE, f"allowed are {', '.join(allowed)}")

    return PlainValidator(check)


def some_of(names: Iterable[str]) -> PlainValidator:
    """The type of a key that names one or several different things, joined by +: `gmm+hglmm`."""
    allowed = tuple(names)

    def check(value: object) -> str:
        if isinstance(value, str):
            names = value.split("+")
            if set(names) <= set(allowed) and len(set(names)) == len(names):
                return value
        several = "+".join(allowed[:2])
        raise _error(WRONG_VALUE, f"allowed are {', '.join(allowed)} or several, as {several}")

    return PlainValidator(check)


def _error(kind: LiteralString, text: str) -> PydanticCustomError:
    return PydanticCustomError(kind, "{text}", {"text": text})  # braces in a text stay as they are


Count = Annotated[int, Field(ge=1)]
Natural = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]
Name = Annotated[str, Field(min_length=1)]
PathOrNone = Annotated[Name | None, NamesFile()]
Weights = Annotated[Name, NamesFile(("detector", "random", "imagenet"))]  # of an image network
ExistingPath = Annotated[Name, AfterValidator(_existing)]
CountOrNone = Annotated[
    int | None, _count_or("none", None), PlainSerializer(_as_written, when_used="always")
]
CountOrShare = Annotated[int | float, PlainValidator(_count_or_share)]
CountOrAdaptive = Annotated[int | str, _count_or("adaptive", "adaptive")]


class Section(BaseModel):
    """A frozen mapping of params.yaml without implicit conversions and without unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    @classmethod
    def validate_complete(cls, values: Mapping[str, object]) -> Self:
        """A section with no key left to its default: what a file of ours says it was made with."""
        lacking = sorted(cls.model_fields.keys() - values.keys())
        if lacking:
            raise ValueError(f"without {', '.join(lacking)}")
        return cls.model_validate(values)


def wrong_defaults(section: type[Section]) -> list[str]:
    """What is wrong with a section of which params.yaml gives no key.

    Returns:
        A text for each key without a default, and for each default that its type refuses.
    """
    try:
        section.model_validate(section().model_dump(mode="json", context=AS_WRITTEN))
    except ValidationError as error:
        details = [(".".join(map(str, detail["loc"])), detail) for detail in error.errors()]
        return [
            f"{key} has no default"
            if detail["type"] == "missing"
            else f"{key} = {detail['input']!r}: {detail['msg']}"
            for key, detail in details
        ]
    return []


def wrong_value(key: str, value: object, text: str) -> InitErrorDetails:
    """A problem of one key.

    Args:
        key: with dots between names, from the section on.
        value: that params.yaml has.
        text: what is wrong with it.

    Returns:
        A problem that is reported as `key = value: text`.
    """
    return InitErrorDetails(type=_error(WRONG_VALUE, text), loc=_location(key), input=value)


def wrong_whole(key: str, text: str) -> InitErrorDetails:
    """A problem of a section or list as a whole.

    Args:
        key: with dots between names; "" for the section itself.
        text: what is wrong with it.

    Returns:
        A problem that is reported as `key: text`.
    """
    return InitErrorDetails(type=_error(WRONG_WHOLE, text), loc=_location(key), input=None)


def cross_check(check: Callable[[Any], Iterator[InitErrorDetails]]) -> Any:
    """Decorator: a generator of problems, all reported once every key is right in itself."""

    @wraps(check)
    def validate(self: Any) -> Any:
        problems = list(check(self))
        if problems:
            raise ValidationError.from_exception_data(type(self).__name__, problems)
        return self

    return model_validator(mode="after")(validate)


class WeightsSection(Section):
    """Weights of terms that are added up: not all of them are 0."""

    @cross_check
    def _some_term_counts(self) -> Iterator[InitErrorDetails]:
        if not any(self.model_dump().values()):
            yield wrong_whole("", "all are 0; at least one term must have another weight")


def network_problems(section: Any, name: str) -> Iterator[InitErrorDetails]:
    """Problems of the keys `weights` and `normalisation` of an image network's section.

    Args:
        section: with `model`, `weights` and `normalisation`.
        name: of the section, for messages.

    Yields:
        A problem each.
    """
    named = section.weights in ("detector", "random", "imagenet")
    if not named and not os.path.isfile(section.weights):
        yield wrong_value(
            "weights",
            section.weights,
            f"{not_found(section.weights, 'file')}; allowed are detector, random, imagenet or the "
            "path of a state dict",
        )
    if section.normalisation == "caffe" and section.weights in ("detector", "imagenet"):
        whose = "its own" if section.model.startswith("timm/") else "torchvision's"
        yield wrong_value(
            "normalisation",
            "caffe",
            f"{name}.weights = {section.weights!r} learnt from {whose}; "
            "caffe is for weights that were converted from Caffe",
        )


def _location(key: str) -> tuple[int | str, ...]:
    return tuple(key.split(".")) if key else ()


class EmbeddingFileConfig(Section):
    """A file of vectors made elsewhere, of images or captions: where it lies, what is read."""

    path: PathOrNone = None
    ids: Name = "ids"
    features: Name = "features"
    other_ids: Literal["error", "skip"] = "error"

    def path_problems(self, switch: str, value: str) -> Iterator[InitErrorDetails]:
        """Problems of the path, which must be given where a file is read and nowhere else.

        Args:
            switch: the key that decides whether one is read.
            value: of that key; `file` where one is.

        Yields:
            A problem each.
        """
        if value != "file":
            if self.path is not None:
                yield wrong_value(
                    "file.path", self.path, f"must be null when {switch} is {value!r}"
                )
        elif self.path is None:
            yield wrong_value("file.path", None, f"{switch} 'file' needs the path of a file")
        elif not os.path.exists(self.path):
            yield wrong_value("file.path", self.path, not_found(self.path))
        elif not os.path.isdir(self.path) and not self.path.endswith(VECTOR_FILES + CONVERTED):
            endings = ", ".join(VECTOR_FILES)
            yield wrong_value(
                "file.path",
                self.path,
                f"allowed are files that end in {endings}, and folders of VSE++ or clip-retrieval",
            )

    def read_names(self) -> dict[str, str]:
        """The keys that decide which values of a file are read."""
        return {"ids": self.ids, "features": self.features}


class ExtractionConfig(Section):
    """Who extracts features: this process alone, or processes that make a shard each."""

    engine: Literal["local", "ray"] = "local"
    workers: Count = 1
    shard: Count | None = None
    kept_gb: NonNegative = 20.0

    @cross_check
    def _shards_for_all(self) -> Iterator[InitErrorDetails]:
        if self.shard is None and (self.engine != "local" or self.workers > 1):
            yield wrong_value(
                "shard",
                None,
                f"engine {self.engine!r} with {self.workers} workers needs a number of rows",
            )


class RuntimeConfig(Section):
    """Where a run takes place; not part of what it computes."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    threads: Count = 2
    processes: Count = 1
    kernels: Choice = "portable"
    extraction: ExtractionConfig = ExtractionConfig()
