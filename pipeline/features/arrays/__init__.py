"""Arrays in files that other programs made, and the ids of their rows: one reader for all formats.

`formats.open_arrays` opens a file by its first bytes and gives an `ArrayFile` (`file`); each format
has a file here. `ids` finds the ids of the rows, `per_image` the arrays of files that have some for
each image. `parquet_rows`, `stream`, `pages` and `nested` read tables of captions in batches.
Nothing is unpickled, and sizes are compared with the file before memory is taken.
"""
