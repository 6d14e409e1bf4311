"""Sentences as vectors of fixed width: mean word vector, tf-idf, Fisher vector."""
