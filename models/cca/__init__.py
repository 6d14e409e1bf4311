"""Canonical correlation analysis, the linear baseline."""
