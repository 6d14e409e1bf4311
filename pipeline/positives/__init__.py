"""Lists of extended positives, a file per format (pipeline.dataset says what a list is)."""
