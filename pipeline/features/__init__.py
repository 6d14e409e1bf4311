"""What is known of images and captions, as numbers: ids to rows, with one digest.

- `feature_file`: the feature file, ids to rows: `FeatureFile`, `FeatureWriter`;
- `shards`: making one, alone or by several processes: `FeatureJob`, `Plan`;
- `groups`: files of named groups of arrays: `GroupFile`, `write_groups`;
- `hdf5` and `layout`: reading and writing the HDF5 below all of these;
- `weights` and `checkpoint`: weights in safetensors, and what is needed to use them again;
- `data` and `split`: what a model reads, as tensors; `origin`: whether a file is the one that is
  asked for;
- `regions`, `sentences`: features of regions and of captions; `statistics`: PCA and K-means;
- `arrays`, `vector_files`, `imports`, `matching`: numbers of other programs, and which image or
  caption each row is about.
"""
