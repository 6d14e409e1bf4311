"""The retrieval metrics, a file each: it holds ROWS, a pipeline.evaluation.row.Metric or several.

All are measured. What they make of queries: pipeline.evaluation.figures.
"""

from pipeline.runtime.registry import Registry

FILES = Registry("pipeline.evaluation.metrics", "metric", "ROWS", "ROWS = (Metric(...),)")
