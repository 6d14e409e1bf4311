"""Regions of images.

- `file`: how regions lie in a feature file, whoever makes them;
- `params`: the section regions of params.yaml;
- `source`: importing regions of other tools; `imports`: the kinds of their files, a file each;
- `per_image`: arrays of their own for each image, which two kinds share;
- `export`: our regions in the formats of other tools.
"""
