"""gensim's own files (`KeyedVectors.save`), read without running them.

They are pickles, and loading a pickle runs whatever it says. Here its opcodes are only interpreted:
a class or function becomes a name, a call becomes a record of what would have been called, and the
words and the matrix are then taken out of these records. Nothing from the file is ever imported or
called, memory is bounded by the file's size, and a name foreign to gensim's files is an error.

The standard library's Unpickler with a `find_class` that allows few names, which was tried, is not
enough: it hashes the keys of dictionaries as it reads them and makes room for any place of its memo
that a file names, so that 370 bytes of nested tuples keep it busy for ever and 9 bytes ask for
32 GiB. To find such files beforehand takes a stack machine like this one.
"""

import mmap
import pickletools
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any, cast

import numpy as np

from pipeline.runtime.errors import WorkbenchError

HINT = (
    "save the vectors with KeyedVectors.save, or with save_word2vec_format(..., binary=True) "
    "and set vocabulary.source to word2vec_bin"
)
PACKAGES = ("gensim", "numpy", "scipy", "collections", "_codecs")
BUILTINS = ("hash", "int", "float", "object", "set", "frozenset", "dict", "list", "bytearray")
DAMAGE = (
    ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError, StopIteration,
    struct.error,
)  # fmt: skip
CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
EMPTY = {"EMPTY_TUPLE": tuple, "EMPTY_LIST": list, "EMPTY_DICT": dict, "EMPTY_SET": list}
TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
SILENT = ("PROTO", "FRAME")
NUMBERS = {"INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"}
TEXTS = {"STRING", "BINSTRING", "SHORT_BINSTRING"}
UNICODE = {"UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"}
BYTES = {"BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"}
VALUES = NUMBERS | TEXTS | UNICODE | BYTES


@dataclass(eq=False)
class Record:
    """An object as the pickle describes it.

    Attributes:
        name: of what would be called.
        arguments: with what.
        state: what it would then be filled with, None for nothing.
    """

    name: str
    arguments: Any = ()
    state: Any = None


class InertPickle:
    """A pickle's stack machine in which every object is a Record. `result` reads it to the end.

    Lists and sets become lists, so that nothing from the file is hashed but strings and numbers.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.stack: list[Any] = []
        self.marked: list[list[Any]] = []
        self.memo: dict[int, Any] = {}

    def result(self, data: IO[bytes]) -> Any:
        """The object that the pickle in `data` describes."""
        for opcode, argument, _ in pickletools.genops(data):
            name = opcode.name
            if name in VALUES:
                self.stack.append(argument)
            elif name in SILENT:
                continue
            elif name == "STOP":
                return self.stack.pop()
            elif not (self._push(name) or self._remember(name, argument) or self._fill(name)):
                self._describe(name, argument)
        raise ValueError("no end")

    def _push(self, name: str) -> bool:
        if name in CONSTANTS:
            self.stack.append(CONSTANTS[name])
        elif name in EMPTY:
            self.stack.append(EMPTY[name]())
        elif name in TUPLES:
            self.stack[-TUPLES[name] :] = [tuple(self.stack[-TUPLES[name] :])]
        elif name == "MARK":
            self.marked.append(self.stack)
            self.stack = []
        elif name in ("TUPLE", "LIST", "FROZENSET"):
            items = self._since_mark()
            self.stack.append(tuple(items) if name == "TUPLE" else items)
        else:
            return False
        return True

    def _remember(self, name: str, argument: Any) -> bool:
        if name == "MEMOIZE":
            self.memo[len(self.memo)] = self.stack[-1]
        elif name in ("PUT", "BINPUT", "LONG_BINPUT"):
            self.memo[argument] = self.stack[-1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            self.stack.append(self.memo[argument])
        else:
            return False
        return True

    def _fill(self, name: str) -> bool:
        if name in ("APPENDS", "ADDITEMS", "SETITEMS"):
            items = self._since_mark()
        elif name in ("APPEND", "SETITEM"):
            items = self._pop(1 if name == "APPEND" else 2)
        else:
            return False
        target = self.stack[-1]
        if name.startswith("SETITEM"):
            pairs = zip(items[::2], items[1::2], strict=True)
            if isinstance(target, dict):
                target.update((key, item) for key, item in pairs if isinstance(key, str | int))
        elif isinstance(target, list):
            target.extend(items)
        return True

    def _describe(self, name: str, argument: Any) -> None:
        if name == "GLOBAL":
            self.stack.append(self._named(*argument.split(" ", 1)))
        elif name == "STACK_GLOBAL":
            self.stack.append(self._named(*self._pop(2)))
        elif name in ("REDUCE", "NEWOBJ"):
            called, arguments = self._pop(2)
            self.stack.append(Record(called.name, arguments))
        elif name == "BUILD":
            (state,) = self._pop(1)
            if isinstance(self.stack[-1], Record):
                self.stack[-1].state = state
        else:
            raise ValueError(f"opcode {name}")

    def _named(self, module: str, name: str) -> Record:
        package = module.split(".")[0]
        builtin = package in ("builtins", "__builtin__") and name in BUILTINS
        if package not in PACKAGES and not builtin:
            raise WorkbenchError(
                f"{self.path}: asks to run {module}.{name}, which has no place in a file of word "
                "vectors; refused, nothing was run",
                f"if you trust its origin, {HINT}",
            )
        return Record(f"{module}.{name}")

    def _since_mark(self) -> list[Any]:
        items, self.stack = self.stack, self.marked.pop()
        return items

    def _pop(self, count: int) -> list[Any]:
        items = self.stack[-count:]
        if len(items) < count:
            raise IndexError("stack too short")
        del self.stack[-count:]
        return items


def read_keyed_vectors(path: Path) -> tuple[list[str], np.ndarray]:
    """The words and the (N, D) floating-point matrix in a file of gensim's KeyedVectors.

    Accepts what `KeyedVectors.save` and `Word2Vec.save` write, with the matrix inside or beside it
    as `.vectors.npy` (then it is memory-mapped). Raises WorkbenchError for anything else.
    """
    try:
        with open(path, "rb") as handle, mmap.mmap(handle.fileno(), 0, prot=mmap.PROT_READ) as data:
            record = InertPickle(path).result(cast(IO[bytes], data))
        return _words_and_matrix(record, path)
    except DAMAGE as error:
        raise WorkbenchError(
            f"{path}: not a file of gensim's KeyedVectors, or damaged ({error})", HINT
        ) from None


def _words_and_matrix(record: Any, path: Path) -> tuple[list[str], np.ndarray]:
    state, prefix = record.state, path.name
    if "wv" in state:  # a whole Word2Vec model
        state, prefix = state["wv"].state, f"{path.name}.wv"
    # index2word and syn0 are the names before gensim 4
    keys = next(state[name] for name in ("index_to_key", "index2word") if name in state)
    words = [key if isinstance(key, str) else "" for key in keys]
    matrix = next(_matrices(state, path.with_name(prefix)))
    if matrix.ndim != 2 or matrix.dtype.kind != "f" or len(matrix) != len(words):
        raise ValueError(f"{len(words)} words, matrix {matrix.shape} of {matrix.dtype}")
    return words, matrix


def _matrices(state: dict[str, Any], stem: Path) -> Iterator[np.ndarray]:
    for name in ("vectors", "syn0"):
        beside = stem.with_name(f"{stem.name}.{name}.npy")
        if state.get(name) is not None:
            yield _array(state[name])
        elif beside.exists():
            yield _mapped(beside)
    raise WorkbenchError(
        f"{stem}.vectors.npy: no such file, but the vectors are not in {stem.name} either",
        "copy every file that gensim wrote into the same folder",
    )


def _mapped(path: Path) -> np.ndarray:
    try:
        return np.lib.format.open_memmap(path, mode="r")  # refuses pickled objects and short files
    except (*DAMAGE, TokenError, SyntaxError, EOFError) as error:
        raise WorkbenchError(f"{path}: not a readable .npy file ({error})", HINT) from None


def _array(record: Record) -> np.ndarray:
    """The array that a record of numpy's pickle format describes, its size checked."""
    if record.name.endswith("._frombuffer"):  # pickle protocol 5
        content, kind, shape, order = record.arguments[:4]
    else:
        _, shape, kind, fortran, content = record.state
        order = "F" if fortran else "C"
    if isinstance(content, Record):  # protocol 2 keeps bytes as text
        content = content.arguments[0].encode("latin-1")
    code, byte_order = kind.arguments[0], kind.state[1]
    if code not in ("f2", "f4", "f8") or byte_order not in "<>=|":
        raise ValueError(f"matrix of {byte_order}{code}")
    return np.frombuffer(content, f"{byte_order}{code}").reshape(shape, order=order)
