"""params.yaml as typed, frozen sections: the only reader of that file.

Every key is required and no other key is accepted, so that a run is described by what the file
says and a misspelt override never passes unnoticed. All problems are reported at once.
"""

import difflib
import reprlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from pipeline.contradictions import contradictions
from pipeline.errors import WorkbenchError
from pipeline.sections import Params

UNDO = "undo with: touch params.yaml && git checkout params.yaml"


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
