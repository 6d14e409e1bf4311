"""The two-branch network with structure-preserving loss (Wang et al. 2016)."""
