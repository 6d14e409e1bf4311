"""Which image or caption of the corpus a row of another tool's file is about.

One place for regions, vectors and scores: ids are told by one rule for a whole file (`images`, with
`annotations` that explain numbers), each row of the corpus gets one (`rows`), and rows that stand
there several times are taken once (`repeats`). `precomp` and `clip_retrieval` are the folders of
VSE++ and clip-retrieval, which name images in ways of their own.
"""
