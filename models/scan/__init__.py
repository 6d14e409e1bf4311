"""SCAN: stacked cross attention of words and regions (Lee et al. 2018)."""
