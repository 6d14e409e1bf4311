"""What all models share: how they are found, prepared, scored and asked."""
