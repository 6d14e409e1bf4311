"""Encodes sentences in child processes that are killed at given points, and again to the end.

Run by test_encode_sentences.py as `python killed_encoding.py FOLDER`, FOLDER/<point> holding the
inputs. What the last run at a point printed, and which rows it wrote, is in its file log.
"""

import importlib
import os
import sys
from pathlib import Path

from forked import ended, killed

from pipeline.runtime import files
from pipeline.runtime.repeatable import seed_everything
from pipeline.storage import writer as feature_writer
from stages.encode_sentences import main as encode_sentences

# Files are published in this order: the fitted encoder, an empty feature file, a mask after each
# of 3 blocks of captions (the events "rows") and one at the end, the features, the encoder.
POINTS = ["never", *(f"publish {n}" for n in (1, 2)), "rows 3", "publish 7", "publish 8"]
# Like torch, which the seed needs: imported here once instead of in every child.
LOADED_LATE = ("pyarrow.parquet", "pipeline.sentences.encodings.fisher")
COMMAND = ["--captions", "corpus/captions.parquet", "--vocabulary", "vocabulary"]
COMMAND += ["--output", "out/sentences.h5", "--encoder", "out/encoder.h5"]


def encode(folder, killer):
    """The stage in a folder, with every block of rows made safe at once, not every few seconds."""
    os.chdir(folder)
    killer.watch_files()
    feature_writer.publish = files.publish
    write = feature_writer.FeatureWriter.write

    def write_or_die(writer, rows, **arrays):
        killer.event("rows")
        print("rows", rows[0], flush=True)
        write(writer, rows, **arrays)
        writer.flush()

    feature_writer.FeatureWriter.write = write_or_die
    encode_sentences(COMMAND, standalone_mode=False)


def main():
    seed_everything(0)
    for name in LOADED_LATE:
        importlib.import_module(name)
    for point in POINTS:
        folder = Path(sys.argv[1]) / point
        if point != "never":
            killed(point, encode, folder)
            assert not (folder / "out/encoder.h5").exists()
        (folder / "log").write_text(ended(encode, folder))


if __name__ == "__main__":
    main()
