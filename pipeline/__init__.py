"""Data and algorithms of the workbench: no click; never imports stages or models."""
