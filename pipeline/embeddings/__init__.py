"""Vectors of images or captions that were made elsewhere, CLIP's or any other: made features of."""
