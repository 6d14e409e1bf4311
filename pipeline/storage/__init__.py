"""Files of numbers that the workbench writes and trusts.

- `features`: the feature file, ids to rows with one digest: `FeatureFile`, `FeatureWriter`;
- `shards`: making one, alone or by several processes: `FeatureJob`, `Plan`;
- `groups`: files of named groups of arrays: `GroupFile`, `write_groups`;
- `hdf5` and `layout`: reading and writing the HDF5 below all of these;
- `weights` and `checkpoint`: weights in safetensors, and what is needed to use them again.
"""
