"""Who imports whom, read from the sources: what the architecture tests judge."""

import ast
from functools import cache
from pathlib import Path

PACKAGES = ("pipeline", "models", "stages", "vse_workbench")


@cache
def module_file(root: Path, module: str) -> Path | None:
    base = root.joinpath(*module.split("."))
    for path in (base.with_suffix(".py"), base / "__init__.py"):
        if path.is_file():
            return path
    return None


@cache
def imported(root: Path, file: Path) -> set[str]:
    """First-party modules that a file imports."""
    return {n for n in names(file) if n.split(".")[0] in PACKAGES and module_file(root, n)}


def libraries(file: Path) -> set[str]:
    """Top-level names of everything that a file imports, first-party packages too."""
    return {name.split(".")[0] for name in names(file)}


def names(file: Path) -> set[str]:
    """Modules that a file imports anywhere, inside functions too, and what it takes from them."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import; write the package's name"
            assert node.module
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found
