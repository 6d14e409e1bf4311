"""The readers of captioned images, a file per format (pipeline.dataset says what a reader is)."""
