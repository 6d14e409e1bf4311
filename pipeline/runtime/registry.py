"""Registration is a file's place: what there is of a kind, by the names of the files in its folder.

`knn_margin.py`, or `knn_margin/__init__.py`, in models/losses is the ranking loss `knn_margin`.
What a file offers is read from its source: choosing one imports no other, checking a name none.
"""

import ast
import importlib
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from pipeline.runtime.errors import WorkbenchError, listing

ROOT = Path(__file__).resolve().parents[2]
ONE_CLASS = ""  # what an entry offers where it is its one public class


@dataclass(frozen=True)
class Registry:
    """The entries of a package, in the order of their names."""

    package: str
    kind: str  # what an entry is, for messages: "ranking loss"
    offer: str  # the name that every entry's file defines, ONE_CLASS for its one public class
    form: str  # how that is written, for messages: "read(raw, out, options) -> Source"
    first: str | None = None  # an entry that is listed before the others
    root: Path = ROOT

    def __iter__(self) -> Iterator[str]:
        return iter(self._files())

    def __contains__(self, name: object) -> bool:
        return name in self._files()

    @property
    def folder(self) -> Path:
        return self.root.joinpath(*self.package.split("."))

    def module(self, name: str) -> str:
        """The dotted name of an entry's module; WorkbenchError for a name that is none."""
        self.file(name)
        return f"{self.package}.{name}"

    def file(self, name: str) -> Path:
        """The file of an entry; WorkbenchError for a name that is none, with those there are."""
        files = self._files()
        if name not in files:
            names = listing(files, 100) or "none"
            raise WorkbenchError(f"{self.kind} {name!r}: allowed are {names}")
        return files[name]

    def entries(self) -> dict[str, str]:
        """The module of every entry by name, none imported; WorkbenchError as for `offered`."""
        for name in self:
            self.offered(name)
        return {name: self.module(name) for name in self}

    def load(self, name: str) -> Any:
        """What an entry offers, its file imported; WorkbenchError as for `file` and `entries`."""
        offer = self.offered(name)
        return getattr(self.imported(name), offer)

    def imported(self, name: str) -> ModuleType:
        """The module of an entry, imported; WorkbenchError as for `load`."""
        self.offered(name)
        return import_entry(self.module(name), self.file(name))

    def constant(self, name: str, key: str, default: Any = None) -> Any:
        """A plain value that an entry's file or class sets, read and not imported.

        Args:
            name: of the entry.
            key: the name that the value is assigned to.
            default: what is returned where none is assigned.

        Returns:
            The value.

        Raises:
            WorkbenchError: there is no such entry, or its file cannot be parsed.
        """
        holder = self.class_of(name) if self.offer == ONE_CLASS else self.source(name)
        for node in holder.body:
            target, value = _assigned(node)
            if target == key and value is not None:
                return ast.literal_eval(value)
        return default

    def source(self, name: str) -> ast.Module:
        """The syntax tree of an entry's file; WorkbenchError where it cannot be read or parsed."""
        return parsed(self.file(name))

    def class_of(self, name: str) -> ast.ClassDef:
        """The one public class in an entry's file; WorkbenchError unless there is one."""
        classes = [node for node in self.source(name).body if isinstance(node, ast.ClassDef)]
        public = [node for node in classes if not node.name.startswith("_")]
        if len(public) > 1:
            names = " and ".join(node.name for node in public)
            raise WorkbenchError(
                f"{self._shown(name)}: holds the classes {names}; one of them is the {self.kind}",
                "begin the names of the others with _, or give them files of their own",
            )
        if not public:
            raise self._offers_nothing(name)
        return public[0]

    def offered(self, name: str) -> str:
        """The name of what an entry's file offers; WorkbenchError where it offers nothing."""
        if self.offer == ONE_CLASS:
            return self.class_of(name).name
        if self.offer not in defined(self.source(name)):
            raise self._offers_nothing(name)
        return self.offer

    def _files(self) -> dict[str, Path]:
        files: dict[str, Path] = {}
        for path in self.folder.iterdir():
            file = path if path.suffix == ".py" else path / "__init__.py"
            if not path.name.startswith((".", "__")) and file.is_file():
                files[path.stem] = file
        return dict(sorted(files.items(), key=lambda item: (item[0] != self.first, item[0])))

    def _offers_nothing(self, name: str) -> WorkbenchError:
        return WorkbenchError(
            f"{self._shown(name)}: offers no {self.kind}; it must hold {self.form}",
            f"every file in {relative(self.folder, self.root)} is a {self.kind}: "
            "what they share lies elsewhere",
        )

    def _shown(self, name: str) -> str:
        return relative(self.file(name), self.root)


def relative(path: Path, root: Path = ROOT) -> str:
    """A path for a message.

    Args:
        path: of a file.
        root: the repository's.

    Returns:
        From the root where it lies there, else whole.
    """
    return (path.relative_to(root) if path.is_relative_to(root) else path).as_posix()


def parsed(path: Path) -> ast.Module:
    """The syntax tree of a source file, parsed once while it stays as it is."""
    try:
        return _parsed(path.read_bytes(), path)
    except SyntaxError as error:
        raise syntax_problem(error, path) from None
    except OSError as error:
        raise WorkbenchError(f"{relative(path)}: cannot be read: {error.strerror}") from None


@cache
def _parsed(source: bytes, path: Path) -> ast.Module:
    try:
        return ast.parse(source, str(path))
    except ValueError as error:  # null bytes, before Python 3.11.4
        raise SyntaxError(str(error)) from None


def import_entry(module: str, file: Path) -> ModuleType:
    """The module of a file that registers itself, imported.

    Args:
        module: Its dotted name.
        file: Where it lies.

    Returns:
        The module.

    Raises:
        WorkbenchError: It, or what it imports, fails while it is loaded; the line is the last one
            in its own folder.
    """
    try:
        return importlib.import_module(module)
    except WorkbenchError:
        raise
    except SyntaxError as error:
        raise syntax_problem(error, Path(error.filename or file)) from None
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if Path(frame.filename).is_relative_to(file.parent)]
        place = f"{relative(Path(own[-1].filename))}, line {own[-1].lineno}" if own else module
        said = str(error).partition("\n")[0]
        raise WorkbenchError(f"{place}: {type(error).__name__}: {said}") from error


def syntax_problem(error: SyntaxError, path: Path) -> WorkbenchError:
    """A syntax error of a source file as an error for users.

    Args:
        error: as Python raised it.
        path: the file.

    Returns:
        One line: file, line and what Python says.
    """
    line = f", line {error.lineno}" if error.lineno else ""
    return WorkbenchError(f"{relative(path)}{line}: {error.msg}")


def defined(tree: ast.Module) -> set[str]:
    """The names that a module defines or imports at its top level."""
    names = {target for node in tree.body if (target := _assigned(node)[0])}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
    return names


def _assigned(node: ast.stmt) -> tuple[str | None, ast.expr | None]:
    """The name and value of a statement `NAME = value`, annotated or not; None for others."""
    match node:
        case ast.Assign([ast.Name(name)], value) | ast.AnnAssign(ast.Name(name), _, value):
            return name, value
    return None, None
