"""Noun phrases and the boxes in an image that they stand for.

Plummer et al. 2015; Wang et al. 2016, section 3.3.
"""
