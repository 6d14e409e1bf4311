"""The parameters of a run as plain lines, without dates, hosts or paths."""

from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

LEFT_OUT = ("runtime",)  # where a run took place, not what it computed


def parameters(values: Mapping[str, Any]) -> dict[str, str]:
    """params.yaml as key -> value, keys of sections joined by dots. An absolute path is reduced to
    its last part: the page goes to readers elsewhere."""
    return dict(_flat("", {key: part for key, part in values.items() if key not in LEFT_OUT}))


def _flat(prefix: str, values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(f"{prefix}{key}.", value)
        else:
            yield f"{prefix}{key}", _plain(value)


def _plain(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_plain, value)) + "]"
    if isinstance(value, str) and PurePath(value).is_absolute():
        return PurePath(value).name
    return str(value)
