"""The retrieval metrics, a file each: its ROWS are one or more pipeline.evaluation.row.Metric."""

from pipeline.runtime.registry import Registry

FILES = Registry("pipeline.evaluation.metrics", "metric", "ROWS", "ROWS = (Metric(...),)")
