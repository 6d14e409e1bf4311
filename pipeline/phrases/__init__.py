"""Noun phrases and the boxes in an image that they stand for (Plummer et al. 2015)."""
