"""VSE with sum, max and kNN margin (Sun et al. 2019)."""
