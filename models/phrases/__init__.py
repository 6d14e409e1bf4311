"""Localising phrases in images: regions, the two models, what they find (Wang et al. 2016, 3.3)."""
