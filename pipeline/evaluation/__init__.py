"""From scores to metrics: criteria, folds, confidence intervals, hubness."""

from pipeline.runtime.registry import Registry

# here and not beside the rows, so that looking at the files loads none of them
METRIC_FILES = Registry("pipeline.evaluation.metrics", "metric", "ROWS", "ROWS = (Metric(...),)")
