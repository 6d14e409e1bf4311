"""Encodes sentences in child processes that are killed at given points, and again to the end.

Run by test_encode_sentences.py as `python killed_encoding.py FOLDER`, FOLDER/<point> holding the
inputs. Children are forked from a process that has computed nothing yet, which spares each of them
the imports. What the last run at a point printed, and which rows it wrote, is in its file log.
"""

import os
import signal
import sys
from pathlib import Path

from pipeline.runtime import files
from pipeline.runtime.process import seed_everything
from pipeline.sentences.encoder import BLOCK
from pipeline.storage import writer as feature_writer
from stages.encode_sentences import main as encode

# Files are published in this order: the fitted encoder, an empty feature file, a mask after each
# of 3 blocks of captions and one at the end, the features, the encoder.
POINTS = [
    "never",
    "publish 1",
    "publish 2",
    "rows 0",
    f"rows {2 * BLOCK}",
    "publish 7",
    "publish 8",
]
COMMAND = ["--captions", "corpus/captions.parquet", "--vocabulary", "vocabulary"]
COMMAND += ["--output", "out/sentences.h5", "--encoder", "out/encoder.h5"]


def encode_or_die(folder, point):
    """The stage in a folder, with every block of rows made safe at once, not every few seconds."""
    os.chdir(folder)
    log = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    published = 0
    write, publish = feature_writer.FeatureWriter.write, files.publish

    def event(name):
        if name == point:
            os.kill(os.getpid(), signal.SIGKILL)

    def write_or_die(writer, rows, **arrays):
        event(f"rows {rows[0]}")
        print("rows", rows[0], flush=True)
        write(writer, rows, **arrays)
        writer.flush()

    def publish_or_die(finished, target):
        nonlocal published
        published += 1
        event(f"publish {published}")
        publish(finished, target)

    feature_writer.FeatureWriter.write = write_or_die
    feature_writer.publish = files.publish = publish_or_die
    encode(COMMAND, standalone_mode=False)


def in_child(function, *arguments):
    """Status of a forked process that calls a function."""
    pid = os.fork()
    if pid == 0:
        try:
            function(*arguments)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1]


def main():
    seed_everything(0)  # so that torch is imported here, once
    for point in POINTS:
        folder = Path(sys.argv[1]) / point
        if point != "never":
            status = in_child(encode_or_die, folder, point)
            assert os.WIFSIGNALED(status), f"{point}: not killed, status {status}"
            assert not (folder / "out/encoder.h5").exists()
        assert in_child(encode_or_die, folder, "never") == 0, (folder / "log").read_text()


if __name__ == "__main__":
    main()
