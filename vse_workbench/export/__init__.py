"""Models that travel: an exported folder, and `Embedder`, which answers from it without DVC."""

from vse_workbench.export.embedder import Embedder

__all__ = ["Embedder"]
