"""Vectors of words: trained here, or read from the files of others."""
