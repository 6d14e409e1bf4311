"""Words that say nothing about an image: what tf-idf leaves out.

General lists do not fit captions: scikit-learn's has numbers and places, which tell "two dogs under
a table" from "three dogs on a table". The list here is articles, conjunctions, pronouns, auxiliary
verbs and prepositions without a place. Quantities (many, several, both), negations (no, not,
without) and function words that also name a thing (can) stay terms.
"""

from pathlib import Path

from pipeline.corpus.tokens import folded
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.text import read_text

MAX_BYTES = 1 << 14  # the list is kept in an attribute of the encoder's file, which holds 64 KiB

_LIST = """
a an the this that these those some any such
and or but nor if while as than because since so then when where whether though although until
i me my mine myself we us our ours ourselves you your yours yourself yourselves
he him his himself she her hers herself it its itself
they them their theirs themselves who whom whose which what how why there
someone somebody something anyone anything everyone everything
am is are was were be been being have has had having do does did doing
will would shall should could may might must ought
of with by for to from at about during among
's 're 've 'll 'd 'm 't isn aren wasn weren doesn didn hasn hadn couldn wouldn shouldn
"""
FUNCTION_WORDS = frozenset(_LIST.split())


def stop_words(choice: str) -> frozenset[str]:
    """The words to leave out: `function_words` (the list here), `none`, or those of a UTF-8 file
    with a word per line; # begins a comment, case is ignored."""
    if choice == "function_words":
        return FUNCTION_WORDS
    return frozenset() if choice == "none" else _read_list(Path(choice))


def _read_list(path: Path) -> frozenset[str]:
    if path.stat().st_size > MAX_BYTES:
        raise WorkbenchError(f"{path}: larger than {MAX_BYTES >> 10} KiB, not a list of stop words")
    lines = [line.split("#")[0].split() for line in folded(read_text(path)).split("\n")]
    for number, words in enumerate(lines, start=1):
        if len(words) > 1:
            raise WorkbenchError(f"{path}, line {number}: {len(words)} words, but one is allowed")
    if not any(lines):
        raise WorkbenchError(f"{path}: no words", "set sentences.tfidf.stop_words to none instead")
    return frozenset(word for words in lines for word in words)
