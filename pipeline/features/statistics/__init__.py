"""What is fitted to rows of numbers: `kmeans` with its `first_centres`, and principal components
(`projection`) of a `covariance` that is summed in one pass."""
