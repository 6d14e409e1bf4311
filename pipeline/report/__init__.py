"""The report: one HTML page of all models that opens from disk without anything from elsewhere,
the pairs of images and captions that it shows attention of, and the tables of `dvc plots`."""
