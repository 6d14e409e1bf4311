"""The captioned images as tables, their pictures, their words."""
