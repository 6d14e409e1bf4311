"""VSE Workbench for people: the command `vse`, and `Embedder` for programs."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vse_workbench.export.embedder import Embedder

__all__ = ["Embedder"]


def __getattr__(name: str) -> Any:
    """`Embedder`, imported when it is asked for: it loads torch, and `vse --help` must not."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from vse_workbench.export.embedder import Embedder

    return Embedder
