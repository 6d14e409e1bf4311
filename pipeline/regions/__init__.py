"""Files of image regions, and those of other tools."""
