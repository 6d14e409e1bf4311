"""Image networks: cut, pooled, run over images, kept in a file."""
