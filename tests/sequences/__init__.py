"""Sequences of what people do with a clone, and what a fresh clone says at their end."""
