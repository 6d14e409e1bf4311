"""How fast and how big, against naive forms and bounds; ratios taken within one run."""
