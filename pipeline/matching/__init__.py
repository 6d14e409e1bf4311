"""Which image or caption of the corpus a row of another tool's file is about.

One place for regions, vectors and scores: ids are told by one rule for a whole file, and rows that
stand there several times are taken once.
"""
