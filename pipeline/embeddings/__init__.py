"""Vectors of images or captions that were made elsewhere, CLIP's or any other: made features of.

`imports` has the job for each kind of source, `source` opens the files and matches their rows with
the corpus.
"""
