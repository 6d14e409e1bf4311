"""From scores to metrics: criteria, folds, confidence intervals, hubness."""
