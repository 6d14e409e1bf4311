"""Runs beside each other: the table, paired differences, experiments."""
