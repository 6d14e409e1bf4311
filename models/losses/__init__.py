"""The ranking losses, a file each (models.ranking says what a loss is)."""
