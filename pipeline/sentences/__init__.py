"""Sentences as vectors of fixed width."""
