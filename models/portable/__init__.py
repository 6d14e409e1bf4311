"""Models that travel: an exported folder, and `Embedder`, which answers from it without DVC."""

from models.portable.embedder import Embedder

__all__ = ["Embedder"]
