"""The report: one HTML page of all models that opens from disk, without anything from elsewhere."""
