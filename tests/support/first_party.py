"""Who imports whom, read from the sources: what the architecture tests judge."""

import ast
from functools import cache
from pathlib import Path

PACKAGES = ("pipeline", "models", "stages", "vse_workbench")
IGNORED = ("params.py", "queries.py", "towers.py")  # by .dvcignore: they change no result


@cache
def module_file(root: Path, module: str) -> Path | None:
    """The file of a dotted first-party module, or None."""
    base = root.joinpath(*module.split("."))
    for path in (base.with_suffix(".py"), base / "__init__.py"):
        if path.is_file():
            return path
    return None


@cache
def imported(root: Path, file: Path) -> set[str]:
    """First-party modules that a file imports anywhere, inside functions too."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import; write the package's name"
            assert node.module
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return {name for name in names if name.split(".")[0] in PACKAGES and module_file(root, name)}


def libraries(file: Path) -> set[str]:
    """Top-level names of everything that a file imports, first-party packages too."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return {name.split(".")[0] for name in names}


def with_parents(module: str) -> list[str]:
    """A module and the packages that are executed when it is imported."""
    parts = module.split(".")
    return [".".join(parts[:depth]) for depth in range(1, len(parts) + 1)]


@cache
def is_empty(file: Path) -> bool:
    """Whether a file holds nothing but a docstring."""
    body = ast.parse(file.read_text(encoding="utf-8")).body
    return all(isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) for node in body)


def closure(root: Path, modules: list[str], leave_out: tuple[str, ...] = ()) -> set[str]:
    """Files, relative to root, executed when `modules` are imported, `leave_out` not followed.

    A package in `leave_out` stands for all its modules, "package.__init__" for its own file alone.
    """
    seen: set[str] = set()
    queue = [part for module in modules for part in with_parents(module)]
    files = set()
    while queue:
        module = queue.pop()
        file = module_file(root, module)
        if module in seen or file is None or set(with_parents(module)) & set(leave_out):
            continue
        seen.add(module)
        if not is_empty(file) and f"{module}.__init__" not in leave_out:
            files.add(str(file.relative_to(root)))
        for name in imported(root, file):
            queue += with_parents(name)
    return files


def folders(files: set[str]) -> set[str]:
    """What DVC is told of files of code: the packages under pipeline/ and models/, stages alone."""
    return {
        file if file.startswith("stages/") else "/".join(file.split("/")[:2])
        for file in files
        if file.count("/")
    }


def reachable(root: Path, wanted: set[str], leave_out: tuple[str, ...] = ()) -> set[str]:
    """Folders that code in `wanted` may need: imports of any of their modules, transitively."""
    found, queue = set(wanted), list(wanted)
    while queue:
        place = root / queue.pop()
        modules = [
            ".".join(file.relative_to(root).with_suffix("").parts)
            for file in ([place] if place.is_file() else sorted(place.rglob("*.py")))
            if file.name not in IGNORED
        ]
        new = folders(closure(root, modules, leave_out)) - found
        found |= new
        queue += new
    return found
