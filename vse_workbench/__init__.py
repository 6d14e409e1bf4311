"""VSE Workbench for people: the command `vse`, and `Embedder` for programs."""
