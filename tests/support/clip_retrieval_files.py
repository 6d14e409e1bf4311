"""Folders as `clip-retrieval inference` writes them."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def write_parts(folder, images, vectors, captions=None, texts=None, parts=2):
    """Write img_emb, metadata and, with texts, text_emb, cut into parts.

    images: N paths; vectors: (N, D); captions: N texts of the metadata; texts: (N, D).
    """
    for name in ("img_emb", "text_emb", "metadata"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for number, rows in enumerate(np.array_split(np.arange(len(images)), parts)):
        columns = {"image_path": [images[row] for row in rows]}
        if captions is not None:
            columns["caption"] = [captions[row] for row in rows]
        pq.write_table(pa.table(columns), folder / f"metadata/metadata_{number}.parquet")
        np.save(folder / f"img_emb/img_emb_{number}.npy", vectors[rows])
        if texts is not None:
            np.save(folder / f"text_emb/text_emb_{number}.npy", texts[rows])
