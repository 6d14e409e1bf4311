"""Training objectives, one idea per file."""
