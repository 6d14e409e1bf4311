"""The detector of regions: networks, training, extraction."""
