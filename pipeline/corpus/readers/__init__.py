"""The readers of captioned images, a file per format (pipeline.corpus.dataset says what one is)."""
