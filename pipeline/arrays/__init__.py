"""Arrays in files that other programs made, and the ids of their rows: one reader for all formats.

Nothing is unpickled, and sizes are compared with the file before memory is taken.
"""
