"""Vectors of images or captions that were made elsewhere, CLIP's or any other: reading their files.

One file of N vectors with an id for each. Inside an .npz, .h5 or .parquet file the ids have a name
as the vectors do; beside an .npy or .safetensors file they lie in a file of their own.
"""
