"""What a value of params.yaml may be: the base of all sections and the types of their keys."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainValidator
from pydantic_core import PydanticCustomError


def _count_or_none(value: Any) -> int | None:
    if value == "none" and isinstance(value, str):
        return None
    if type(value) is int and value >= 1:
        return value
    raise PydanticCustomError("count_or_none", "must be a whole number from 1, or none")


def _count_or_adaptive(value: Any) -> int | str:
    if value == "adaptive" and isinstance(value, str):
        return value
    if type(value) is int and value >= 1:
        return value
    raise PydanticCustomError("count_or_adaptive", "must be a whole number from 1, or adaptive")


Count = Annotated[int, Field(ge=1)]
Natural = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]
Name = Annotated[str, Field(min_length=1)]
CountOrNone = Annotated[int | None, PlainValidator(_count_or_none)]
CountOrAdaptive = Annotated[int | str, PlainValidator(_count_or_adaptive)]


class Section(BaseModel):
    """A frozen mapping of params.yaml without implicit conversions and without unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class RuntimeConfig(Section):
    """Where a run takes place; not part of what it computes."""

    device: Literal["auto", "cpu", "cuda"]
    threads: Count
