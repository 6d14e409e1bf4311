"""Which files of code a program may load, and a digest of each that comments do not change.

DVC follows no imports. `stages.check_params` writes, for every stage, the list of these files with
their digests (`stages.code`), and the stage depends on that list.
"""

import ast
import hashlib
import json
import sys
import time
from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import write_text

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("pipeline", "models", "stages")
SOURCES = Path("data/.checks/sources.json")  # what check_params has read of the sources
RESOURCE_FOLDERS = ("templates", "static")  # folders whose files a package renders or serves
# What decides how a program runs or what it prints, and never what it computes.
UNLISTED = frozenset(
    [
        *(f"pipeline/runtime/{name}.py" for name in ("code", "disk", "edits", "engines", "errors")),
        *(f"pipeline/runtime/{name}.py" for name in ("graph", "lock", "process", "recipes")),
        *(f"pipeline/runtime/{name}.py" for name in ("registry", "section", "text", "threads")),
        *(f"stages/{name}.py" for name in ("__init__", "code", "common", "params", "registries")),
    ]
)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
EMPTY = "pipeline/__init__.py"  # a package with a docstring alone: it computes nothing
MACHINERY = ("stages.common", "stages.params")  # every stage loads them and what they need
# Of a source: digest of its code, the first-party modules that it imports as soon as it is loaded,
# and those that its functions import.
Parsed = tuple[str, list[str], list[str]]
# Fields of a syntax tree that change no result; some exist in one version of Python alone.
IGNORED_FIELDS = (
    "annotation",
    "returns",
    "type_comment",
    "type_params",
    "type_ignores",
    "kind",
    "ctx",
)


class Sources:
    """The first-party sources below a folder, each parsed once.

    Args:
        root: the folder with the packages, by default the repository's.
        memory: JSON file that keeps digests and imports between processes, by the digest of a
            source's bytes; None: nothing is kept, all is parsed again.
    """

    def __init__(self, root: Path = ROOT, memory: Path | None = None) -> None:
        self.root = root
        self.memory = memory
        self._known = self._read_memory()
        self._used: dict[str, Parsed] = {}
        self._by_file: dict[str, Parsed] = {}

    def closure(
        self,
        modules: Iterable[str],
        left_out: frozenset[str] = UNLISTED,
        late: bool = True,
    ) -> list[str]:
        """The files that importing some modules may load. Imports for annotations alone do not
        count.

        Args:
            modules: dotted names; those outside of PACKAGES are passed over.
            left_out: files that do not count, nor what they import.
            late: whether imports inside functions count.

        Returns:
            Paths from the root, sorted, with the templates and static files that the sources name.
        """
        files: set[str] = set()
        queue = [file for module in modules for file in self._files_of(module)]
        while queue:
            file = queue.pop()
            if file not in files | left_out:
                files.add(file)
                _, early_modules, late_modules = self._read(file)
                found = [*early_modules, *late_modules] if late else early_modules
                queue += [new for module in found for new in self._files_of(module)]
        return sorted(files | {extra for file in files for extra in self._beside(file)})

    def digest(self, file: str, without: frozenset[str] = frozenset()) -> str:
        """16 hex digits of a source's code, or of another file's bytes.

        Args:
            file: path from the root.
            without: names of methods whose code does not count.

        Returns:
            The digits.
        """
        if not file.endswith(".py"):
            return hashlib.sha256((self.root / file).read_bytes()).hexdigest()[:16]
        if without:
            return str(_parse((self.root / file).read_bytes(), without)[0])
        return str(self._read(file)[0])

    def remember(self) -> None:
        """Keep what was read for the next process."""
        if self.memory is not None and self._used.keys() - self._known.keys():
            write_text(self.memory, json.dumps(self._used))

    def _read_memory(self) -> dict[str, Parsed]:
        try:
            known = json.loads(self.memory.read_bytes()) if self.memory else {}
        except (OSError, ValueError):  # a memory is worth a second: without it all is parsed again
            return {}
        return known if isinstance(known, dict) else {}

    def _read(self, file: str) -> Parsed:
        if file not in self._by_file:
            try:
                source = (self.root / file).read_bytes()
                key = hashlib.sha256(file.encode() + b"\0late\0" + source).hexdigest()
                self._by_file[file] = self._known.get(key) or _parse(source)
            except OSError as error:
                raise WorkbenchError(f"{file}: {error.strerror}") from None
            except (SyntaxError, ValueError) as error:
                line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
                raise WorkbenchError(f"{file}{line}: no Python: {error.args[0]}") from None
            self._used[key] = self._by_file[file]
        return self._by_file[file]

    def _files_of(self, module: str) -> list[str]:
        """The files executed by an import, packages first; a name inside a module adds none."""
        parts = module.split(".")
        paths = ["/".join(parts[: depth + 1]) for depth in range(len(parts))]
        files = (file for path in paths for file in (f"{path}/__init__.py", f"{path}.py"))
        return [file for file in files if file in self._existing]

    @cached_property
    def _existing(self) -> frozenset[str]:
        sources = (file for name in PACKAGES for file in (self.root / name).rglob("*.py"))
        return frozenset(file.relative_to(self.root).as_posix() for file in sources)

    def _beside(self, file: str) -> list[str]:
        """The files that a source renders or serves: those of a folder beside it that it names."""
        folder = (self.root / file).parent
        folders = [name for name in RESOURCE_FOLDERS if (folder / name).is_dir()]
        if not folders:
            return []
        text = (self.root / file).read_text(encoding="utf-8")
        named = [name for name in folders if f'"{name}"' in text]
        extras = (extra for name in named for extra in (folder / name).rglob("*"))
        return [extra.relative_to(self.root).as_posix() for extra in extras if extra.is_file()]


def loaded_sources(root: Path = ROOT) -> set[str]:
    """The first-party files that this process has loaded; paths from the root."""
    names = [name for name in list(sys.modules) if name == "__main__" or _is_own(name)]
    places = {getattr(sys.modules[name], "__file__", None) for name in names}
    files = {Path(path).resolve() for path in places if path}
    inside = (file.relative_to(root) for file in files if file.is_relative_to(root))
    return {path.as_posix() for path in inside if path.parts[0] in PACKAGES}


def check_loaded(listing: Path, memory: Path | None = None) -> None:
    """Refuse a stage that has loaded a first-party file which its list lacks: a hole in a list
    gives an error, never a stale result. Without a list nothing is checked.

    Args:
        listing: the list that check_params wrote, a line `path digest` for each file.
        memory: of `Sources`.

    Raises:
        WorkbenchError: the stage has loaded files that the list does not name.
    """
    if not listing.is_file():
        return
    listed = {line.partition(" ")[0] for line in listing.read_text(encoding="utf-8").splitlines()}
    sources = Sources(memory=memory)
    allowed = listed | UNLISTED | set(machinery_of(sources))
    nothing = sources.digest(EMPTY)
    lost = [
        file
        for file in sorted(loaded_sources() - allowed)
        # types of sections that the stage does not read, which are found by their place
        if not file.endswith("/params.py") and sources.digest(file) != nothing
    ]
    if lost:
        raise WorkbenchError(
            f"{listing.name} has loaded {', '.join(lost)}, which {listing} does not list: "
            "DVC would not see an edit of it",
            "bring the list up to date with: dvc repro check_params; if the error stays, "
            "stages/code.py must learn how this file is chosen",
        )


class Imports:
    """When this process runs each source that it imports, from now on."""

    def __init__(self) -> None:
        self.moments: dict[str, int] = {}  # by file; nanoseconds, as files are dated
        sys.addaudithook(self._note)

    def _note(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "exec" and getattr(arguments[0], "co_name", "") == "<module>":
            self.moments.setdefault(arguments[0].co_filename, time.time_ns())

    def of_present_code(self, root: Path = ROOT) -> frozenset[str]:
        """The files that were imported as they now are; the others were written later.

        Args:
            root: the folder with the packages.

        Returns:
            Paths from the root.
        """
        inside = {
            Path(file): moment
            for file, moment in self.moments.items()
            if Path(file).is_relative_to(root)
        }
        return frozenset(
            file.relative_to(root).as_posix()
            for file, moment in inside.items()
            if file.is_file() and file.stat().st_mtime_ns < moment
        )


def check_listed(
    listing: Path,
    memory: Path | None = None,
    uncalled: frozenset[str] = frozenset(),
    files: frozenset[str] | None = None,
) -> None:
    """Refuse a stage whose code has changed since its list was written: DVC would keep what it
    makes as made by the code before, and bring it back where that code comes back. Without a list
    nothing is checked.

    Args:
        listing: the list that check_params wrote, a line `path digest` for each file.
        memory: of `Sources`.
        uncalled: names of methods that a list may leave out.
        files: those that are compared; None for all.

    Raises:
        WorkbenchError: files have other code than the list says.
    """
    if not listing.is_file():
        return
    sources = Sources(memory=memory)
    lines = listing.read_text(encoding="utf-8").splitlines()
    # other lines are those of keys of params.yaml
    digests = {
        file: digest
        for file, _, digest in (line.partition(" ") for line in lines)
        if (file.endswith(".py") or (ROOT / file).is_file()) and (files is None or file in files)
    }
    changed = [
        file
        for file, digest in digests.items()
        if digest != sources.digest(file) and digest != sources.digest(file, uncalled)
    ]
    if changed:
        raise WorkbenchError(
            f"{', '.join(changed)} changed after check_params had listed the code of "
            f"{listing.name}: DVC would keep what it makes as made by the code before",
            "run dvc repro again, without --single-item; by hand first: "
            "python -m stages.check_params --output data/.checks/code",
        )


def machinery_of(sources: Sources) -> list[str]:
    """The files that every stage loads, whatever it computes."""
    return sources.closure(MACHINERY, left_out=frozenset(), late=False)


def code_digest(root: Path = ROOT) -> str:
    """SHA-256 hex over the digests of all code that this process has loaded and may load: part of
    every resume fingerprint. A name made at run time counts once its module is loaded."""
    return _digest_of(root, frozenset(loaded_sources(root)))


@cache
def _digest_of(root: Path, loaded: frozenset[str]) -> str:
    sources = Sources(root, memory=SOURCES)
    modules = [
        file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for file in loaded - UNLISTED
        if not file.endswith("params.py")
    ]
    lines = (f"{file} {sources.digest(file)}" for file in sources.closure(modules))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


@cache
def _parse(source: bytes, without: frozenset[str] = frozenset()) -> Parsed:
    tree = ast.parse(source)
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            node.body = [part for part in node.body if getattr(part, "name", None) not in without]
    form = repr(_form(tree, words=True))
    early = set(_imports(tree, late=False))
    late = set(_imports(tree, late=True)) - early
    return hashlib.sha256(form.encode()).hexdigest()[:16], sorted(early), sorted(late)


def _imports(node: ast.AST, late: bool) -> Iterator[str]:
    """The first-party modules that a syntax tree imports; late: those inside functions, too."""
    if _changes_nothing(node) or (isinstance(node, FUNCTIONS) and not late):
        return
    if isinstance(node, ast.Import):
        yield from (name.name for name in node.names if _is_own(name.name))
    elif isinstance(node, ast.ImportFrom) and node.module and _is_own(node.module):
        yield node.module
        yield from (f"{node.module}.{name.name}" for name in node.names)
    for child in ast.iter_child_nodes(node):
        yield from _imports(child, late)


def _form(node: object, words: bool) -> object:
    """What of a syntax tree decides results, the same in every version of Python. words: whether
    strings count; those of an exception that is raised do not."""
    if isinstance(node, list):
        forms = (_form(item, words) for item in node)
        return [form for form in forms if form is not None]
    if not isinstance(node, ast.AST):
        return repr(node)
    if _changes_nothing(node):
        return None
    if isinstance(node, ast.Constant):
        return repr(node.value) if words or not isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):  # Python 3.12 adds empty parts to a format
        parts = [part for part in node.values if getattr(part, "value", None) != ""]
        return "JoinedStr", _form(parts, words)
    words = words and not isinstance(node, ast.Raise)
    fields = ((name, value) for name, value in ast.iter_fields(node) if name not in IGNORED_FIELDS)
    return type(node).__name__, [
        (name, _form(value, words)) for name, value in fields if value is not None and value != []
    ]


def _changes_nothing(node: ast.AST) -> bool:
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def _is_own(module: str) -> bool:
    return module.partition(".")[0] in PACKAGES
