"""What models read: splits, batches and the sources of both sides."""
