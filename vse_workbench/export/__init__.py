"""Models that travel: an exported folder, and `Embedder`, which answers from it without DVC."""
