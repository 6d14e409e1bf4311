"""VSE-infinity: sets of regions and of words, pooled by learnt weights (Chen et al. 2021)."""
