"""Covariances, principal components and K-means, in blocks and exact."""
