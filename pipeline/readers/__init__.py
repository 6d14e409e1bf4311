"""Readers of captioned images, one file per source format.

To add one: write a module with `read(raw, out, options) -> Source` (see source.py) and name it here
and in pipeline/params.py.
"""

from pathlib import Path

from pipeline.corpus.tables import Corpus
from pipeline.readers import captions_csv, cuhk_pedes, karpathy_json, shapes
from pipeline.readers.checks import checked_corpus
from pipeline.readers.source import Options, Reader
from pipeline.runtime.process import say

READERS: dict[str, Reader] = {
    "shapes": shapes.read,
    "karpathy_json": karpathy_json.read,
    "captions_csv": captions_csv.read,
    "cuhk_pedes": cuhk_pedes.read,
}


def read_corpus(dataset: str, raw: Path, out: Path, options: Options) -> Corpus:
    """Read `raw` with the reader named `dataset` and check all of it; rendered files go to `out`.

    Raises WorkbenchError for anything in `raw` that cannot be used.
    """
    source = READERS[dataset](raw, out, options)
    for remark in source.remarks:
        say(remark)
    return checked_corpus(source, options)
