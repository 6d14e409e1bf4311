"""Score matrices: their file, groups of true pairs, ranks."""
