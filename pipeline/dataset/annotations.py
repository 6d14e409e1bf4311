"""Files from outside against the types of their fields: every fault is named by its place."""

from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.text import read_text

SHOWN = 10
WHOLE = ("missing", "value_error", "json_invalid", "too_short")  # errors that are not of one value


def read_annotations(path: Path, kind: Any, hint: str) -> Any:
    """The JSON value of a file as a `kind`, a type that pydantic knows, without conversions; keys
    that it lacks are passed over. WorkbenchError names the faults."""
    adapter = TypeAdapter(kind)
    text = read_text(path)
    try:
        return adapter.validate_json(text, strict=True)
    except ValidationError as error:
        raise refusal(path, error, hint) from None


def read_json_lines(path: Path, kind: Any, hint: str) -> list[Any]:
    """The values of a file that has a JSON value on each line, each as a `kind`.

    Args:
        path: the file; empty lines are passed over.
        kind: as in `read_annotations`.
        hint: what is expected.

    Returns:
        The values in their order.

    Raises:
        WorkbenchError: the faults of the first lines that have some.
    """
    adapter = TypeAdapter(kind)
    values: list[Any] = []
    faults: list[str] = []
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if not line.strip():
            continue
        try:
            values.append(adapter.validate_json(line, strict=True))
        except ValidationError as error:
            faults += (f"line {number}, {_fault(one)}" for one in error.errors(include_url=False))
        if len(faults) >= SHOWN:
            break
    if faults:
        raise WorkbenchError(f"{path}: " + "\n  ".join(faults[:SHOWN]), hint)
    return values


def refusal(path: Path, error: ValidationError, hint: str) -> WorkbenchError:
    faults = [_fault(detail) for detail in error.errors(include_url=False)]
    more = [f"and {len(faults) - SHOWN:,} more"] if len(faults) > SHOWN else []
    return WorkbenchError(f"{path}: " + "\n  ".join([*faults[:SHOWN], *more]), hint)


def _fault(detail: ErrorDetails) -> str:
    """`images[0].split = 'dev': must be 'train' or 'val'`, the value cut short."""
    field = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in detail["loc"])
    value, text = detail["input"], detail["msg"].removeprefix("Value error, ")
    if detail["type"] not in WHOLE and isinstance(value, str | int | float | None):
        field += f" = {value!r:.40}"
    return f"{field}: {text}".lstrip(".: ").replace("Input should", "must")
