"""Lists of extended positives, a file per format (pipeline.corpus.dataset says what a list is)."""
