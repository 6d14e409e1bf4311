"""Files of numbers: HDF5 features and groups, weights, checkpoints."""
