"""The commands of `vse`, one file each."""
