"""Folders of images and captions in drawn layouts, and whether they are read as they are meant."""
