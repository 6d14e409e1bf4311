"""The section of params.yaml of canonical correlation analysis."""

import math
from typing import Annotated, Any

from pydantic import PlainValidator
from pydantic_core import PydanticCustomError

from pipeline.runtime.section import WRONG_VALUE, Count, NonNegative, Section


def _number_or_list(value: Any) -> float | tuple[float, ...]:
    listed = value if isinstance(value, (list, tuple)) else [value]
    if listed and all(
        type(number) in (int, float) and math.isfinite(number) and number >= 0 for number in listed
    ):
        return tuple(map(float, value)) if listed is value else float(value)
    raise PydanticCustomError(
        WRONG_VALUE, "must be a number from 0, or a list of such numbers to choose from"
    )


class CCAConfig(Section):
    dim: Count = 128
    power: NonNegative = 1.0
    regularisation: Annotated[float | tuple[float, ...], PlainValidator(_number_or_list)] = 0.0001

    @property
    def tried(self) -> tuple[float, ...]:
        value = self.regularisation
        return value if isinstance(value, tuple) else (value,)


CONFIG = CCAConfig
