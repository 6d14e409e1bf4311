"""From the files of a dataset to a corpus that is checked, whichever reader reads them."""

import importlib
from pathlib import Path

from pipeline.corpus.tables import Corpus
from pipeline.readers import READERS
from pipeline.readers.checks import checked_corpus
from pipeline.readers.source import Options, Source
from pipeline.runtime.process import say


def read_corpus(dataset: str, raw: Path, out: Path, options: Options) -> Corpus:
    """Read a dataset and check all of it.

    Args:
        dataset: name of its reader, a key of READERS.
        raw: folder to read.
        out: folder that rendered files go to.
        options: all that a reader may depend on.

    Raises:
        WorkbenchError: anything in `raw` cannot be used.
    """
    source: Source = importlib.import_module(READERS[dataset].module).read(raw, out, options)
    for remark in source.remarks:
        say(remark)
    return checked_corpus(source, options)
