"""Which form a file of word vectors has: its first bytes decide, whatever it is called.

Public ones are word2vec's .bin and text, GloVe's text, and fastText's .bin, as they are or packed.
"""

import re
import zipfile
from codecs import BOM_UTF8
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from pipeline.corpus.words.fasttext import FastText
from pipeline.corpus.words.files import (
    HEADER,
    HINT,
    LARGEST_DIM,
    PACKED,
    Rows,
    Stream,
    read_binary,
    read_text,
    trailing_numbers,
)
from pipeline.corpus.words.sample import WordSample
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.first_bytes import (
    FASTTEXT,
    HEAD,
    KINDS,
    FileKind,
    kind_of,
    kind_of_bytes,
    misplaced,
    python_line,
    way_out,
)
from pipeline.runtime.process import say, without_progress

LOOK = 1 << 18  # bytes of a file, unpacked; longer than any line of 10,000 short numbers
MEMBERS = 100  # of an archive that are looked at
READ = {"word2vec_bin": read_binary, "word2vec_text": read_text}
TITLES = {"word2vec_bin": "word2vec's .bin", "word2vec_text": "text", "fasttext": "fastText's .bin"}
CONTROL = re.compile(rb"[\0-\x08\x0e-\x1f\x7f]")
# The class whose object a pickle of gensim holds, in the spelling of any protocol.
GENSIM = re.compile(
    rb"gensim\.models\.(?:(keyedvectors)\W{1,4}(\w*KeyedVectors)"
    rb"|(word2vec|fasttext|doc2vec)\W{1,4}(Word2Vec|FastText|Doc2Vec|\w*KeyedVectors)\b)"
)
SAVE = "from gensim.models.{module} import {name}; {name}.load({source!r}){inner}.{save}"
SAVE_DICT = (
    "import pickle; from gensim.models import KeyedVectors; d = pickle.load(open({source!r}, 'rb'))"
    "; k = KeyedVectors(len(next(iter(d.values())))); k.add_vectors(list(d), list(d.values())); "
    "k.{save}"
)


class Form(NamedTuple):
    """A form, as vocabulary.source names it, or fasttext, and how long its vectors are."""

    name: str
    dim: int


def read_file(
    source: str, path: Path, dim: int | None, wanted: dict[bytes, str], sample: WordSample
) -> tuple[str, int, Rows]:
    """Read the wanted rows of a file in whatever form it has.

    Args:
        source: the form that params.yaml names, which counts where the first bytes do not decide.
        path: the file.
        dim: of several files in a zip archive, how long the vectors of the wanted one are.
        wanted: words by their bytes in UTF-8.
        sample: what is offered other words.

    Returns:
        The form, D, and a row (D,) float32 per wanted word that is there.

    Raises:
        WorkbenchError: a file of another kind, a damaged one, an archive without the wanted file.
    """
    kind = kind_of(path)
    if kind is None or kind.key in PACKED:
        return _streamed(source, path, "", kind, wanted, sample)
    if kind.key == "zip":
        member = _member(path, dim)
        return _streamed(source, path, member, kind, wanted, sample)
    if kind.key == "fasttext":
        model = FastText(path)
        say(f"{path}: {TITLES['fasttext']} by its first bytes; words that it lacks have no vector")
        rows = model.read(wanted, sample)
        return kind.key, model.dim, {wanted[word]: row for word, row in rows.items()}
    raise _pickled(path) if kind.key == "pickle" else misplaced(kind, path, HINT)


def form_of(head: bytes) -> Form | None:
    """The form that the first LOOK bytes of an unpacked file tell; None where they do not."""
    if head.startswith(FASTTEXT):
        return Form("fasttext", int.from_bytes(head[8:12], "little"))
    line, end, rest = head.removeprefix(BOM_UTF8).partition(b"\n")
    match = HEADER.fullmatch(line)
    if match is None:
        dim = trailing_numbers(line)
        return Form("word2vec_text", dim) if end and 1 <= dim <= LARGEST_DIM else None
    dim = int(match[2])
    if not 1 <= dim <= LARGEST_DIM:
        return None
    if trailing_numbers(rest.partition(b"\n")[0]) >= dim:
        return Form("word2vec_text", dim)
    values = rest.partition(b" ")[2][: 4 * dim]
    return Form("word2vec_bin", dim) if CONTROL.search(values) else None


def _streamed(
    source: str,
    path: Path,
    member: str,
    packed: FileKind | None,
    wanted: dict[bytes, str],
    sample: WordSample,
) -> tuple[str, int, Rows]:
    """Read the wanted rows of a file from its beginning to its end; packed: how it is packed."""
    head = _head(path, member)
    inside = kind_of_bytes(head[:HEAD])
    if packed is not None and inside is not None:
        what = f", member {member}" if member else ""
        out = way_out(packed, path) if inside.key == "fasttext" else way_out(inside, path)
        raise WorkbenchError(f"{path}{what}: {packed.title}, and in it {inside.title}", out or HINT)
    form = form_of(head)
    name = source if form is None else form.name
    if name != source:
        title = TITLES[name]
        say(f"{path}: {title} by its first bytes, not {source} as vocabulary.source says")
    with Stream(path, member) as stream:
        dim, rows = READ[name](stream, wanted, sample)
    return name, dim, rows


def _head(path: Path, member: str) -> bytes:
    """The first LOOK bytes of a file, unpacked."""
    buffer = bytearray(LOOK)
    size = 0
    with without_progress(), Stream(path, member) as stream:
        while count := stream.read_into(memoryview(buffer)[size : size + HEAD]):
            size += count
    return bytes(buffer[:size])


def _member(path: Path, dim: int | None) -> str:
    """The file of word vectors in a zip archive: the only one, or the only one of vectors so
    long. WorkbenchError where there is none, or no way to choose."""
    with zipfile.ZipFile(path) as archive:
        names = [entry.filename for entry in archive.infolist()[:MEMBERS] if not entry.is_dir()]
    forms: dict[str, Form] = {}
    for name in names:
        with suppress(WorkbenchError):  # of one that cannot be unpacked, which is then not found
            form = form_of(_head(path, name))
            if form is not None:
                forms[name] = form
    plain = {name: form for name, form in forms.items() if form.name != "fasttext"}
    forms = plain or forms  # fastText's archives have the same vectors as .bin and as text
    fitting = [name for name, form in forms.items() if form.dim == dim]
    chosen = list(forms) if len(forms) == 1 else fitting
    if len(chosen) == 1:
        say(f"{path}: read is {chosen[0]}, vectors of {forms[chosen[0]].dim} numbers")
        return chosen[0]
    if not forms:
        raise WorkbenchError(f"{path}: a zip archive without word vectors: {listing(names)}", HINT)
    found = listing(f"{name} ({form.dim})" for name, form in forms.items())
    raise WorkbenchError(
        f"{path}: a zip archive with several files of word vectors, and their lengths: {found}",
        "set vocabulary.dim to the length of one of them, or " + way_out(KINDS["zip"], path),
    )


def _pickled(path: Path) -> WorkbenchError:
    """The error for a pickle, with the command that saves what gensim, or a dict, has in it."""
    with open(path, "rb") as handle:
        match = GENSIM.search(handle.read(HEAD))
    target = f"{path}.bin"
    save = f"save_word2vec_format({target!r}, binary=True)"
    if match is None:
        code = SAVE_DICT.format(source=str(path), save=save)
        start = (
            f"if you trust it, and it holds a dict of words, save that and name {target} instead"
        )
    else:
        module, name = (part.decode() for part in match.groups() if part)
        inner = "" if name.endswith("KeyedVectors") else ".wv"
        code = SAVE.format(module=module, name=name, source=str(path), inner=inner, save=save)
        start = f"if you trust it, save its vectors and name {target} instead"
    return WorkbenchError(f"{path}: {KINDS['pickle'].title}", f"{start}: {python_line(code)}")
